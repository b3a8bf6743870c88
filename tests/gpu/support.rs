//! The packed programs, and the GPU as NVIDIA's own program describes it.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The directory of the packed programs.
pub fn pack() -> PathBuf {
    let named = std::env::var_os("CUDA_BUILD_GPU_PROGRAMS").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
    let pack = named.or_else(beside).unwrap();
    assert!(
        pack.join("native-app").is_file(),
        "{} holds no packed programs: make them with `tests/gpu/pack DIRECTORY`, and start DIRECTORY/gpu, or name it \
         with CUDA_BUILD_GPU_PROGRAMS",
        pack.display()
    );
    pack
}

/// A packed program, with none of the variables that decide which driver code is used.
pub fn program(name: &str) -> Command {
    let path = pack().join(name);
    assert!(path.is_file(), "{} was not packed", path.display());
    let mut command = Command::new(path);
    for variable in [
        "CUDA_FORCE_PTX_JIT",
        "CUDA_DISABLE_PTX_JIT",
        "CUDA_VISIBLE_DEVICES",
    ] {
        command.env_remove(variable);
    }
    command
}

/// `cargo cuda …` in an empty directory, with a cache of its own.
pub fn cargo_cuda(place: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = program("cargo-cuda");
    command
        .arg("cuda")
        .args(arguments)
        .current_dir(place.path());
    command.env("CUDA_BUILD_CACHE_DIR", place.path().join("cache"));
    command
}

/// What a program left behind.
#[derive(Debug)]
pub struct Ran {
    pub succeeded: bool,
    pub stdout: String,
    pub stderr: String,
}

pub fn run(command: &mut Command) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let ran = Ran {
        succeeded: status.success(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    };
    // Seen where the test fails, or with `--nocapture`.
    println!("{command:?}: {status}\n{}{}", ran.stdout, ran.stderr);
    ran
}

impl Ran {
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.succeeded, "{self:?}");
        self
    }

    /// The rest of the line that begins so.
    #[track_caller]
    pub fn after(&self, start: &str) -> &str {
        let rest = self
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix(start));
        rest.unwrap_or_else(|| panic!("no line begins with {start:?}: {self:?}"))
    }
}

/// The first GPU and its driver.
#[derive(Debug)]
pub struct Gpu {
    /// As in `9.0`.
    pub capability: String,
    /// How many there are.
    pub count: usize,
    /// The newest CUDA that the driver runs: major, minor.
    pub cuda: (u32, u32),
    /// The driver's own version, as in `580.65.06`.
    pub driver: String,
}

impl Gpu {
    /// `nvidia-smi`'s answer.
    pub fn of_this_machine() -> Self {
        let mut query = Command::new("nvidia-smi");
        let lines = run(query.args([
            "--query-gpu=compute_cap,driver_version",
            "--format=csv,noheader",
        ]))
        .ok();
        let gpus: Vec<(&str, &str)> = lines
            .stdout
            .lines()
            .filter_map(|line| line.split_once(", "))
            .collect();
        let (capability, driver) = *gpus.first().unwrap();
        let shown = run(&mut Command::new("nvidia-smi")).ok().stdout;
        // `| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |`, and since driver 610
        // `CUDA UMD Version: 13.3`.
        let shown = shown.replace("CUDA UMD Version:", "CUDA Version:");
        let version = shown
            .split("CUDA Version:")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next());
        let cuda = version.and_then(pair).unwrap();
        Self {
            capability: capability.to_owned(),
            count: gpus.len(),
            cuda,
            driver: driver.to_owned(),
        }
    }

    /// `9.0` as 90.
    pub fn number(&self) -> u32 {
        let (major, minor) = pair(&self.capability).unwrap();
        10 * major + minor
    }
}

/// `13.4`
pub fn pair(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
