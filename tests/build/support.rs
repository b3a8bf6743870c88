//! Programs, and where the real components are.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cuda_build::nvrtc::Nvrtc;
use cuda_build::{Component, Toolkit};
use cuda_find_core::{
    env::Env,
    root::Root,
    search::SearchContext,
    select::{Need, Part, Request},
    target::Target,
};

use crate::components::site_packages;

/// The directory of CUDA 13 components: `nvidia/cu13`, with `bin/nvcc`. `None` where tests of
/// real components are left out.
pub fn toolkit13() -> PathBuf {
    let toolkit = site_packages(13).join("nvidia/cu13");
    assert!(
        toolkit.join("bin/nvcc").is_file(),
        "{} holds no bin/nvcc",
        toolkit.display()
    );
    toolkit
}

/// Runs a program to its end.
pub fn output(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("could not run {command:?}: {error}"),
    }
}

/// What a program wrote, both streams.
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs it; it must succeed. Returns what it printed.
#[track_caller]
pub fn succeeds(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}\n{}", text(&output));
    text(&output)
}

/// The names under `NEEDED`, and every path to look in at run time.
pub fn dynamic(program: &Path, tag: &str) -> Vec<String> {
    let printed = succeeds(Command::new("readelf").arg("-dW").arg(program));
    let lines = printed
        .lines()
        .filter(|line| line.contains(&format!("({tag})")));
    lines
        .filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned()))
        .collect()
}

/// The pip components of one CUDA major.
pub struct Components {
    pub nvrtc: PathBuf,
    pub bin: PathBuf,
}

/// CUDA 11, 12 or 13; `None` where tests of real components are left out.
pub fn components(major: u32) -> Components {
    let nvidia = site_packages(major).join("nvidia");
    let (nvrtc, bin) = match major {
        11 => ("cuda_nvrtc/lib/libnvrtc.so.11.2", "cuda_nvcc/bin"),
        12 => ("cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvcc/bin"),
        _ => ("cu13/lib/libnvrtc.so.13", "cu13/bin"),
    };
    let (nvrtc, bin) = (nvidia.join(nvrtc), nvidia.join(bin));
    let components = Components { nvrtc, bin };
    assert!(
        components.nvrtc.is_file(),
        "no {}",
        components.nvrtc.display()
    );
    components
}

/// NVRTC of this major.
pub fn nvrtc(major: u32) -> Nvrtc {
    Nvrtc::load(&components(major).nvrtc).unwrap()
}

/// Runs one of CUDA 13's tools and returns what it printed; it must succeed.
pub fn tool(bin: &Path, name: &str, directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(bin.join(name))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", bin.join(name).display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {text}");
    text
}

/// `cuobjdump --list-elf --list-ptx`, only the names: `sm_80.cubin`, `sm_120.ptx`.
pub fn listed(bin: &Path, fatbin: &Path) -> Vec<String> {
    let directory = fatbin.parent().unwrap();
    let text = tool(
        bin,
        "cuobjdump",
        directory,
        &["--list-elf", "--list-ptx", fatbin.to_str().unwrap()],
    );
    let names = text.lines().filter(|line| line.contains(" file "));
    names
        .map(|line| line.rsplit('.').take(2).collect::<Vec<_>>())
        .map(|p| format!("{}.{}", p[1], p[0]))
        .collect()
}

/// Every component in these places, as one toolkit.
pub fn everything_in(places: &[&Path]) -> Toolkit {
    let request = Request {
        alternatives: vec![vec![Need::new(Component::Cudart, Part::Headers, "to try")]],
        take_everything: true,
        ..Request::default()
    };
    let target = Target::from_triple("x86_64-unknown-linux-gnu").unwrap();
    let places = places.iter().map(|place| place.to_path_buf()).collect();
    let search = SearchContext {
        root: &Root::system(),
        env: &Env::default(),
        target: &target,
        places,
        runs_nvcc: true,
    };
    search.find(&request).unwrap()
}
