#!/usr/bin/env python3
"""Builds crates of zero-knowledge provers and NVIDIA's CUDA Rust crates, unmodified, with one command each.

    tests/projects/provers.py [--tool PROGRAM] [--keep DIR] [CRATE ...]

Each crate gets a small package that uses it, with `capabilities = ["8.0", "9.0"]`, and is built by
`cargo cuda build --release --fetch --cuda 13.4`. Of airbender's prover, which is in no registry and does not compile
with CUDA 13.4, the build script and the CUDA sources are taken from its repository, and built with 13.0. openvm's
build scripts read `CUDA_ARCH`, which the manifest sets for that one package. Prints for each crate the exit code, the
seconds, and the number of images for each capability in the libraries that the build scripts made, or in the program.
It exits with 1 if a build fails or code is missing.

Needs cargo, gcc with g++, git, make, pip, the network and an hour of CPU time, most of it for airbender; no GPU and no
driver. `CARGO_BUILD_JOBS` is left as it is. What earlier runs with the same `--keep` compiled is not compiled again.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
CAPABILITIES = ["8.0", "9.0"]
KERNEL = """__global__ void NAME(float *x) { x[threadIdx.x] += 1; }
extern "C" int launch_NAME(float *x) { NAME<<<1, 32>>>(x); return cudaGetLastError(); }
"""

SPPARK = {
    "build.rs": """fn main() {
    sppark::build::ccmd().define("FEATURE_BABY_BEAR", None).file("cu/ntt.cu").compile("ntt");
    println!("cargo:rerun-if-changed=cu");
}
""",
    "cu/ntt.cu": """#include <ff/baby_bear.hpp>
#include <ntt/ntt.cuh>
#ifndef __CUDA_ARCH__
extern "C" RustError::by_value transform(size_t device, fr_t *values, uint32_t lg_size) {
    return NTT::Base(select_gpu(device), values, lg_size, NTT::InputOutputOrder::NN, NTT::Direction::forward,
                     NTT::Type::standard);
}
#endif
""",
    "src/main.rs": """extern "C" {
    fn transform(device: usize, values: *mut u32, lg_size: u32) -> sppark::Error;
}
fn main() {
    let mut values = [1_u32; 1024];
    println!("{}", unsafe { transform(0, values.as_mut_ptr(), 10) });
}
""",
}


class Crate:
    def __init__(self, dependencies, files, build="", components="nvcc", settings="", wants="8.0 9.0", libclang=False,
                 compiles_when_it_runs=False, cuda="13.4", clone=None):
        self.dependencies, self.build, self.files = dependencies, build, files
        self.components, self.settings, self.libclang = components.split(), settings, libclang
        self.compiles_when_it_runs = compiles_when_it_runs
        # A repository, its commit, and the directory of a package, of which only the build script is compiled.
        self.cuda, self.clone = cuda, clone
        # What the device code has to contain, one entry a word: `8.0` is SASS, and `ptx9.0` is PTX.
        self.wants = set(wants.split())


CRATES = {
    "openvm-cuda-builder": Crate(
        "",
        {
            "build.rs": """fn main() {
    let builder = openvm_cuda_builder::CudaBuilder::new().library_name("kernels").files(["cu/one.cu", "cu/two.cu"]);
    builder.emit_link_directives();
    builder.build();
}
""",
            "cu/one.cu": KERNEL.replace("NAME", "one"),
            "cu/two.cu": KERNEL.replace("NAME", "two"),
            "src/main.rs": """extern "C" {
    fn launch_one(x: *mut f32) -> i32;
    fn launch_two(x: *mut f32) -> i32;
}
fn main() {
    println!("{}", unsafe { launch_one(std::ptr::null_mut()) + launch_two(std::ptr::null_mut()) });
}
""",
        },
        build='openvm-cuda-builder = "=2.0.1"',
        settings='package.app.variables = { CUDA_ARCH = "list" }',
        wants="8.0 9.0 ptx9.0",
    ),
    "openvm-cuda-common": Crate(
        'openvm-cuda-common = "=2.0.1"',
        {"src/main.rs": "fn main() {\n    println!(\"{:?}\", openvm_cuda_common::common::get_device());\n}\n"},
        settings='package.openvm-cuda-common.variables = { CUDA_ARCH = "list" }',
        wants="8.0 9.0 ptx9.0",
    ),
    # The crate has templates for device code, and a function for the build scripts of its users. This function
    # always asks for 7.5, 8.0, 12.0, and PTX for 10.0: the declared list changes nothing.
    "sppark": Crate(
        'sppark = { version = "=0.1.16", features = ["cuda"] }',
        SPPARK,
        build='sppark = { version = "=0.1.16", features = ["build"] }',
        wants="7.5 8.0 12.0 ptx10.0",
    ),
    # With this feature the function asks for the GPU of the machine, which stands for the declared list.
    "sppark-build-poc": Crate(
        'sppark = { version = "=0.1.16", features = ["cuda"] }',
        SPPARK,
        build='sppark = { version = "=0.1.16", features = ["build-poc"] }',
    ),
    "risc0-sys": Crate(
        'risc0-sys = { version = "=1.5.0", features = ["cuda"] }',
        {"src/main.rs": "fn main() {\n    let _ = risc0_sys::ffi_wrap(|| std::ptr::null());\n}\n"},
    ),
    "supraseal-c2": Crate(
        'supraseal-c2 = "=0.1.2"', {"src/main.rs": "use supraseal_c2 as _;\nfn main() {}\n"}, wants="7.5 8.0 12.0"
    ),
    # The runtime for airbender's prover, whose kernels are not in the registry. `era_cudart` itself needs nightly Rust.
    "era_cudart_sys": Crate(
        'era_cudart_sys = "=0.156.2"',
        {"src/main.rs": "fn main() {\n    println!(\"{:?}\", unsafe { era_cudart_sys::cudaDeviceReset() });\n}\n"},
        components="nvcc cudart", wants="",
    ),
    "airbender": Crate(
        "",
        {"src/lib.rs": ""},
        build='cmake = "0.1"\nera_cudart_sys = "=0.154.10"',
        components="nvcc cudart", cuda="13.0",
        clone=("https://github.com/matter-labs/zksync-airbender", "97dbacf8a3eec4dcb6621bc9965b1fa784efc6d5",
               "gpu_prover"),
    ),
    "cuda-bindings": Crate(
        'cuda-bindings = "=0.5.0"',
        {"src/main.rs": "fn main() {\n    println!(\"{}\", unsafe { cuda_bindings::cuInit(0) });\n}\n"},
        components="cudart curand", wants="", libclang=True,
    ),
    "cutile": Crate(
        'cutile = "=0.5.0"',
        {
            "src/main.rs": """use cutile::compile_api::KernelCompiler;
use cutile::cutile_compiler::cuda_tile_runtime_utils::compile_tile_ir_module;
use cutile::prelude::*;

#[cutile::module]
mod kernel {
    use cutile::core::*;

    #[cutile::entry()]
    fn twice<const B: i32>(y: &mut Tensor<f32, { [B] }>, x: &Tensor<f32, { [-1] }>) {
        let tile = x.load_like(y);
        y.store(tile + tile);
    }
}

// What a launch does with `tileiras`, for any GPU and without a driver.
fn compile(target: &str) -> usize {
    let strides: &[(&str, &[i32])] = &[("y", &[1]), ("x", &[1])];
    let compiler = KernelCompiler::new(kernel::__module_ast_self, "kernel", "twice").generics(vec!["128".into()]);
    let module = compiler.strides(strides).target(target).compile().unwrap().into_module();
    compile_tile_ir_module(&module, target).unwrap().len()
}

fn main() -> Result<(), Error> {
    if std::env::args().len() > 1 {
        println!("8.0 in {} bytes, 9.0 in {} bytes", compile("sm_80"), compile("sm_90"));
        return Ok(());
    }
    let x = api::ones::<f32>(&[1024]);
    let y = api::zeros::<f32>(&[1024]).partition([128]);
    let (y, _x) = kernel::twice(y, x).sync()?;
    println!("{:?}", y.unpartition().to_host_vec().sync()?[0]);
    Ok(())
}
"""
        },
        components="cudart curand tileiras", wants="", libclang=True, compiles_when_it_runs=True,
    ),
}


def cloned(clone: tuple[str, str, str], checkout: pathlib.Path) -> pathlib.Path:
    """Checks a repository out, unless an earlier run has, and returns the directory of the package."""
    url, commit, directory = clone
    if not checkout.exists():
        checkout.mkdir(parents=True)
        for command in ("init -q", f"fetch -q --depth 1 {url} {commit}", "checkout -q FETCH_HEAD"):
            subprocess.run(["git", *command.split()], cwd=checkout, check=True)
    return checkout / directory


def create(crate: Crate, package: pathlib.Path) -> None:
    """Writes the package."""
    capabilities = ", ".join(f'"{capability}"' for capability in CAPABILITIES)
    components = ", ".join(f'"{component}"' for component in crate.components)
    manifest = '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n'
    manifest += 'build = "build/main.rs"\n' if crate.clone else ""
    manifest += '[profile.release]\nopt-level = 1\n'
    manifest += f"[dependencies]\n{crate.dependencies}\n[build-dependencies]\n{crate.build}\n"
    manifest += f"[workspace.metadata.cuda]\ncomponents = [{components}]\ncapabilities = [{capabilities}]\n"
    manifest += f"{crate.settings}\n"
    for name, text in {"Cargo.toml": manifest, **crate.files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def clang(work: pathlib.Path) -> dict[str, str]:
    """Installs libclang, which bindgen loads, and returns the variables that lead to it."""
    target = work / "libclang"
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", target, "libclang"], check=True)
    # The package has no headers of the compiler, such as stddef.h.
    headers = subprocess.run(["gcc", "-print-file-name=include"], check=True, capture_output=True, text=True)
    return {
        "LIBCLANG_PATH": str(target / "clang/native"),
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers.stdout.strip()}",
    }


def cmake(work: pathlib.Path) -> dict[str, str]:
    """Installs CMake, which has to be newer than that of many systems, and returns the variable that leads to it."""
    target = work / "cmake"
    if not target.exists():
        subprocess.run([sys.executable, "-m", "venv", target], check=True)
        subprocess.run([target / "bin/pip", "install", "-q", "--disable-pip-version-check", "cmake>=3.28"], check=True)
    return {"PATH": f"{target / 'bin'}:{os.environ['PATH']}"}


def device_code(tool: str, package: pathlib.Path, lists: pathlib.Path) -> collections.Counter:
    """How many images there are for each capability, in the libraries of build scripts and in the program.

    A package of its own, `lists`, has `cuobjdump`, which the Python packages have for CUDA 13.2 and newer only.
    """
    release = (package / "target/cargo-cuda/release").resolve()
    libraries = [path for path in release.rglob("*.a") if path.is_file()]
    images = collections.Counter()
    for path in libraries or [release / "app"]:
        for kind, prefix in (("elf", ""), ("ptx", "ptx")):
            # `-all` lists relocatable code, too.
            command = [tool, "cuda", "exec", "--fetch", "--cuda", "13.4", "--", "cuobjdump", "-all", f"--list-{kind}"]
            listed = subprocess.run([*command, path], cwd=lists, capture_output=True, text=True)
            if "could not run" in listed.stderr:
                sys.exit(listed.stderr)
            for number, letter in re.findall(r"\.sm_(\d+)([af]?)\.(?:cubin|ptx)", listed.stdout):
                images[f"{prefix}{int(number) / 10}{letter}"] += 1
    return images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", default=str(REPOSITORY / "target/debug/cargo-cuda"), help="the program cargo-cuda")
    parser.add_argument("--keep", type=pathlib.Path, help="where the packages and their target directories stay")
    parser.add_argument("CRATE", nargs="*", help=f"of {', '.join(CRATES)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.CRATE) - set(CRATES):
        parser.error(f"no such crate: {', '.join(unknown)}")
    tool = str(pathlib.Path(arguments.tool).resolve())
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        work = (arguments.keep or pathlib.Path(temporary)).resolve()
        lists = work / "lists"
        create(Crate("", {"src/main.rs": "fn main() {}\n"}, components="cuobjdump"), lists)
        print(f"{'crate':22}{'exit':>5}{'seconds':>9}  device code", flush=True)
        for name in arguments.CRATE or CRATES:
            crate, package = CRATES[name], work / name
            if crate.clone:
                package = cloned(crate.clone, package)
            create(crate, package)
            programs = {**(clang(work) if crate.libclang else {}), **(cmake(work) if crate.clone else {})}
            environment = dict(os.environ, **programs)
            # Outputs that earlier builds kept would make the times meaningless.
            environment["CUDA_BUILD_IMAGES"] = str(work / "outputs")
            for variable in ("CARGO_TARGET_DIR", "CUDA_ARCH", "CUDA_COMPUTE_CAP"):
                environment.pop(variable, None)
            command = [tool, "cuda", "build", "--release", "--fetch", "--cuda", crate.cuda]
            start = time.monotonic()
            with open(package / "build.log", "w") as log:
                done = subprocess.run(command, cwd=package, env=environment, stdout=log, stderr=log)
            seconds = time.monotonic() - start
            images = collections.Counter() if done.returncode else device_code(tool, package, lists)
            made = ", ".join(f"{entry} ({images[entry]})" for entry in sorted(images, key=order)) or "none"
            missing = sorted(crate.wants - set(images), key=order)
            made += f"; missing: {', '.join(missing)}" if missing else ""
            if crate.compiles_when_it_runs and not done.returncode:
                command = [tool, "cuda", "exec", "--cuda", "13.4", "--", "target/cargo-cuda/release/app", "compile"]
                done = subprocess.run(command, cwd=package, capture_output=True, text=True)
                made = f"made when it runs: {done.stdout.strip() or done.stderr[-300:]}"
            print(f"{name:22}{done.returncode:5}{seconds:9.0f}  {made}", flush=True)
            if done.returncode:
                print("".join(f"    {line}\n" for line in (package / "build.log").read_text().splitlines()[-20:]))
            if done.returncode or missing:
                failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def order(entry: str) -> tuple[bool, float]:
    number = re.search(r"[\d.]+", entry)[0]
    return entry.startswith("ptx"), float(number)


if __name__ == "__main__":
    main()
