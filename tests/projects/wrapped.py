#!/usr/bin/env python3
"""Builds crates that do not use cuda-build under `cargo cuda build`, whose nvcc wrapper keeps what nvcc makes.

    tests/projects/wrapped.py [--capabilities LIST] [--added LIST] [NAME ...]
    tests/projects/wrapped.py --edits N [--seed SEED]

The first form builds crates of the registry without a change: with an empty output store, again after `cargo clean`,
and with more capabilities. It prints the CPU seconds of each build, how often nvcc started cicc and ptxas, and the
device code of the outputs. Without a NAME it builds the small ones. The second form edits a package with parts for cc,
bindgen_cuda, cudaforge and CMake at random, and kills some of the builds; after each edit, a build with the store has to
make the same objects as a build with an empty store. Needs what `tests/peers/peers.py rebuild` needs; no GPU and no driver.
"""

import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from measure import cargo_cuda, cargo_environment, machine, measured, our_program
from toolkit import Counted
from ways import CMAKE_LISTS

SMALL = ["candle-kernels 0.9.1", "parts"]
HELPERS = ["cc", "bindgen", "forge", "cmake"]
DEPENDENCIES = '[build-dependencies]\ncc = "1"\nbindgen_cuda = "0.1"\ncudaforge = "0.1"\ncmake = "0.1"\n'
SCRIPT = """
fn main() -> cudaforge::Result<()> {
    println!("cargo:rerun-if-changed=kernels");
    let out = std::env::var("OUT_DIR").unwrap();
    let (flag, one) = ("OPTION", format!("-arch=sm_{}LETTER", std::env::var("CUDA_COMPUTE_CAP").unwrap()));
    let mut cc = cc::Build::new();
    cc.cuda(true).cudart("none").flag(one).flag(flag).include("kernels/cc");
    cc.files(["kernels/cc/k1.cu", "kernels/cc/k2.cu"]).compile("cc");
    let bindgen = bindgen_cuda::Builder::default().kernel_paths_glob("kernels/bindgen/*.cu").arg(flag);
    let bindgen = bindgen.include_paths_glob("kernels/bindgen/*.cuh").watch(["kernels/bindgen/value.cuh"]);
    bindgen.build_lib(format!("{out}/libbindgen.a"));
    let forge = cudaforge::KernelBuilder::new().source_glob("kernels/forge/*.cu").include_path("kernels/forge");
    forge.watch(["kernels/forge/value.cuh"]).arg(flag).build_lib(format!("{out}/libforge.a"))?;
    cmake::Config::new("kernels/cmake").generator("Ninja").define("CMAKE_CUDA_ARCHITECTURES", "80-real")
        .define("CMAKE_CUDA_FLAGS", flag).build();
    Ok(())
}
"""
# What code for 9.0a alone contains.
GUARD = "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n#define GUARDED ++*p;\n#else\n#define GUARDED\n#endif\n"
KERNEL = '#include "value.cuh"\n#ifndef GUARDED\n#define GUARDED\n#endif\n#define MORE 0\n__global__ void NAME(int *p) { *p = VALUE + MORE; GUARDED }\n'


class Package:
    """A package in a target directory: a dependency on a crate of the registry, or the parts for four helpers."""

    def __init__(self, work: pathlib.Path, toolkit: Counted, name: str, dependencies: str):
        # The crate whose build script calls nvcc is the dependency, or the package.
        self.directory, self.toolkit, self.name = work / name.replace(" ", "-"), toolkit, name.split()[0]
        (self.directory / "src").mkdir(parents=True)
        (self.directory / "src/lib.rs").write_text("")
        package = f'[package]\nname = "of-{self.name}"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n\n'
        (self.directory / "Cargo.toml").write_text(package + dependencies)

    def command(self, capabilities: list[str], target: str = "target", images: str = "images") -> tuple[list, dict]:
        store, directory = self.directory / images, self.directory / target
        store.mkdir(exist_ok=True)
        env = cargo_environment(directory) | self.toolkit.root_only()
        env |= {"CUDA_BUILD_IMAGES": str(store), "CUDA_BUILD_CAPABILITIES": ",".join(capabilities)}
        return [cargo_cuda(), "cuda", "build", "-q", "--target-dir", directory], env

    def build(self, capabilities: list[str], *places: str) -> str:
        command, env = self.command(capabilities, *places)
        self.toolkit.forget()
        used = measured(command, cwd=self.directory, env=env)[0]
        lines = self.toolkit.log.read_text().splitlines()
        return f"{used.cpu:.1f} s of CPU, cicc {lines.count('nvvm/bin/cicc')}, ptxas {lines.count('bin/ptxas')}"

    def kill(self, capabilities: list[str], seconds: float) -> None:
        """Starts a build, and kills all of its processes."""
        command, env = self.command(capabilities)
        build = subprocess.Popen(
            command, cwd=self.directory, env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds)
        subprocess.run(["pkill", "-KILL", "-s", str(build.pid)])
        build.wait()

    def clean(self, target: str = "target") -> None:
        # Everything that has the package's name, wherever Cargo puts it.
        for path in sorted((self.directory / target).rglob(f"*{self.name}*"), key=lambda path: len(path.parts)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def outputs(self, target: str = "target") -> list[pathlib.Path]:
        built = (self.directory / target / "debug").resolve()
        files = [path for path in built.rglob("*") if path.suffix in (".a", ".ptx") and "CMakeFiles" not in path.parts]
        return sorted(path for path in files if any(self.name in part for part in path.relative_to(built).parts))

    def device_code(self) -> None:
        for path in self.outputs():
            if path.suffix == ".ptx":
                found = re.findall(r"(?m)^\.target (\w+)", path.read_text())
            else:
                listed = measured([self.toolkit.root / "bin/cuobjdump", "--list-elf", "--list-ptx", path])[1]
                found = [f"{name}.{kind}" for name, kind in re.findall(r"\.(sm_\w+)\.(cubin|ptx)", listed)]
            print(f"    {path.name}: {', '.join(f'{found.count(one)} {one}' for one in sorted(set(found)))}")

    def objects(self, target: str) -> dict[str, str]:
        """Device code and host code of each object."""
        found = {}
        for archive in (path for path in self.outputs(target) if path.suffix == ".a"):
            shown = measured(["objdump", "-s", "-j", ".nv_fatbin", "-j", ".text", archive])[1]
            for member in re.split(r"\n(?=\S+:\s+file format)", shown)[1:]:
                name, _, content = member.partition(":")
                # Two calls of nvcc that link the same device code for debugging (`-G`) give different bytes.
                if "dlink" not in name:
                    found[f"{archive.name}: {name}"] = content
        return found


class Parts(Package):
    def __init__(self, work: pathlib.Path, toolkit: Counted, seed: int = 0):
        super().__init__(work, toolkit, "parts", DEPENDENCIES)
        self.name = "of-parts"
        self.random, self.count, self.flag, self.letter = random.Random(seed), 0, "-O2", ""
        for helper in HELPERS:
            (self.directory / "kernels" / helper).mkdir(parents=True)
            self.write(helper, "value.cuh", "#define VALUE 1\n")
            self.write(helper, "CMakeLists.txt", CMAKE_LISTS)
            for name in ["k1", "k2"]:
                self.write(helper, f"{name}.cu", KERNEL.replace("NAME", name))
        self.script()

    def write(self, helper: str, name: str, text: str) -> None:
        (self.directory / "kernels" / helper / name).write_text(text)

    def script(self) -> None:
        (self.directory / "build.rs").write_text(SCRIPT.replace("OPTION", self.flag).replace("LETTER", self.letter))

    def edit(self) -> str:
        """Edits every part in the same way. Helpers do not notice all of these edits, so most also clean the package."""
        kind = self.random.choice(["header", "source", "include", "back", "touch", "flag", "clean", "list", "letter", "guard"])
        self.count += 1
        value = self.random.choice([self.count, 1])
        for helper in HELPERS:
            source = self.directory / "kernels" / helper / self.random.choice(["k1.cu", "k2.cu"])
            text = source.read_text()
            if kind == "header":
                self.write(helper, "value.cuh", f"#define VALUE {value}\n")
            elif kind == "guard":
                self.write(helper, "value.cuh", GUARD + f"#define VALUE {value}\n")
            elif kind == "source":
                source.write_text(re.sub(r"p = VALUE.*?MORE", f"p = VALUE * {value} + MORE", text))
            elif kind == "include":
                self.write(helper, "more.cuh", f"#undef MORE\n#define MORE {value}\n")
                source.write_text(text.replace("MORE 0\n", 'MORE 0\n#include "more.cuh"\n', 1))
            elif kind == "back":
                source.write_text(text.replace('#include "more.cuh"\n', ""))
            elif kind == "touch":
                source.touch()
        if kind in ("letter", "list"):
            self.letter = self.random.choice(["", "a"]) if kind == "letter" else ""
            self.script()
        if kind == "flag":
            self.flag = self.random.choice(["-O2", "-DMORE_THAN=1", "-lineinfo", "--use_fast_math", "-Xcompiler=-O1,-g"])
            self.script()
        if kind not in ("header", "source", "touch"):
            self.clean()
        return kind


def edits(work: pathlib.Path, toolkit: Counted, count: int, seed: int) -> None:
    package = Parts(work, toolkit, seed)
    listed = ["8.0", "9.0"]
    package.build(listed)
    subprocess.run(["cp", "-a", package.directory / "target", package.directory / "fresh"], check=True)
    for number in range(count):
        kind = package.edit()
        if kind == "letter":
            listed = ["9.0", *package.random.choice([[], ["12.0"], ["10.0", "12.0"]])]
        if kind == "list":
            listed = ["8.0", *package.random.choice([[], ["9.0"], ["9.0", "12.0+PTX"], ["12.0"]])]
        if package.random.random() < 0.5:
            kind += ", killed"
            package.kill(listed, package.random.uniform(1, 8))
        used = package.build(listed)
        package.clean("fresh")
        shutil.rmtree(package.directory / "none", ignore_errors=True)
        fresh = package.build(listed, "fresh", "none")
        ours, theirs = package.objects("target"), package.objects("fresh")
        different = sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))
        print(f"{number}: {kind}, for {','.join(listed)}: {used}; with an empty store {fresh}; {len(ours)} objects", flush=True)
        if different or len(ours) < 8:
            sys.exit(f"seed {seed}: {different} differ in {package.directory}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--capabilities", default="8.0,9.0")
    parser.add_argument("--added", default="12.0")
    parser.add_argument("--edits", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("NAME", nargs="*", default=SMALL, help="a crate with its version, or `parts`")
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp())
    toolkit = Counted(work / "cuda", our_program())
    print(f"nvcc {toolkit.version}; {machine()}; in {work}", flush=True)
    if arguments.edits:
        edits(work, toolkit, arguments.edits, arguments.seed)
        return
    listed = arguments.capabilities.split(",")
    for name in arguments.NAME:
        crate, _, version = name.partition(" ")
        dependency = f'[dependencies]\n{crate} = "={version}"\n'
        package = Package(work, toolkit, name, dependency) if version else Parts(work, toolkit)
        print(name, flush=True)
        steps = [("an empty store", listed), ("after cargo clean", listed), ("more capabilities", listed + [arguments.added])]
        for step, capabilities in steps:
            package.clean()
            print(f"  {step}, for {','.join(capabilities)}: {package.build(capabilities)}", flush=True)
            package.device_code()


if __name__ == "__main__":
    main()
