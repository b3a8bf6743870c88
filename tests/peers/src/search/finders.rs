//! Those who look, each as a command that a user would run.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_build::Component;
use cuda_build::internal::select::{Need, Part, Request};
use cuda_build::internal::{Env, Root, Search, Target};

use super::places::{Place, site_packages};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// This program, its caches dropped before or not.
    Own {
        cold: bool,
    },
    CMake {
        finds: bool,
    },
    Pathfinder {
        script: &'static str,
    },
    /// What starting any process costs.
    Nothing,
}

pub struct Finder {
    pub name: &'static str,
    kind: Kind,
    /// How often in one round: short ones need more samples.
    pub repeats: usize,
}

const HEADERS: &str = "
from cuda import pathfinder
names = [n for n in ('cudart', 'cublas', 'cufft', 'nvrtc') if pathfinder.find_nvidia_header_directory(n)]
if pathfinder.find_nvidia_binary_utility('nvcc'): names.append('nvcc')
print('found:', *names)
";

const LIBRARIES: &str = "
from cuda import pathfinder
names = []
for n in ('cudart', 'cublas', 'cufft', 'nvrtc'):
    try:
        if pathfinder.find_nvidia_header_directory(n) and pathfinder.load_nvidia_dynamic_lib(n): names.append(n)
    except pathfinder.DynamicLibNotFoundError: pass
if pathfinder.find_nvidia_binary_utility('nvcc'): names.append('nvcc')
print('found:', *names)
";

/// The first two are the ones that the others are compared with.
pub const FINDERS: [Finder; 8] = [
    Finder {
        name: "cuda-build, cold",
        kind: Kind::Own { cold: true },
        repeats: 8,
    },
    Finder {
        name: "cuda-build, warm",
        kind: Kind::Own { cold: false },
        repeats: 8,
    },
    Finder {
        name: "CMake, `find_package(CUDAToolkit)`",
        kind: Kind::CMake { finds: true },
        repeats: 2,
    },
    Finder {
        name: "(CMake, the project without it)",
        kind: Kind::CMake { finds: false },
        repeats: 2,
    },
    Finder {
        name: "cuda-pathfinder, headers, nvcc, libraries loaded",
        kind: Kind::Pathfinder { script: LIBRARIES },
        repeats: 2,
    },
    Finder {
        name: "cuda-pathfinder, headers and nvcc alone",
        kind: Kind::Pathfinder { script: HEADERS },
        repeats: 2,
    },
    Finder {
        name: "(Python, doing nothing)",
        kind: Kind::Pathfinder {
            script: "print('found: ')",
        },
        repeats: 2,
    },
    Finder {
        name: "(`true`, as a process)",
        kind: Kind::Nothing,
        repeats: 8,
    },
];

impl Finder {
    /// The command, everything that it may have kept from before removed unless it is the warm one.
    pub fn prepare(&self, place: &Place, scratch: &Path) -> Result<Command, Box<dyn Error>> {
        let home = scratch.join("home");
        let mut command = match self.kind {
            Kind::Own { cold } => {
                if cold {
                    remove(&home)?;
                }
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("find");
                command
            }
            Kind::CMake { finds } => cmake(scratch, finds)?,
            Kind::Nothing => Command::new("true"),
            Kind::Pathfinder { script } => {
                let mut command = Command::new(place.python.join("bin/python"));
                command.args(["-c", script]);
                command
            }
        };
        fs::create_dir_all(&home)?;
        command.env_clear().current_dir(scratch).env("HOME", &home);
        command.env("PATH", format!("{}:/usr/bin:/bin", place.path.display()));
        command.envs(place.variables.iter().map(|(name, value)| (*name, value)));
        if self.kind == (Kind::Own { cold: true }) || self.kind == (Kind::Own { cold: false }) {
            // Only said for CMake's sake; we find the wheels by `VIRTUAL_ENV`.
            command.env_remove("CUDAToolkit_ROOT");
        }
        Ok(command)
    }
}

fn remove(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn cmake(scratch: &Path, finds: bool) -> Result<Command, Box<dyn Error>> {
    let source = scratch.join("project");
    let build = scratch.join("cmake-build");
    remove(&build)?;
    fs::create_dir_all(&source)?;
    let mut text =
        "cmake_minimum_required(VERSION 3.24)\nproject(p LANGUAGES NONE)\nset(found)\n".to_owned();
    if finds {
        text.push_str(
            "find_package(CUDAToolkit)\nforeach(name cudart cublas cufft nvrtc)\n  if(TARGET CUDA::${name})\n    \
             list(APPEND found ${name})\n  endif()\nendforeach()\nif(CUDAToolkit_NVCC_EXECUTABLE)\n  \
             list(APPEND found nvcc)\nendif()\n",
        );
    }
    text.push_str("message(STATUS \"found: ${found}\")\n");
    fs::write(source.join("CMakeLists.txt"), text)?;
    let mut command = Command::new(program("cmake")?);
    // Without a language CMake does not know the directory of Debian's libraries.
    command
        .arg("-S")
        .arg(source)
        .arg("-B")
        .arg(build)
        .arg("-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu");
    command.args(["-G", "Unix Makefiles"]);
    Ok(command)
}

fn program(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file());
    found.ok_or_else(|| format!("no `{name}` on `PATH`").into())
}

/// Which versions of the others.
pub fn versions(venv: &Path) -> Result<String, Box<dyn Error>> {
    let output = Command::new(program("cmake")?).arg("--version").output()?;
    let cmake = String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    let mut pathfinder = None;
    for entry in fs::read_dir(site_packages(venv)?)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let version = name
            .strip_prefix("cuda_pathfinder-")
            .and_then(|rest| rest.strip_suffix(".dist-info"));
        pathfinder = version.map(str::to_owned).or(pathfinder);
    }
    let pathfinder = pathfinder.ok_or("the virtual environment has no cuda-pathfinder")?;
    Ok(format!("{cmake}, cuda-pathfinder {pathfinder}"))
}

/// Our side: what a build script does, as a process of its own.
///
/// # Errors
/// Those of the search.
pub fn find() -> Result<(), Box<dyn Error>> {
    let (env, target) = (
        Env::from_process(),
        Target::from_triple("x86_64-unknown-linux-gnu")?,
    );
    let mut needs = vec![Need::new(Component::Nvcc, Part::Tools, "to measure")];
    for component in [
        Component::Cudart,
        Component::Cublas,
        Component::Cufft,
        Component::Nvrtc,
    ] {
        needs.extend(
            [Part::Headers, Part::Shared].map(|part| Need::new(component, part, "to measure")),
        );
    }
    let request = Request {
        needs,
        ..Request::default()
    };
    let search = Search {
        root: &Root::system(),
        env: &env,
        target: &target,
        places: Vec::new(),
    };
    let toolkit = search.find(&request)?;
    let names: Vec<&str> = toolkit
        .components()
        .iter()
        .map(|chosen| chosen.found.component.id())
        .collect();
    println!("found: {}", names.join(" "));
    Ok(())
}
