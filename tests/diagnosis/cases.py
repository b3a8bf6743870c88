#!/usr/bin/env python3
"""Small projects whose builds fail for want of something of CUDA, with real tools.

    tests/diagnosis/cases.py record [NAME …]     writes the messages of each case to messages/NAME.txt
    tests/diagnosis/cases.py follow [NAME …]     builds each case, follows the hint, and builds again
    tests/diagnosis/cases.py both [NAME …]       does both

`--tool PATH` names cargo-cuda. `follow` fails if a case has no hint although it should, if it has another one than
`messages/NAME.txt` says, or if the build that follows the hint ends with the same hint. Wants cargo, gcc, Python with
pip; CMake and libclang are installed from Python's index.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
MESSAGES = HERE / "messages"
CAPABILITIES = 'capabilities = ["8.0"]\n'
GCC_HEADERS = subprocess.run(["gcc", "-print-file-name=include"], text=True, check=True, stdout=subprocess.PIPE).stdout.strip()
MAIN = "fn main() {}\n"


def call(*words):
    """A build script that runs a program."""
    arguments = ", ".join(f'"{word}"' for word in words[1:])
    return f'''fn main() {{
    let status = std::process::Command::new("{words[0]}").args([{arguments}] as [&str; {len(words) - 1}]).status();
    assert!(status.expect("failed to run {words[0]}").success());
}}
'''


def link(*libraries):
    """A build script that links libraries."""
    lines = "".join(f'    println!("cargo:rustc-link-lib={name}");\n' for name in libraries)
    return "fn main() {\n" + lines + "}\n"


def extern(*functions):
    """A program that calls functions."""
    declared = "".join(f"fn {name}() -> i32; " for name in functions)
    called = "".join(f"{name}(); " for name in functions)
    return f'unsafe extern "C" {{ {declared}}}\nfn main() {{ unsafe {{ {called}}} }}\n'


def cmake(text):
    """A build script that builds a project with CMake, from the cmake crate."""
    return {
        "build.rs": 'fn main() { cmake::Config::new(".").build_target("x").build(); }\n',
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\n" + text,
        "x.c": "int main(void) { return 0; }\n",
        "dependencies": 'cmake = "0.1"\n',
    }


def part(text, source, name="k.cu"):
    """A build script of cuda-build."""
    return {
        "build.rs": "use cuda_build::*;\nfn main() -> Result<(), Error> { Build::new()?." + text + ".run().map(drop) }\n",
        name: source,
        "dependencies": "cuda-build = { path = \"CHECKOUT/cuda-build\" }\n",
    }


def linker(name):
    """Cargo's configuration for another linker than the default of the toolchain."""
    return f'[build]\nrustflags = ["-Clink-arg=-fuse-ld={name}", "-Clinker-features=-lld"]\n'


BINDGEN = 'fn main() {{ bindgen::Builder::default().header("a.h"){}.generate().unwrap(); }}\n'
RUNTIME = "__global__ void k() {} extern \"C\" void f() { k<<<1, 1>>>(); }\n"
OBJECT = '''fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    let object = format!("{out}/libk.a");
    let run = |program: &str, words: &[&str]| {
        assert!(std::process::Command::new(program).args(words).status().unwrap().success());
    };
    run("nvcc", &["-lib", OPTIONS"k.cu", "-o", &object]);
    println!("cargo:rustc-link-search={out}\\ncargo:rustc-link-lib=static=k\\ncargo:rustc-link-lib=stdc++");
}
'''
CALL_F = 'unsafe extern "C" { fn f(); }\nfn main() { unsafe { f() } }\n'

# Files of a case, and: `cuda` (13.4), `manifest` (what is declared), `env`, `cargo` (arguments), `needs` (programs),
# `edit` (what a user does who follows a hint that is no command: file, text, new text), `hint` (whether there is one).
CASES = {
    "header-gcc": {"build.rs": call("gcc", "-c", "a.c", "-o", "/dev/null"), "a.c": "#include <curand.h>\n"},
    "header-gxx": {"build.rs": call("g++", "-c", "a.cpp", "-o", "/dev/null"), "a.cpp": "#include <nvjpeg.h>\n"},
    "header-nvcc": {"build.rs": call("nvcc", "-c", "a.cu", "-o", "/dev/null"), "a.cu": "#include <curand_kernel.h>\n"},
    "header-two": {"build.rs": call("nvcc", "-c", "a.cu", "b.cu"), "a.cu": "#include <nvjpeg.h>\n", "b.cu": "#include <cupti.h>\n"},
    "header-nvrtc": part('module("k.cu")', "#include <curand_kernel.h>\n__global__ void k() {}\n"),
    "header-library": part('library(Library::new("k").file("k.cu"))', "#include <nvFatbin.h>\n"),
    "header-cc": {
        "build.rs": 'fn main() { cc::Build::new().cpp(true).file("a.cpp").compile("a"); }\n',
        "a.cpp": "#include <nvJitLink.h>\n",
        "dependencies": 'cc = "1"\n',
    },
    "header-cutlass": {
        "build.rs": """fn main() {
    let include = std::env::var("CUTLASS_DIR").unwrap_or_default() + "/include";
    let arguments = ["-std=c++17", "-I", &include, "-c", "a.cu", "-o", "/dev/null"];
    assert!(std::process::Command::new("nvcc").args(arguments).status().unwrap().success());
}
""",
        "a.cu": "#include <cutlass/cutlass.h>\n",
        "edit": ("Cargo.toml", CAPABILITIES, CAPABILITIES + 'components = [{ name = "cutlass", version = "4" }]\n'),
        "then": ["fetch --cuda 13.4"],
    },
    "header-nvtx": {"build.rs": call("gcc", "-c", "a.c", "-o", "/dev/null"), "a.c": "#include <nvToolsExt.h>\n",
                    "edit": ("a.c", "nvToolsExt.h", "stdio.h")},
    "header-not-searched": {"build.rs": call("gcc", "-c", "a.c", "-o", "/dev/null"), "a.c": "#include <cuda_runtime.h>\n"},
    "header-not-searched-cc": {
        "build.rs": 'fn main() { cc::Build::new().cpp(true).file("a.cpp").compile("a"); }\n',
        "a.cpp": "#include <cuda_fp16.h>\n",
        "dependencies": 'cc = "1"\n',
    },
    "bindgen-header": {"build.rs": BINDGEN.format(f'.clang_arg("-I{GCC_HEADERS}")'),
                       "a.h": "#include <nvjpeg.h>\n", "dependencies": 'bindgen = "0.72"\n', "needs": ["libclang"],
                       "again": {"build.rs": (".header", ".clang_arg(concat!(\"-I\", env!(\"CUDA_HOME\"), \"/include\")).header")}},
    "bindgen-runtime": {"build.rs": BINDGEN.format(f'.clang_arg("-I{GCC_HEADERS}")'),
                        "a.h": "#include <cuda_runtime_api.h>\n", "dependencies": 'bindgen = "0.72"\n', "needs": ["libclang"]},
    "library-lld": {"build.rs": link("nvjpeg"), "src/main.rs": extern("nvjpegGetProperty")},
    "library-two": {"build.rs": link("nvjpeg", "cufile"), "src/main.rs": MAIN},
    "library-attribute": {"src/main.rs": '#[link(name = "nvJitLink")]\n' + extern("nvJitLinkVersion")},
    "library-bfd": {"build.rs": link("curand"), ".cargo/config.toml": linker("bfd")},
    "library-gold": {"build.rs": link("nvfatbin"), ".cargo/config.toml": linker("gold"), "needs": ["ld.gold"]},
    "library-static": {"build.rs": link("static=cublas_static"), "src/lib.rs": "", "src/main.rs": MAIN,
                       "edit": ("build.rs", "static=cublas_static", "cudart")},
    "library-static-two": {"build.rs": link("static=cusparse_static"), "src/main.rs": MAIN,
                           "edit": ("build.rs", "static=cusparse_static", "cudart")},
    "library-nvtx": {"build.rs": link("nvToolsExt"), "edit": ("build.rs", "nvToolsExt", "cudart")},
    "library-nvtx-12": {"build.rs": link("nvToolsExt"), "cuda": "12.9", "edit": ("build.rs", "nvToolsExt", "cudart")},
    "library-pkg-config": {"build.rs": 'fn main() { pkg_config::probe_library("cublas-13.4").unwrap(); }\n',
                           "dependencies": 'pkg-config = "0.3"\n', "needs": ["pkg-config"], "hint": False},
    "library-makefile": {"build.rs": call("gcc", "a.c", "-lcurand", "-o", "/dev/null"), "a.c": "int main() { return 0; }\n"},
    "cmake-target": {**cmake("project(x C)\nfind_package(CUDAToolkit REQUIRED)\nadd_executable(x x.c)\n"
                             "target_link_libraries(x CUDA::nvjpeg)\n"), "needs": ["cmake"]},
    "cmake-target-old": {**cmake("project(x C)\nfind_package(CUDAToolkit REQUIRED)\nadd_executable(x x.c)\n"
                                 "target_link_libraries(x CUDA::curand)\n"), "needs": ["cmake==3.22.6"]},
    "cmake-nvtx": {**cmake("project(x C)\nfind_package(CUDAToolkit REQUIRED)\nadd_executable(x x.c)\n"
                           "target_link_libraries(x CUDA::nvToolsExt)\n"), "needs": ["cmake"],
                   "edit": ("CMakeLists.txt", "CUDA::nvToolsExt", "CUDA::cudart")},
    "cmake-static": {**cmake("project(x C)\nfind_package(CUDAToolkit REQUIRED)\nadd_executable(x x.c)\n"
                             "target_link_libraries(x CUDA::cufft_static)\n"), "needs": ["cmake"],
                     "edit": ("CMakeLists.txt", "cufft_static", "cudart")},
    "cmake-architecture": {**cmake("project(x CUDA)\nset(CMAKE_CUDA_ARCHITECTURES 70)\nadd_executable(x x.cu)\n"), "x.cu": "int main() {}\n",
                           "needs": ["cmake"], "edit": ("CMakeLists.txt", "ARCHITECTURES 70", "ARCHITECTURES 80")},
    "cmake-language-12": {**cmake("project(x CUDA)\nadd_executable(x x.cu)\n"), "x.cu": "int main() {}\n", "cuda": "12.9",
                          "needs": ["cmake"]},
    "cmake-package-12": {**cmake("project(x C)\nfind_package(CUDAToolkit REQUIRED)\nenable_language(CUDA)\nadd_executable(x x.c)\n"),
                         "cuda": "12.9", "needs": ["cmake"]},
    "cmake-cudnn": {**cmake("project(x C)\ninclude(FindPackageHandleStandardArgs)\nfind_library(CUDNN_LIBRARY cudnn HINTS $ENV{CUDA_HOME}/lib)\n"
                            "find_package_handle_standard_args(CUDNN DEFAULT_MSG CUDNN_LIBRARY)\nif(NOT CUDNN_FOUND)\n"
                            'message(FATAL_ERROR "no cuDNN")\nendif()\nadd_executable(x x.c)\n'), "needs": ["cmake"], "big": True},
    "nvcc-panic-12": {"build.rs": call("nvcc", "--version"), "cuda": "12.9"},
    "nvcc-shell-12": {"build.rs": call("sh", "-c", "nvcc --version"), "cuda": "12.9"},
    "nvcc-cc-12": {"build.rs": 'fn main() { cc::Build::new().cuda(true).file("a.cu").compile("a"); }\n', "a.cu": "",
                   "dependencies": 'cc = "1"\n', "cuda": "12.9"},
    "nvcc-bindgen-cuda-12": {"build.rs": 'fn main() { bindgen_cuda::Builder::default().build_ptx().unwrap(); }\n',
                             "src/a.cu": "", "dependencies": 'bindgen_cuda = "=0.1.6"\n', "cuda": "12.9"},
    "nvcc-cudarc-12": {"libraries": 'cudarc = { version = "=0.13.9", default-features = false, features = ["std", "driver", '
                                    '"cuda-version-from-build-system", "dynamic-linking"] }\n', "cuda": "12.9"},
    "cudarc-release": {"libraries": 'cudarc = { version = "=0.13.9", default-features = false, features = ["std", "driver", '
                                    '"cuda-version-from-build-system", "dynamic-linking"] }\n'},
    "cudarc-header": {"libraries": 'cudarc = { version = "=0.19.10", default-features = false, features = ["std", "driver", '
                                   '"nccl", "nccl-version-from-build-system", "cuda-version-from-build-system", '
                                   '"dynamic-linking"] }\n',
                      # The newest NCCL is too new for this cudarc.
                      "edit": ("Cargo.toml", CAPABILITIES, CAPABILITIES + 'components = [{ name = "nccl", version = "<2.31" }]\n'),
                      "then": ["fetch --cuda 13.4"]},
    "architecture-removed": {"build.rs": call("nvcc", "-arch=sm_70", "-c", "a.cu", "-o", "/dev/null"), "a.cu": "",
                             "edit": ("build.rs", "sm_70", "sm_80")},
    "architecture-gencode": {"build.rs": call("nvcc", "-gencode", "arch=compute_53,code=sm_53", "-c", "a.cu", "-o", "/dev/null"),
                             "a.cu": "", "edit": ("build.rs", "arch=compute_53,code=sm_53", "arch=compute_80,code=sm_80")},
    "architecture-renamed": {"build.rs": call("nvcc", "-arch=sm_101", "-c", "a.cu", "-o", "/dev/null"), "a.cu": "",
                             "edit": ("build.rs", "sm_101", "sm_110")},
    "architecture-ptxas": {"build.rs": call("ptxas", "-arch=sm_61", "a.ptx", "-o", "/dev/null"),
                           "a.ptx": ".version 8.0\n.target sm_61\n.address_size 64\n", "edit": ("build.rs", "sm_61", "sm_80"),
                           "again": {"a.ptx": ("sm_61", "sm_80")}},
    "architecture-cc": {"build.rs": 'fn main() { cc::Build::new().cuda(true).flag("-gencode").flag("arch=compute_61,code=sm_61").file("a.cu").compile("a"); }\n',
                        "a.cu": "", "dependencies": 'cc = "1"\n', "edit": ("build.rs", "arch=compute_61,code=sm_61", "arch=compute_80,code=sm_80")},
    "function-lld": {"src/main.rs": extern("cudaDeviceSynchronize"),
                     "edit": ("build.rs", "", link("cudart"))},
    "function-bfd": {"src/main.rs": extern("cudaDeviceReset"), ".cargo/config.toml": linker("bfd"),
                     "edit": ("build.rs", "", link("cudart"))},
    "function-gold": {"src/main.rs": extern("cudaDeviceReset"), ".cargo/config.toml": linker("gold"), "needs": ["ld.gold"],
                      "edit": ("build.rs", "", link("cudart"))},
    "function-driver": {"src/main.rs": extern("cuDriverGetVersion"), "edit": ("build.rs", "", link("cuda"))},
    "function-absent": {"src/main.rs": extern("nvJitLinkVersion"), "again": {"build.rs": ("", link("nvJitLink"))}},
    "function-nvrtc": {"src/main.rs": extern("nvrtcVersion"), "edit": ("build.rs", "", link("nvrtc"))},
    "function-object": {"build.rs": OBJECT.replace("OPTIONS", ""), "k.cu": RUNTIME, "src/main.rs": CALL_F,
                        "edit": ("build.rs", "link-lib=stdc++", "link-lib=stdc++\\ncargo:rustc-link-lib=cudart")},
    "function-removed": {"build.rs": link("cudart"), "src/main.rs": extern("cudaGetDeviceProperties_v2"),
                         "edit": ("src/main.rs", "cudaGetDeviceProperties_v2", "cudaGetDeviceProperties")},
    "function-rdc": {"build.rs": OBJECT.replace("OPTIONS", '"-rdc=true", '), "k.cu": RUNTIME, "src/main.rs": CALL_F,
                     "edit": ("build.rs", '"-rdc=true", ', ""),
                     "again": {"build.rs": ("link-lib=stdc++", "link-lib=stdc++\\ncargo:rustc-link-lib=cudart")}},
    "nvidia-smi-undeclared": {"build.rs": 'fn main() { bindgen_cuda::Builder::default().build_ptx().unwrap(); }\n', "src/a.cu": "",
                              "dependencies": 'bindgen_cuda = "=0.1.6"\n', "manifest": "",
                              "edit": ("Cargo.toml", "[package.metadata.cuda]\n", "[package.metadata.cuda]\n" + CAPABILITIES)},
    "nvidia-smi-openvm": {"build.rs": 'fn main() { openvm_cuda_builder::CudaBuilder::new().library_name("k").file("k.cu").build(); }\n',
                          "k.cu": "__global__ void k() {}\n", "dependencies": 'openvm-cuda-builder = "=2.0.1"\n',
                          "edit": ("Cargo.toml", "[workspace]\n", '[workspace]\n[workspace.metadata.cuda.package.app]\nvariables = { CUDA_ARCH = "list" }\n')},
    "nvidia-smi-panic": {"build.rs": 'fn main() { if std::env::var_os("CUDA_ARCH").is_none() { std::process::Command::new("nvidia-smi").output()'
                         '.expect("Failed to execute nvidia-smi"); } }\n',
                         "edit": ("Cargo.toml", "[workspace]\n", '[workspace]\n[workspace.metadata.cuda.package.app]\nvariables = { CUDA_ARCH = "list" }\n')},
    "c-library": {"build.rs": call("nvcc", "-c", "a.cu", "-o", "/dev/null"), "a.cu": "", "cuda": "13.1",
                  "include/math.h": "#include_next <math.h>\n#ifdef __cplusplus\nextern \"C\" double rsqrt(double) noexcept(true);\n#endif\n",
                  "include/features.h": "#include_next <features.h>\n#undef __GLIBC_MINOR__\n#define __GLIBC_MINOR__ 42\n",
                  "env": {"CPATH": "include"}},
}


class Project:
    """A case in a directory of its own."""

    def __init__(self, name, case, tool, work):
        self.case, self.tool = case, tool
        self.path = work / name
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        self.base, self.cache = work / "base", work / f"cache-{name}"
        options = {"cuda", "manifest", "env", "cargo", "needs", "hint", "big", "edit", "again", "then", "dependencies", "libraries"}
        files = {file: text for file, text in case.items() if file not in options}
        files.setdefault("src/main.rs", MAIN)
        checkout = str(HERE.parents[1])
        dependencies = case.get("dependencies", "").replace("CHECKOUT", checkout)
        files["Cargo.toml"] = (
            '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n'
            f"[package.metadata.cuda]\n{case.get('manifest', CAPABILITIES)}"
            f"[dependencies]\n{case.get('libraries', '')}[build-dependencies]\n{dependencies}"
        )
        for file, text in files.items():
            self.write(file, text)
        self.env = dict(os.environ, CARGO_TERM_COLOR="never", CARGO_TARGET_DIR=str(self.path / "target"))
        for variable in list(self.env):
            if variable.startswith(("CUDA", "NVCC", "RUST_BACKTRACE", "LIBCLANG", "BINDGEN")):
                del self.env[variable]
        for variable, value in case.get("env", {}).items():
            self.env[variable] = str(self.path / value)
        self.release = ["--cuda", case.get("cuda", "13.4")]
        # What one case fetches must not be there for the next one.
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.copytree(self.base / "toolkits", self.cache / "toolkits", copy_function=os.link, symlinks=True)
        self.env["CUDA_BUILD_CACHE_DIR"] = str(self.cache)

    def write(self, file, text):
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, file, old, new):
        path = self.path / file
        text = path.read_text() if path.exists() else ""
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new) if old else new)

    def run(self, *words):
        command = [self.tool, "cuda", *words]
        return subprocess.run(command, cwd=self.path, env=self.env, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def build(self):
        return self.run("build", *self.release, *self.case.get("cargo", []))


def add_toolkit(tool, cache, release):
    """Fetches what `cargo cuda toolkit add` fetches, once."""
    done = cache / release
    if not done.exists():
        env = dict(os.environ, CUDA_BUILD_CACHE_DIR=str(cache))
        subprocess.run([tool, "cuda", "toolkit", "add", release], env=env, cwd=cache.parent, check=True)
        done.touch()


def has_command(name):
    """Whether the recorded hint of a case has a command or a variable that can be carried out."""
    head = (MESSAGES / f"{name}.txt").read_text().split("\n\n")[0]
    is_small = not CASES[name].get("big")
    return is_small and bool(re.search(r"`(CPATH=\S+ )?cargo cuda (?!toolkit)|set `|--fetch`\)?", head))


def hint_of(messages):
    """The hint at the end, or the one of a build script."""
    hints = re.findall(r"^ *hint: (.*)$", messages, re.MULTILINE)
    return hints[-1] if hints else None


class Programs:
    """What a case needs beside Rust and gcc."""

    def __init__(self, work):
        self.work = work

    def install(self, *packages):
        directory = self.work / "-".join(packages).replace("==", "-")
        if not directory.exists():
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-input", "--target", str(directory), *packages]
            subprocess.run(pip, check=True)
        return directory

    def provide(self, project):
        """Whether all needed programs are there."""
        for need in project.case.get("needs", []):
            if need.startswith("cmake"):
                directory = self.install(need, "ninja")
                project.env["PATH"] = f"{directory}/bin:{project.env['PATH']}"
                project.env["PYTHONPATH"] = str(directory)
                project.env["CMAKE_GENERATOR"] = "Ninja"
            elif need == "libclang":
                self.libclang(project)
            elif shutil.which(need) is None:
                return False
        return True

    def libclang(self, project):
        project.env["LIBCLANG_PATH"] = str(self.install("libclang") / "clang/native")


def record(project, name, messages):
    """Writes what the first build has printed, and returns its hint."""
    checkout = str(HERE.parents[1])
    # In this order: a place may lie below the next ones.
    places = {
        str(project.path): "/home/user/app", project.env["CUDA_BUILD_CACHE_DIR"]: "/home/user/.cache/cuda-build",
        str(project.path.parent): "/home/user/tools", checkout: "/checkout", str(Path.home()): "/home/user",
    }
    for path, shown in places.items():
        messages = messages.replace(path, shown)
    hint = hint_of(messages)
    lines = [line for line in messages.splitlines() if not line.startswith("hint: ")]
    is_note = re.compile(r"^(note|warning): (CUDA|app: |building|the cudarc|CMAKE)|^ +Result in")
    lines = [line for line in lines if not is_note.match(line)]
    if len(lines) > 60:
        lines = [*lines[:30], "[…]", *lines[-30:]]
    declared = "8.0" if "manifest" not in project.case else "none"
    # Its hint depends on what Cargo.lock has.
    if "libraries" in project.case:
        declared = "of a project with dependencies"
    head = [f"cuda: {project.release[1]}", f"capabilities: {declared}", f"hint: {hint or 'none'}", ""]
    MESSAGES.mkdir(exist_ok=True)
    (MESSAGES / f"{name}.txt").write_text("\n".join(head + lines) + "\n")
    return hint


def follow(project, programs, first):
    """Returns what happened, and whether that is right."""
    if first.returncode == 0:
        return "the build does not fail", False
    hint = hint_of(first.stderr)
    if hint is None:
        return "no hint", not project.case.get("hint", True)
    edit = project.case.get("edit")
    commands = re.findall(r"`(?:CPATH=\S+ )?cargo cuda ([^`]*)`", hint)
    cpath = re.search(r"`CPATH=(\S+) cargo", hint)
    if cpath:
        project.env["CPATH"] = cpath[1]
    variable = re.search(r"set `([A-Z_]+)=([^`]*)`", hint)
    if edit:
        project.edit(*edit)
        commands = project.case.get("then", [])
    elif variable:
        project.env[variable[1]] = variable[2]
        commands = []
    for command in commands[:1]:
        if "--from redist" in command:
            return f"not run, because it needs NVIDIA's archives: {hint}", True
        if command.startswith("toolkit add") or command.startswith("fetch"):
            project.run(*command.split())
    build = [command for command in commands[:1] if command.startswith("build")]
    option = re.search(r"`(--cuda [0-9.]+ --fetch)`", hint)
    for file, (old, new) in (project.case.get("again") or {}).items():
        project.edit(file, old, new)
    if build:
        second = project.run(*build[0].split())
    elif option:
        second = project.run("build", *option[1].split())
    else:
        second = project.build()
    other = hint_of(second.stderr)
    if second.returncode == 0:
        return f"builds: {hint}", True
    if other == hint:
        return f"fails with the same hint: {hint}\n{second.stderr}", False
    last = [line for line in second.stderr.splitlines() if line.strip()][-12:]
    return f"fails otherwise: {hint}\n    " + "\n    ".join(last), True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "follow", "both"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--commands", action="store_true", help="only cases whose hint can be carried out as it is")
    parser.add_argument("--tool", default=HERE.parents[1] / "target/debug/cargo-cuda")
    parser.add_argument("--work", type=Path, default=None)
    options = parser.parse_args()
    tool = str(Path(options.tool).resolve())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    work = (options.work or cache / "cuda-build/tests/diagnosis").resolve()
    work.mkdir(parents=True, exist_ok=True)
    names = options.names or [name for name in CASES if not options.commands or has_command(name)]
    # Shared by all cases, so it is installed before two of them run at the same time.
    programs = Programs(work)
    for release in sorted({CASES[name].get("cuda", "13.4") for name in names}):
        add_toolkit(tool, work / "base", release)
    for package in sorted({need for name in names for need in CASES[name].get("needs", [])}):
        if package.startswith("cmake"):
            programs.install(package, "ninja")
        elif package == "libclang":
            programs.install(package)

    def run(name):
        project = Project(name, CASES[name], tool, work)
        if not programs.provide(project):
            return f"{name}: not run, because a program is missing", True
        text, is_right = "", True
        first = project.build()
        if options.what != "follow":
            text = f"{name}: {first.returncode}, {record(project, name, first.stderr)}\n"
        if options.what != "record":
            text, is_right = follow(project, programs, first)
            text = f"{name}: {text}"
        shutil.rmtree(project.path / "target", ignore_errors=True)
        shutil.rmtree(project.cache, ignore_errors=True)
        return text, is_right

    failed = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for text, is_right in pool.map(run, names):
            failed += not is_right
            print(text if is_right else f"WRONG {text}", flush=True)
    print(f"{failed} of {len(names)} are wrong")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
