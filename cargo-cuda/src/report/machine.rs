//! The kind of this machine, which decides where the driver's libraries are: WSL, NixOS and Jetson
//! boards have directories of their own, a container has the libraries that it is given.

use std::path::{Path, PathBuf};

use cuda_build::internal::Root;
use cuda_build::internal::driver::{Driver, NoDriver};
use cuda_build::internal::link::nixos_directory;
use cuda_build::{ToolkitVersion, Version};

use super::driver::module_version;

/// What the file system shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Linux below Windows: the driver is that of Windows.
    pub wsl: bool,
    /// The driver's libraries are in `/run/opengl-driver/lib`.
    pub nixos: bool,
    pub jetson: bool,
    /// A container that Docker or Podman made.
    pub container: bool,
    /// The version of the driver's kernel module. WSL and Jetson boards have none to read.
    pub module: Option<String>,
    /// A `libcuda.so.1` where distributions put it, that is no link to Windows' own.
    pub packaged: Option<PathBuf>,
    /// Directories with NVIDIA's libraries for forward compatibility, newest toolkit last.
    pub compat: Vec<PathBuf>,
}

impl Machine {
    /// Reads the files in which the kinds differ.
    pub fn read(root: &Root, multiarch: &str) -> Self {
        let text = |place: &str| root.text(&root.locate(place)).ok();
        let file = |place: &str| root.is_file(&root.locate(place));
        let packaged = [format!("/usr/lib/{multiarch}"), "/usr/lib64".to_owned()]
            .map(|d| root.locate(&d).join("libcuda.so.1"));
        let local = root.locate("/usr/local");
        let toolkits = root.names(&local).into_iter().filter_map(|name| {
            let release: Option<Version> = name
                .to_str()?
                .strip_prefix("cuda")?
                .trim_start_matches('-')
                .parse()
                .ok();
            let compat = local.join(&name).join("compat");
            root.is_file(&compat.join("libcuda.so.1"))
                .then(|| (release, root.resolve(&compat)))
        });
        let mut compat: Vec<(Option<Version>, PathBuf)> = toolkits.collect();
        // `/usr/local/cuda` is a link to one that has its release in its name.
        compat.sort();
        let mut compat: Vec<PathBuf> = compat.into_iter().map(|(_, directory)| directory).collect();
        compat.dedup();
        let windows = root.resolve(&root.locate("/usr/lib/wsl"));
        let packaged = packaged
            .into_iter()
            .find(|path| root.is_file(path) && !root.resolve(path).starts_with(&windows));
        Self {
            wsl: text("/proc/sys/kernel/osrelease")
                .is_some_and(|name| name.to_lowercase().contains("microsoft")),
            nixos: nixos_directory(root).is_some(),
            jetson: file("/etc/nv_tegra_release"),
            container: file("/.dockerenv") || file("/run/.containerenv"),
            module: text("/proc/driver/nvidia/version")
                .and_then(|text| Some(module_version(&text)?.to_string())),
            packaged,
            compat,
        }
    }

    /// Sentences for programs that use the GPU. A build needs no driver.
    pub fn notes(
        &self,
        driver: &Result<Driver, NoDriver>,
        toolkit: Option<ToolkitVersion>,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        match driver {
            // A driver that is installed and does not start has its own message.
            Err(none) => notes.extend(self.how_to_get_one().filter(|_| !none.is_installed)),
            Ok(driver) => {
                notes.extend(self.out_of_the_loaders_sight(Path::new(&driver.opened_as)));
                notes.extend(
                    toolkit
                        .filter(|toolkit| driver.version < *toolkit)
                        .and_then(|t| self.compat(t)),
                );
            }
        }
        // Even if it starts: it needs a kernel module that WSL does not have.
        if let Some(packaged) = self.packaged.as_ref().filter(|_| self.wsl) {
            notes.push(format!(
                "{} is a driver for Linux itself and hides the one of Windows in /usr/lib/wsl/lib: remove the package \
                 that it belongs to",
                packaged.display()
            ));
        }
        notes
    }

    fn how_to_get_one(&self) -> Option<String> {
        Some(if self.wsl && !self.container {
            "this is WSL: install NVIDIA's driver in Windows and none in here; its libcuda.so.1 then lies in \
             /usr/lib/wsl/lib (`wsl --update` where it does not)"
                .to_owned()
        } else if self.nixos {
            "this is NixOS: `hardware.graphics.enable = true` and `services.xserver.videoDrivers = [ \"nvidia\" ]` put \
             the driver's libraries into /run/opengl-driver/lib"
                .to_owned()
        } else if self.jetson {
            "this is a Jetson board: libcuda.so.1 comes with JetPack, in the package nvidia-l4t-cuda"
                .to_owned()
        } else {
            match (&self.module, self.container) {
                (Some(module), true) => format!(
                    "the kernel module of driver {module} is loaded, and this container was given none of its libraries: \
                     start it with `--gpus all` (Docker) or `--device nvidia.com/gpu=all` (Podman), and with `compute` in \
                     NVIDIA_DRIVER_CAPABILITIES where that is set"
                ),
                (Some(module), false) => format!(
                    "the kernel module of driver {module} is loaded, its CUDA library is not installed: libcuda1 (Debian), \
                     libnvidia-compute-… (Ubuntu), nvidia-driver-cuda-libs (Fedora), nvidia-utils (Arch)"
                ),
                (None, true) if self.wsl => {
                    "this is a container below WSL: start it with `--gpus all` (Docker)".to_owned()
                }
                (None, _) => return None,
            }
        })
    }

    /// The driver answered us from a place that no loader looks into by itself.
    fn out_of_the_loaders_sight(&self, library: &Path) -> Option<String> {
        let directory = library.parent().filter(|d| d.is_absolute())?;
        let place = directory.display();
        if directory.starts_with("/usr/lib/wsl") {
            return Some(
                "programs find it only where /usr/lib/wsl/lib is on the loader's path: `echo /usr/lib/wsl/lib | sudo tee \
                 /etc/ld.so.conf.d/wsl.conf && sudo ldconfig`, or LD_LIBRARY_PATH"
                    .to_owned(),
            );
        }
        if self.nixos && directory.starts_with("/run/opengl-driver") {
            return Some(format!(
                "programs find it by a search path of their own, which cuda-build and `cargo cuda` give them; others want \
                 LD_LIBRARY_PATH={place}"
            ));
        }
        self.jetson
            .then(|| format!("programs find it only where {place} is on the loader's path"))
    }

    fn compat(&self, toolkit: ToolkitVersion) -> Option<String> {
        match (self.compat.last(), self.jetson) {
            (Some(directory), _) => Some(format!(
                "{} holds libraries for forward compatibility: on data centre GPUs and Jetson boards, programs of CUDA \
                 {toolkit} run with it first in LD_LIBRARY_PATH, if it is of that release",
                directory.display()
            )),
            (None, true) => Some(format!(
                "JetPack's package cuda-compat-{}-{} lets this driver run CUDA {toolkit}, where there is one for this \
                 JetPack",
                toolkit.major, toolkit.minor
            )),
            (None, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "tests write the files that are then looked for"
    )]
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let top = tempfile::tempdir().unwrap();
        for (place, text) in files {
            let path = top.path().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = Machine::read(&Root::below(top.path()), "x86_64-linux-gnu");
        (top, machine)
    }

    /// One that was opened by this name.
    fn driver(name: &str) -> Result<Driver, NoDriver> {
        let library = "/nix/store/0a1b2c3d-nvidia-x11/lib/libcuda.so.535.183.01".to_owned();
        Ok(Driver {
            version: ToolkitVersion::new(12, 2),
            gpus: Vec::new(),
            library,
            opened_as: name.to_owned(),
        })
    }

    fn none() -> Result<Driver, NoDriver> {
        Err(NoDriver {
            reason: "no driver".to_owned(),
            is_installed: false,
        })
    }

    const WSL: (&str, &str) = (
        "proc/sys/kernel/osrelease",
        "5.15.153.1-microsoft-standard-WSL2\n",
    );
    const MODULE: (&str, &str) = (
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul\n",
    );

    #[test]
    fn without_a_driver_each_kind_has_its_own_way_to_one() {
        for (files, expected) in [
            (
                &[WSL][..],
                "install NVIDIA's driver in Windows and none in here",
            ),
            (&[("etc/NIXOS", "")], "hardware.graphics.enable = true"),
            (&[("etc/nv_tegra_release", "# R36")], "nvidia-l4t-cuda"),
            (
                &[WSL, (".dockerenv", "")],
                "this is a container below WSL: start it with `--gpus all`",
            ),
            (
                &[MODULE, (".dockerenv", "")],
                "driver 580.65.06 is loaded, and this container was given none",
            ),
            (
                &[MODULE, ("run/.containerenv", "")],
                "--device nvidia.com/gpu=all",
            ),
            (
                &[MODULE],
                "driver 580.65.06 is loaded, its CUDA library is not installed: libcuda1 (Debian)",
            ),
        ] {
            let (_top, machine) = machine(files);
            let notes = machine.notes(&none(), None);
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(notes[0].contains(expected), "{notes:?}");
        }
        let (_top, plain) = machine(&[
            ("proc/sys/kernel/osrelease", "6.1.0-42-amd64\n"),
            (".dockerenv", ""),
        ]);
        assert!(plain.notes(&none(), None).is_empty(), "no GPU is no fault");
    }

    #[test]
    fn a_driver_that_programs_do_not_find() {
        let (_top, wsl) = machine(&[WSL]);
        assert!(
            wsl.notes(&driver("/usr/lib/wsl/lib/libcuda.so.1"), None)[0].contains("sudo ldconfig")
        );
        assert!(
            wsl.notes(&driver("/usr/lib/wsl/drivers/nv_x/libcuda.so.1.1"), None)[0]
                .contains("sudo ldconfig")
        );
        let (_top, nixos) = machine(&[("etc/NIXOS", "")]);
        let notes = nixos.notes(&driver("/run/opengl-driver/lib/libcuda.so.1"), None);
        assert!(
            notes[0].contains("LD_LIBRARY_PATH=/run/opengl-driver/lib"),
            "{notes:?}"
        );
        let (_top, plain) = machine(&[MODULE]);
        assert!(plain.notes(&driver("libcuda.so.1"), None).is_empty());
        let broken = Err(NoDriver {
            reason: "the driver's cuInit failed with error 999".to_owned(),
            is_installed: true,
        });
        assert!(plain.notes(&broken, None).is_empty(), "it is installed");
    }

    #[test]
    fn a_driver_of_linux_below_windows() {
        let (top, machine) = machine(&[WSL, ("usr/lib/x86_64-linux-gnu/libcuda.so.1", "")]);
        let path = top
            .path()
            .join("usr/lib/x86_64-linux-gnu/libcuda.so.1")
            .display()
            .to_string();
        for driver in [
            Err(NoDriver {
                reason: "cuInit failed".to_owned(),
                is_installed: true,
            }),
            driver("libcuda.so.1"),
        ] {
            let notes = machine.notes(&driver, None);
            assert!(
                notes
                    .iter()
                    .any(|n| n.starts_with(&path) && n.contains("hides the one of Windows")),
                "{notes:?}"
            );
        }
    }

    #[test]
    fn forward_compatibility_where_the_toolkit_is_newer() {
        let toolkit = |minor| Some(ToolkitVersion::new(12, minor));
        let (_top, installed) = machine(&[
            ("usr/local/cuda-9.2/compat/libcuda.so.1", ""),
            ("usr/local/cuda-12.4/compat/libcuda.so.1", ""),
            ("usr/local/cuda-12.9/compat/libcuda.so.1", ""),
        ]);
        let notes = installed.notes(&driver("libcuda.so.1"), toolkit(9));
        assert!(
            notes[0].contains("usr/local/cuda-12.9/compat holds libraries for forward"),
            "{notes:?}"
        );
        assert!(
            installed
                .notes(&driver("libcuda.so.1"), toolkit(2))
                .is_empty()
        );
        let (_top, jetson) = machine(&[("etc/nv_tegra_release", "")]);
        let notes = jetson.notes(&driver("libcuda.so.1"), toolkit(6));
        assert!(notes[0].contains("cuda-compat-12-6"), "{notes:?}");
    }
}
