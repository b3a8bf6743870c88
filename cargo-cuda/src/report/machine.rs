//! The kind of this machine, which determines where the driver's libraries are. WSL, NixOS and
//! Jetson boards have their own directories; a container has only the libraries that are mounted
//! into it.

use std::path::{Path, PathBuf};

use cuda_build::internal::Root;
use cuda_build::internal::driver::{Driver, NoDriver};
use cuda_build::internal::link::nixos_driver_directory;
use cuda_build::{ToolkitVersion, Version};

/// The kind of machine, as detected from files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The Windows Subsystem for Linux, which uses the driver of Windows.
    wsl: bool,
    /// The driver's libraries are in `/run/opengl-driver/lib`.
    nixos: bool,
    jetson: bool,
    /// A container that Docker or Podman made.
    container: bool,
    /// The version of the driver's kernel module; `None` if the system does not report it, as on WSL and
    /// Jetson boards.
    pub module: Option<String>,
    /// A `libcuda.so.1` in a distribution's library directory. A link to the library of the Windows
    /// driver does not count.
    packaged: Option<PathBuf>,
    toolkit: Option<ToolkitVersion>,
    /// The directory with NVIDIA's libraries for forward compatibility, for this toolkit.
    compat: Option<PathBuf>,
}

impl Machine {
    /// Reads the files that identify the kind of machine.
    pub fn read(root: &Root, multiarch: &str, toolkit: Option<ToolkitVersion>) -> Self {
        let text = |place: &str| root.text(&root.locate(place)).ok();
        let file = |place: &str| root.is_file(&root.locate(place));
        let windows = root.resolve(&root.locate("/usr/lib/wsl"));
        let packaged = [&format!("/usr/lib/{multiarch}"), "/usr/lib64"]
            .into_iter()
            .map(|directory| root.locate(directory).join("libcuda.so.1"))
            .find(|path| root.is_file(path) && !root.resolve(path).starts_with(&windows));
        let compat = toolkit.and_then(|toolkit| {
            [&format!("/usr/local/cuda-{toolkit}"), "/usr/local/cuda"]
                .into_iter()
                .map(|directory| root.locate(directory).join("compat"))
                .find(|directory| root.is_file(&directory.join("libcuda.so.1")))
        });
        Self {
            wsl: text("/proc/sys/kernel/osrelease")
                .is_some_and(|name| name.to_lowercase().contains("microsoft")),
            nixos: nixos_driver_directory(root).is_some(),
            jetson: file("/etc/nv_tegra_release"),
            container: file("/.dockerenv") || file("/run/.containerenv"),
            module: text("/proc/driver/nvidia/version")
                .and_then(|text| Some(module_version(&text)?.to_string())),
            packaged,
            toolkit,
            compat,
        }
    }

    /// Notes about running programs on the GPU. A build needs no driver.
    pub fn notes(&self, driver: &Result<Driver, NoDriver>) -> Vec<String> {
        let mut notes = Vec::new();
        match driver {
            // If an installed driver fails to start, its own message explains the failure.
            Err(none) => notes.extend(self.how_to_install().filter(|_| !none.is_installed)),
            Ok(driver) => {
                notes.extend(self.loader_path(Path::new(&driver.opened_as)));
                let newer = self.toolkit.filter(|toolkit| driver.version < *toolkit);
                notes.extend(newer.and_then(|toolkit| self.compat(toolkit)));
            }
        }
        // Printed even if the packaged library loads: it cannot work, because WSL does not have the
        // kernel module that it needs.
        if let Some(packaged) = self.packaged.as_ref().filter(|_| self.wsl) {
            notes.push(format!(
                "{} belongs to a driver for native Linux and hides the driver of Windows in /usr/lib/wsl/lib: remove its \
                 package",
                packaged.display()
            ));
        }
        notes
    }

    fn how_to_install(&self) -> Option<String> {
        let note = match &self.module {
            _ if self.wsl && !self.container => {
                "this is WSL: install NVIDIA's driver in Windows, not in WSL; libcuda.so.1 is then in \
                 /usr/lib/wsl/lib (if it is not, run `wsl --update`)"
            }
            _ if self.nixos => {
                "this is NixOS: `hardware.graphics.enable = true` and `services.xserver.videoDrivers = [ \"nvidia\" ]` put \
                 the driver's libraries into /run/opengl-driver/lib"
            }
            _ if self.jetson => {
                "this is a Jetson board: libcuda.so.1 comes with JetPack, in the package nvidia-l4t-cuda"
            }
            Some(module) if self.container => {
                return Some(format!(
                    "the kernel module of driver {module} is loaded, but this container has none of its libraries: \
                     start it with `--gpus all` (Docker) or `--device nvidia.com/gpu=all` (Podman), and if \
                     NVIDIA_DRIVER_CAPABILITIES is set, add `compute` to it"
                ));
            }
            Some(module) => {
                return Some(format!(
                    "the kernel module of driver {module} is loaded, but its CUDA library is not installed: libcuda1 \
                     (Debian), libnvidia-compute-… (Ubuntu), nvidia-driver-cuda-libs (Fedora), nvidia-utils (Arch)"
                ));
            }
            None if self.wsl => "this is a container in WSL: start it with `--gpus all` (Docker)",
            None => return None,
        };
        Some(note.to_owned())
    }

    /// How programs find the driver's library if it is not on the loader's default search path.
    fn loader_path(&self, library: &Path) -> Option<String> {
        let directory = library.parent().filter(|d| d.is_absolute())?;
        let place = directory.display();
        if directory.starts_with("/usr/lib/wsl") {
            return Some(
                "programs find libcuda only if /usr/lib/wsl/lib is on the loader's path: `echo /usr/lib/wsl/lib | sudo tee \
                 /etc/ld.so.conf.d/wsl.conf && sudo ldconfig`, or LD_LIBRARY_PATH"
                    .to_owned(),
            );
        }
        if self.nixos && directory.starts_with("/run/opengl-driver") {
            return Some(format!(
                "cuda-build and `cargo cuda` add this directory to the search path of programs; other programs need \
                 LD_LIBRARY_PATH={place}"
            ));
        }
        self.jetson
            .then(|| format!("programs find libcuda only if {place} is on the loader's path"))
    }

    fn compat(&self, toolkit: ToolkitVersion) -> Option<String> {
        if let Some(directory) = &self.compat {
            return Some(format!(
                "{} has libraries for forward compatibility: on data centre GPUs and Jetson boards, programs of CUDA \
                 {toolkit} run if it is first in LD_LIBRARY_PATH",
                directory.display()
            ));
        }
        let ToolkitVersion { major, minor } = toolkit;
        self.jetson.then(|| {
            format!(
                "JetPack's package cuda-compat-{major}-{minor}, if this JetPack has it, lets this driver run CUDA {toolkit}"
            )
        })
    }
}

/// The version in `/proc/driver/nvidia/version`, as `nvidia-smi` shows it: `580.65.06`.
fn module_version(text: &str) -> Option<Version> {
    let line = text
        .lines()
        .find(|line| line.starts_with("NVRM version:"))?;
    // The version is the first word that parses as one, because its position differs:
    // `… NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul …`, or for the open kernel module
    // `… Open Kernel Module for x86_64  580.65.06  Release Build …`.
    let numbers = line.split_whitespace().filter(|word| word.contains('.'));
    numbers.filter_map(|word| word.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "tests write the files that are then looked for"
    )]
    fn machine(
        files: &[(&str, &str)],
        toolkit: Option<ToolkitVersion>,
    ) -> (tempfile::TempDir, Machine) {
        let top = tempfile::tempdir().unwrap();
        for (place, text) in files {
            let path = top.path().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = Machine::read(&Root::below(top.path()), "x86_64-linux-gnu", toolkit);
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
            (&[WSL][..], "install NVIDIA's driver in Windows, not in WSL"),
            (&[("etc/NIXOS", "")], "hardware.graphics.enable = true"),
            (&[("etc/nv_tegra_release", "# R36")], "nvidia-l4t-cuda"),
            (
                &[WSL, (".dockerenv", "")],
                "this is a container in WSL: start it with `--gpus all`",
            ),
            (
                &[MODULE, (".dockerenv", "")],
                "driver 580.65.06 is loaded, but this container has none",
            ),
            (
                &[MODULE, ("run/.containerenv", "")],
                "--device nvidia.com/gpu=all",
            ),
            (
                &[MODULE],
                "driver 580.65.06 is loaded, but its CUDA library is not installed: libcuda1 (Debian)",
            ),
        ] {
            let (_top, machine) = machine(files, None);
            let notes = machine.notes(&none());
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(notes[0].contains(expected), "{notes:?}");
        }
        let (_top, plain) = machine(
            &[
                ("proc/sys/kernel/osrelease", "6.1.0-42-amd64\n"),
                (".dockerenv", ""),
            ],
            None,
        );
        assert!(plain.notes(&none()).is_empty(), "no GPU is no fault");
    }

    #[test]
    fn a_driver_that_programs_do_not_find() {
        let (_top, wsl) = machine(&[WSL], None);
        assert!(wsl.notes(&driver("/usr/lib/wsl/lib/libcuda.so.1"))[0].contains("sudo ldconfig"));
        assert!(
            wsl.notes(&driver("/usr/lib/wsl/drivers/nv_x/libcuda.so.1.1"))[0]
                .contains("sudo ldconfig")
        );
        let (_top, nixos) = machine(&[("etc/NIXOS", "")], None);
        let notes = nixos.notes(&driver("/run/opengl-driver/lib/libcuda.so.1"));
        assert!(
            notes[0].contains("LD_LIBRARY_PATH=/run/opengl-driver/lib"),
            "{notes:?}"
        );
        let (_top, plain) = machine(&[MODULE], None);
        assert!(plain.notes(&driver("libcuda.so.1")).is_empty());
        let broken = Err(NoDriver {
            reason: "the driver's cuInit failed with error 999".to_owned(),
            is_installed: true,
        });
        assert!(plain.notes(&broken).is_empty(), "it is installed");
    }

    #[test]
    fn a_driver_of_linux_below_windows() {
        let (top, machine) = machine(&[WSL, ("usr/lib/x86_64-linux-gnu/libcuda.so.1", "")], None);
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
            let notes = machine.notes(&driver);
            assert!(
                notes
                    .iter()
                    .any(|n| n.starts_with(&path) && n.contains("hides the driver of Windows")),
                "{notes:?}"
            );
        }
    }

    #[test]
    fn forward_compatibility_where_the_toolkit_is_newer() {
        let toolkit = |minor| Some(ToolkitVersion::new(12, minor));
        let files = [
            ("usr/local/cuda-9.2/compat/libcuda.so.1", ""),
            ("usr/local/cuda-12.4/compat/libcuda.so.1", ""),
            ("usr/local/cuda-12.9/compat/libcuda.so.1", ""),
        ];
        let (_top, newer) = machine(&files, toolkit(9));
        let notes = newer.notes(&driver("libcuda.so.1"));
        assert!(
            notes[0].contains("usr/local/cuda-12.9/compat has libraries for forward"),
            "{notes:?}"
        );
        let (_top, same) = machine(&files, toolkit(2));
        assert!(same.notes(&driver("libcuda.so.1")).is_empty());
        let (_top, jetson) = machine(&[("etc/nv_tegra_release", "")], toolkit(6));
        let notes = jetson.notes(&driver("libcuda.so.1"));
        assert!(notes[0].contains("cuda-compat-12-6"), "{notes:?}");
    }

    #[test]
    fn the_kernel_modules_version() {
        for (text, expected) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:",
                Some("550.54.15"),
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build",
                Some("580.65.06"),
            ),
            ("NVRM version:\n", None),
            ("", None),
        ] {
            assert_eq!(
                module_version(text)
                    .map(|version| version.to_string())
                    .as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
