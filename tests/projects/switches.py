#!/usr/bin/env python3
"""Switches a package at random between lists of capabilities, CUDA releases, the nvcc wrapper, features and profiles.

    tests/projects/switches.py [--count N] [--seed SEED]

All builds are in the one target directory of `cargo cuda`. After each switch the program has to have the same bytes as
after a build in an empty target directory at the same path. The package has cudarc and cust, and crates of git whose
build scripts and procedural macro read CUDA's variables, call CMake or call nvcc, and declare nothing of it. Needs git,
CMake, and the toolkits of both releases (`cargo cuda toolkit add 12 13`); no GPU and no driver.
"""

import argparse
import hashlib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from measure import cargo_cuda, machine

MANIFEST = '[package]\nname = "NAME"\nversion = "0.1.0"\nedition = "2021"\n'
SCRIPT = """
use std::{env, fs, process::Command};
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").unwrap();
    let _ = Command::new("true").status();
    BODY
}
"""
READS = """
    let header = fs::read_to_string(env::var("CUDA_HOME").unwrap() + "/include/cuda.h").unwrap();
    let version = header.lines().find(|line| line.starts_with("#define CUDA_VERSION")).unwrap();
    let list = env::var("CUDAARCHS").unwrap();
    fs::write(out + "/found.rs", format!("pub const FOUND: &str = {:?};", format!("{version} {list}"))).unwrap();
"""
CONFIGURES = """
    let done = Command::new("cmake").args(["-S", ".", "-B", &out]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found = fs::read_to_string(out.clone() + "/found.txt").unwrap();
    fs::write(out + "/found.rs", format!("pub const FOUND: &str = {found:?};")).unwrap();
"""
LISTS = """cmake_minimum_required(VERSION 3.18)
project(configures LANGUAGES CXX)
find_package(CUDAToolkit REQUIRED)
file(WRITE ${CMAKE_BINARY_DIR}/found.txt "${CUDAToolkit_VERSION} $ENV{TORCH_CUDA_ARCH_LIST}")
"""
COMPILES = """
    let fatbin = out.clone() + "/k.fatbin";
    fs::write(&fatbin, "").unwrap();
    if let Ok(nvcc) = env::var("NVCC") {
        let arch = format!("-arch=sm_{}", env::var("CUDA_COMPUTE_CAP").unwrap());
        let done = Command::new(nvcc).args([&arch, "-fatbin", "k.cu", "-o", &fatbin]).status().unwrap();
        assert!(done.success());
    }
    fs::write(out + "/found.rs", "pub const FOUND: &[u8] = include_bytes!(\\"k.fatbin\\");").unwrap();
"""
MACRO = """
#[proc_macro]
pub fn expands(_: proc_macro::TokenStream) -> proc_macro::TokenStream {
    format!("{:?}", std::env::var("CUDA_COMPUTE_CAP").unwrap()).parse().unwrap()
}
"""
INCLUDED = 'include!(concat!(env!("OUT_DIR"), "/found.rs"));\n'
SCRIPTS = {"reads": READS, "configures": CONFIGURES, "compiles": COMPILES}
MAIN = """
use cudarc::{driver::sys::cuInit, runtime::sys::cudaRuntimeGetVersion};
fn main() {
    println!("{} {} {}", reads::FOUND, configures::FOUND, app_own::FOUND);
    println!("{:?} {:?} {}", compiles::FOUND, expands::expands!(), serde_json::json!({"independent": 1}));
    unsafe { cuInit(0); cudaRuntimeGetVersion(&mut 0); }
    #[cfg(feature = "cust")]
    println!("{:?}", cust::CudaApiVersion::get());
}
"""
LISTS_OF_CAPABILITIES = [["8.0", "80"], ["8.0,9.0", "sm_80;9.0", "90 80"], ["9.0,12.0+PTX"]]
INDEPENDENT = ["serde_json", "itoa", "serde_core", "half", "libloading", "cmake"]


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def of_git(work: pathlib.Path) -> str:
    """Makes a repository with the crates, and returns the lines of dependencies."""
    repository = work / "crates"
    for name, body in SCRIPTS.items():
        write(repository / name / "Cargo.toml", MANIFEST.replace("NAME", name))
        write(repository / name / "build.rs", SCRIPT.replace("BODY", body))
        write(repository / name / "src/lib.rs", INCLUDED)
    write(repository / "configures/CMakeLists.txt", LISTS)
    write(repository / "compiles/k.cu", "__global__ void k(int *p) { *p = 1; }\n")
    write(repository / "expands/Cargo.toml", MANIFEST.replace("NAME", "expands") + "[lib]\nproc-macro = true\n")
    write(repository / "expands/src/lib.rs", MACRO)
    git = ["git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in [["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]]:
        subprocess.run([*git, *words], check=True)
    return "".join(f'{name} = {{ git = "file://{repository}" }}\n' for name in [*SCRIPTS, "expands"])


class Package:
    def __init__(self, work: pathlib.Path):
        self.directory, self.target = work / "app", work / "app/target"
        features = '["std", "driver", "runtime", "cuda-version-from-build-system", "dynamic-linking"]'
        manifest = MANIFEST.replace("NAME", "app") + '[features]\ncust = ["dep:cust"]\n[workspace]\n[dependencies]\n'
        manifest += f'cudarc = {{ version = "0.19", default-features = false, features = {features} }}\n'
        manifest += 'cust = { version = "0.3", optional = true }\nserde_json = "1"\napp-own = { path = "own" }\n'
        write(self.directory / "Cargo.toml", manifest + of_git(work))
        write(self.directory / "src/main.rs", MAIN)
        write(self.directory / "own/Cargo.toml", MANIFEST.replace("NAME", "app-own"))
        write(self.directory / "own/build.rs", SCRIPT.replace("BODY", READS))
        write(self.directory / "own/src/lib.rs", INCLUDED)

    def build(self, capabilities: str, release: str, wrapper: str, features: tuple, profile: tuple) -> tuple[str, list]:
        """The digest of the program, and the packages that were compiled."""
        unset = {"CARGO_TARGET_DIR", "RUSTC_WRAPPER", "RUSTFLAGS"}
        env = {name: value for name, value in os.environ.items() if name not in unset}
        env |= {"CUDA_BUILD_WRAPPER": wrapper, "CARGO_INCREMENTAL": "0"}
        command = [cargo_cuda(), "cuda", "build", "--cuda", release, "--capabilities", capabilities, *features, *profile]
        done = subprocess.run(command, cwd=self.directory, env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{command}: exit status {done.returncode}\n{done.stderr}")
        program = self.target / "cargo-cuda" / ("release" if profile else "debug") / "app"
        compiled = re.findall(r"(?m)^ +Compiling (\S+) v", done.stderr)
        return hashlib.sha256(program.read_bytes()).hexdigest(), compiled

    def fresh_build(self, *state) -> str:
        kept = self.target.with_name("kept")
        self.target.rename(kept)
        digest = self.build(*state)[0]
        shutil.rmtree(self.target)
        kept.rename(self.target)
        return digest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    choose, fresh, profiles = random.Random(arguments.seed), {}, set()
    with tempfile.TemporaryDirectory() as work:
        package = Package(pathlib.Path(work))
        print(f"{arguments.count} switches, seed {arguments.seed}; {machine()}", flush=True)
        for number in range(arguments.count):
            spellings = choose.choice(LISTS_OF_CAPABILITIES)
            rest = (choose.choice(["13", "12"]), choose.choice(["1", "0"]))
            rest += (choose.choice([(), ("--features", "cust")]), choose.choice([(), ("--release",)]))
            digest, compiled = package.build(choose.choice(spellings), *rest)
            state = (spellings[0], *rest)
            if state not in fresh:
                fresh[state] = package.fresh_build(*state)
            again = [name for name in compiled if name in INDEPENDENT and (name, rest[-1]) in profiles]
            profiles |= {(name, rest[-1]) for name in compiled}
            print(f"{number}: {state}: compiled {', '.join(sorted(set(compiled))) or 'nothing'}", flush=True)
            if digest != fresh[state] or again:
                sys.exit(f"not as after a build in an empty directory, or compiled again for nothing: {again}")


main()
