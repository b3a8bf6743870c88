#!/usr/bin/env python3
"""Switches a workspace at random between lists of capabilities, CUDA releases, the nvcc wrapper, features, profiles,
members and branches.

    tests/projects/switches.py [--count N] [--seed SEED…] [--toolchain beta]

After each switch the program, where `target/cargo-cuda/<profile>` leads, has to have the same bytes as after a build in
an empty target directory at the same path. The workspace has cudarc and cust as published, and crates of git whose build
scripts and procedural macro read CUDA's variables, call CMake or call nvcc, and declare nothing of it. Needs git, a
CMake that finds CUDA without nvcc (4.1 does, 3.25 does not), and the toolkits of both releases (`cargo cuda toolkit add
12 13`); no GPU and no driver.
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
from dataclasses import dataclass

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
TOOL = """
fn main() {
    println!("{} {:?} {}", reads::FOUND, compiles::FOUND, app_own::FOUND);
    unsafe { cudarc::driver::sys::cuInit(0); }
}
"""
LISTS_OF_CAPABILITIES = [["8.0", "80"], ["8.0,9.0", "sm_80;9.0", "90 80"], ["9.0,12.0+PTX"]]


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


class Workspace:
    def __init__(self, work: pathlib.Path, toolchain: str | None):
        self.directory, self.target, self.toolchain = work / "app", work / "app/target", toolchain
        features = '["std", "driver", "runtime", "cuda-version-from-build-system", "dynamic-linking"]'
        cudarc = f'cudarc = {{ version = "0.19", default-features = false, features = {features} }}\n'
        crates = of_git(work)
        manifest = MANIFEST.replace("NAME", "app") + '[features]\ncust = ["dep:cust"]\n[workspace]\nmembers = ["tool"]\n'
        manifest += f'[dependencies]\n{cudarc}cust = {{ version = "0.3", optional = true }}\nserde_json = "1"\n'
        write(self.directory / "Cargo.toml", manifest + 'app-own = { path = "own" }\n' + crates)
        write(self.directory / "src/main.rs", MAIN)
        write(self.directory / "own/Cargo.toml", MANIFEST.replace("NAME", "app-own"))
        write(self.directory / "own/build.rs", SCRIPT.replace("BODY", READS))
        write(self.directory / "own/src/lib.rs", INCLUDED)
        manifest = MANIFEST.replace("NAME", "tool") + f"[dependencies]\n{cudarc}"
        write(self.directory / "tool/Cargo.toml", manifest + 'app-own = { path = "../own" }\n' + crates)
        write(self.directory / "tool/src/main.rs", TOOL)
        write(self.directory / ".gitignore", "target\nCargo.lock\n")
        self.git("init", "-q", "-b", "main")
        self.commit()
        # Another script, another dependency, another member's text.
        self.git("checkout", "-q", "-b", "other")
        script = SCRIPT.replace("BODY", READS.replace("CUDAARCHS", "TORCH_CUDA_ARCH_LIST"))
        write(self.directory / "own/build.rs", script)
        manifest = (self.directory / "Cargo.toml").read_text()
        write(self.directory / "Cargo.toml", manifest.replace('serde_json = "1"\n', ""))
        main = MAIN.replace("serde_json::json!({\"independent\": 1})", "\"other\"")
        write(self.directory / "src/main.rs", main)
        write(self.directory / "tool/src/main.rs", TOOL.replace("{:?} {}", "{:?} other {}"))
        self.commit()

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", self.directory, *identity, *words], check=True)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "-m", "x")

    def build(self, capabilities: str, state: "State") -> tuple[str, list]:
        """The digest of the program, and the packages that were compiled."""
        unset = {"CARGO_TARGET_DIR", "RUSTC_WRAPPER", "RUSTFLAGS", "CUDA_BUILD_TARGET_DIRECTORIES"}
        env = {name: value for name, value in os.environ.items() if name not in unset}
        env |= {"CUDA_BUILD_WRAPPER": state.wrapper, "CARGO_INCREMENTAL": "0"}
        if self.toolchain:
            env["RUSTUP_TOOLCHAIN"] = self.toolchain
        self.git("checkout", "-q", state.branch)
        command = [cargo_cuda(), "cuda", "build", "-p", state.member, "--cuda", state.release]
        command += ["--capabilities", capabilities, *state.features, *state.profile]
        done = subprocess.run(command, cwd=self.directory, env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{command}: exit status {done.returncode}\n{done.stderr}")
        program = self.target / "cargo-cuda" / ("release" if state.profile else "debug") / state.member
        compiled = re.findall(r"(?m)^ +Compiling (\S+) v", done.stderr)
        return hashlib.sha256(program.read_bytes()).hexdigest(), compiled

    def fresh_build(self, capabilities: str, state: "State") -> str:
        kept = self.target.with_name("kept")
        self.target.rename(kept)
        digest = self.build(capabilities, state)[0]
        shutil.rmtree(self.target)
        kept.rename(self.target)
        return digest


@dataclass(frozen=True)
class State:
    release: str
    wrapper: str
    features: tuple
    profile: tuple
    member: str
    branch: str

    @staticmethod
    def random(choose: random.Random) -> "State":
        member = choose.choice(["app", "tool"])
        return State(
            release=choose.choice(["13", "12"]),
            wrapper=choose.choice(["1", "1", "0"]),
            features=choose.choice([(), ("--features", "cust")]) if member == "app" else (),
            profile=choose.choice([(), ("--release",)]),
            member=member,
            branch=choose.choice(["main", "other"]),
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10, help="switches for each seed")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--toolchain", help="a toolchain of rustup, such as beta")
    arguments = parser.parse_args()
    fresh = {}
    with tempfile.TemporaryDirectory() as work:
        workspace = Workspace(pathlib.Path(work), arguments.toolchain)
        print(f"{arguments.count} switches for each seed of {arguments.seed}; {machine()}", flush=True)
        for seed in arguments.seed:
            choose = random.Random(seed)
            for number in range(arguments.count):
                spellings, state = choose.choice(LISTS_OF_CAPABILITIES), State.random(choose)
                digest, compiled = workspace.build(choose.choice(spellings), state)
                key = (spellings[0], state)
                if key not in fresh:
                    fresh[key] = workspace.fresh_build(spellings[0], state)
                print(f"{seed} {number}: {spellings[0]} {state}: compiled {len(compiled)}", flush=True)
                if digest != fresh[key]:
                    sys.exit("not as after a build in an empty directory")
    print(f"{arguments.count * len(arguments.seed)} switches right", flush=True)


main()
