//! A CUDA root whose nvcc counts how often it is called.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::Component;
use cuda_build::internal::select::{Need, Part, Request};
use cuda_build::internal::{Env, Root, Search, Target};

/// Links to a real toolkit, nvcc a script in front of the real one.
pub struct Shims {
    root: PathBuf,
    log: PathBuf,
    pub version: String,
}

/// How often nvcc was called.
pub struct Calls {
    /// To compile a `.cu` file of the project.
    pub compilations: usize,
    /// For anything else: questions about itself, archives, device links.
    pub other: usize,
}

impl Shims {
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

        fs::create_dir_all(root.join("bin"))?;
        for entry in fs::read_dir(real)? {
            let entry = entry?;
            if entry.file_name() != "bin" {
                symlink(entry.path(), root.join(entry.file_name()))?;
            }
        }
        // The neighbours look for the libraries under the names of NVIDIA's installers.
        for name in ["lib64", "lib"] {
            let link = root.join(name);
            if fs::symlink_metadata(&link).is_err() {
                symlink(real.join("lib"), link)?;
            }
        }
        for entry in fs::read_dir(real.join("bin"))? {
            let entry = entry?;
            if entry.file_name() != "nvcc" {
                symlink(entry.path(), root.join("bin").join(entry.file_name()))?;
            }
        }
        let log = root.join("calls");
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{}'\nexec '{}' \"$@\"\n",
            log.display(),
            nvcc.display()
        );
        let shim = root.join("bin/nvcc");
        fs::write(&shim, script)?;
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
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
        // A dry run and a preprocessor run name the file as well.
        let compiles = |call: &&str| {
            let mut words = call.split(' ');
            words
                .clone()
                .any(|word| word.ends_with(".cu") && word.contains("kernels/k"))
                && words.any(|word| matches!(word, "-c" | "-dc" | "--compile" | "--device-c"))
                && !call.contains("-dryrun")
        };
        let compilations = text.lines().filter(compiles).count();
        Ok(Calls {
            compilations,
            other: text.lines().count() - compilations,
        })
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
        let nvcc = self.root.join("bin/nvcc");
        command
            .env("NVCC", &nvcc)
            .env("CUDACXX", &nvcc)
            .env("CUDA_COMPUTE_CAP", "80");
        let mut path = vec![self.root.join("bin")];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        command.env("PATH", std::env::join_paths(path).unwrap_or_default());
    }
}
