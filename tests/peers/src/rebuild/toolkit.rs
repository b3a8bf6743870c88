//! A CUDA root whose compilers count how often they are called.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::Component;
use cuda_build::internal::select::{Need, Part, Request};
use cuda_build::internal::{Env, Root, Search, Target};

use super::project::FILES;
use crate::measure::measured;

/// Links to a real toolkit, nvcc among them. The two programs that nvcc starts for each file and for
/// each image are scripts in front of the real ones, so that nvcc itself is what it always is.
pub struct Counted {
    root: PathBuf,
    log: PathBuf,
    pub version: String,
}

/// How often the compilers were called.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// `cudafe++`, which splits the host code from a file: once for each file that is compiled as a whole.
    pub files: usize,
    /// `cicc`, which compiles device code: once for each capability of each file.
    pub images: usize,
}

const PROGRAMS: [&str; 2] = ["bin/cudafe++", "nvvm/bin/cicc"];

impl Counted {
    /// Looks for nvcc as a build script would.
    pub fn new(root: &Path) -> Result<Self, Box<dyn Error>> {
        let (env, target) = (
            Env::from_process(),
            Target::from_triple("x86_64-unknown-linux-gnu")?,
        );
        let need = |component, part| Need::new(component, part, "to measure");
        let needs = vec![
            need(Component::Nvcc, Part::Tools),
            need(Component::Cudart, Part::Archive),
        ];
        let request = Request {
            needs,
            toolkit: ">=13".parse()?,
            ..Request::default()
        };
        let search = Search {
            root: &Root::system(),
            env: &env,
            target: &target,
            places: Vec::new(),
        };
        let toolkit = search.find(&request)?;
        let nvcc = toolkit.tool(Component::Nvcc, "nvcc").ok_or("no nvcc")?;
        let real = nvcc
            .parent()
            .and_then(Path::parent)
            .ok_or("nvcc lies in no root")?;
        let version = toolkit
            .get(Component::Nvcc)
            .map(cuda_build::internal::probe::Found::shown_version);

        link_entries(real, root, &["bin", "nvvm"])?;
        link_entries(&real.join("bin"), &root.join("bin"), &["cudafe++"])?;
        link_entries(&real.join("nvvm"), &root.join("nvvm"), &["bin"])?;
        link_entries(&real.join("nvvm/bin"), &root.join("nvvm/bin"), &["cicc"])?;
        // The neighbours look for the libraries under the names of NVIDIA's installers.
        for name in ["lib64", "lib"] {
            let link = root.join(name);
            if fs::symlink_metadata(&link).is_err() {
                symlink(real.join("lib"), link)?;
            }
        }
        let log = root.join("calls");
        for program in PROGRAMS {
            let script = format!(
                "#!/bin/sh\necho {program} >> '{}'\nexec '{}' \"$@\"\n",
                log.display(),
                real.join(program).display()
            );
            let path = root.join(program);
            fs::write(&path, script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self {
            root: root.to_owned(),
            log,
            version: version.unwrap_or_default(),
        })
    }

    /// Forgets the calls so far.
    pub fn forget(&self) -> std::io::Result<()> {
        fs::write(&self.log, "")
    }

    pub fn calls(&self) -> std::io::Result<Calls> {
        let text = fs::read_to_string(&self.log)?;
        let count = |program| text.lines().filter(|line| *line == program).count();
        let [files, images] = PROGRAMS.map(count);
        Ok(Calls { files, images })
    }

    pub fn nvcc(&self) -> PathBuf {
        self.root.join("bin/nvcc")
    }

    /// Whether a program has as many images for each of these capabilities, and none for others of `all`.
    /// The `cc` crate links device code, which leaves one image for all files.
    pub fn has_exactly(
        &self,
        program: &Path,
        capabilities: &[&str],
        all: &[&str],
    ) -> Result<bool, Box<dyn Error>> {
        let mut command = Command::new(self.root.join("bin/cuobjdump"));
        let (_, text) = measured(command.arg("--list-elf").arg(program))?;
        let of = |name: &str| text.matches(&format!(".sm_{name}.cubin")).count();
        let expected = of(capabilities[0]);
        let is_right = |name: &&str| {
            let wanted = capabilities.contains(name);
            of(name) == if wanted { expected } else { 0 }
        };
        Ok([1, FILES].contains(&expected) && all.iter().all(is_right))
    }

    /// Everything that one of the neighbours asks for.
    pub fn export(&self, command: &mut Command) {
        for name in [
            "CUDA_HOME",
            "CUDA_PATH",
            "CUDA_ROOT",
            "CUDA_TOOLKIT_ROOT_DIR",
            "CUDAToolkit_ROOT",
        ] {
            command.env(name, &self.root);
        }
        command
            .env("NVCC", self.nvcc())
            .env("CUDACXX", self.nvcc())
            .env("CUDA_COMPUTE_CAP", "80");
        let mut path = vec![self.root.join("bin")];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        command.env("PATH", std::env::join_paths(path).unwrap_or_default());
    }
}

/// Links to everything in a directory, except some names.
fn link_entries(from: &Path, to: &Path, except: &[&str]) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !except.iter().any(|name| entry.file_name() == *name) {
            symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
