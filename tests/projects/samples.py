#!/usr/bin/env python3
"""Builds NVIDIA's CUDA samples with cuda-build, adds a capability, and compares the result with a fresh build.

    tests/projects/samples.py [--work DIR] [--match REGEX] CHECKOUT

CHECKOUT is a clone of NVIDIA's repository of samples. One package gets a library for the `.cu` files of each sample, or
modules for NVRTC if the sample compiles them at run time. Samples that need graphics, MPI or Tegra are left out. Needs
cargo, gcc, GNU binutils and an hour of CPU time; no GPU and no driver. Components are fetched into the user's cache.

Prints what does not compile, which files are compiled as a whole for the third capability and why, and which objects
differ from those of a fresh build. It exits with 1 if an object differs.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = REPOSITORY / "target/debug/cargo-cuda"
ELSEWHERE = re.compile(
    r"#include *[<\"](GL/|EGL|vulkan|FreeImage|mpi\.h|.*(nvsci|d3d|dxgi|glut|helper_gl|rendercheck|drvapi|cudla))", re.I
)
COMPONENTS = ["cudart", "cccl", "cublas", "cufft", "curand", "cusparse", "nvtx", "profiler-api"]


class Sample:
    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        self.sources = sorted(directory.glob("*.cu"))
        texts = [path.read_text(errors="replace") for path in directory.iterdir() if path.suffix in SUFFIXES]
        self.is_for_nvrtc = any("nvrtc_helper.h" in text for text in texts)
        self.is_elsewhere = any(ELSEWHERE.search(text) for text in texts) or "Tegra" in str(directory)
        cmake = directory / "CMakeLists.txt"
        self.cmake = cmake.read_text() if cmake.exists() else ""

    def parts(self, checkout: pathlib.Path) -> list[str]:
        """The lines of a build script, one for a library or for each module."""
        here = self.directory.relative_to(checkout)
        options = f'.include("{checkout}/Common").include("{self.directory}").include("{self.directory}/inc")'
        if self.is_for_nvrtc:
            module = 'Module::new("{}").named("{}").engine(Engine::Nvrtc)'
            names = [(source, f"{here.name}_{source.stem}") for source in self.sources]
            return [f"build = build.module({module.format(*name)}{options});" for name in names]
        # Most samples switch it on and do not need it.
        if re.search("cdp|MultiBlockCG|callback", here.name):
            options += ".rdc(true)"
        if "extended-lambda" in self.cmake:
            options += '.flag("--extended-lambda")'
        files = ", ".join(f'"{source}"' for source in self.sources)
        name = str(here).replace("/", "_").replace("-", "_")
        return [f'build = build.library(Library::new("{name}").files([{files}]){options});']


SUFFIXES = {".cu", ".cuh", ".cpp", ".h"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--match", default="")
    parser.add_argument("CHECKOUT", type=pathlib.Path)
    arguments = parser.parse_args()
    checkout = arguments.CHECKOUT.resolve()
    work = (arguments.work or pathlib.Path(tempfile.mkdtemp())).resolve()
    subprocess.run(["cargo", "build", "-q", "-p", "cargo-cuda"], cwd=REPOSITORY, check=True)

    directories = sorted({path.parent for path in (checkout / "Samples").rglob("*.cu")})
    samples = [Sample(path) for path in directories if re.search(arguments.match, str(path))]
    samples = [sample for sample in samples if not sample.is_elsewhere]
    parts = [part for sample in samples for part in sample.parts(checkout)]
    package = work / "samples"
    shutil.rmtree(package, ignore_errors=True)
    (package / "src").mkdir(parents=True)
    (package / "src/lib.rs").write_text("")

    def build(what: str, capabilities, images: str):
        """Builds, and leaves out the parts that do not compile."""
        listed = ", ".join(f'"{capability}"' for capability in capabilities)
        components = ", ".join(f'"{component}"' for component in COMPONENTS)
        (package / "Cargo.toml").write_text(
            '[package]\nname = "samples"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[build-dependencies]\n'
            f'cuda-build = {{ path = "{REPOSITORY}/cuda-build" }}\n[package.metadata.cuda]\n'
            f"components = [{components}]\ncapabilities = [{listed}]\n"
        )
        while True:
            lines = "\n    ".join(parts)
            (package / "build.rs").write_text(
                "#![allow(unused_imports)]\nuse cuda_build::{Build, Engine, Library, Module};\n\n"
                "fn main() -> Result<(), cuda_build::Error> {\n    let mut build = Build::new()?;\n    "
                f"{lines}\n    build.run()?;\n    Ok(())\n}}\n"
            )
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [PROGRAM, "cuda", "build", "-vv", "--fetch"], cwd=package, text=True, capture_output=True,
                env=dict(os.environ, CUDA_BUILD_IMAGES=str(work / images)),
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            printed = done.stdout + done.stderr
            print(f"{what}: {after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f} s of CPU")
            if done.returncode == 0:
                return printed
            failed = sorted(set(re.findall(r'errors? detected in the compilation of "(\S+)"', printed)))
            without = [part for part in parts if not any(source in part for source in failed)]
            if len(without) == len(parts):
                sys.exit(printed)
            for line in re.findall(r".*(?:error:|catastrophic error).*", printed):
                print(f"  {line.strip()}")
            print(f"  left out: {', '.join(failed)}")
            parts[:] = without

    for name in ("images", "fresh"):
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir()
    build("8.0 and 9.0+PTX", ["8.0", "9.0+PTX"], "images")
    print(f"{len(parts)} libraries and modules")
    printed = build("12.0 added", ["8.0", "9.0+PTX", "12.0"], "images")
    compiled = re.findall(r"Compiling (\S+) for .* \(\S+ \d+ of \d+(.*)\)$", printed, re.MULTILINE)
    whole = {pathlib.Path(source).stem: reason for source, reason in compiled if "as a whole" in reason}
    print(f"  {len(compiled)} files, of which {len(whole)} were compiled as a whole:")
    for name, reason in sorted(whole.items()):
        print(f"    {name}{reason}")
    joined = outputs(package)
    shutil.rmtree(package / "target")
    build("all three, fresh", ["8.0", "9.0+PTX", "12.0"], "fresh")
    fresh = outputs(package)
    different = {name for name in joined | fresh if joined.get(name) != fresh.get(name)}
    # nvcc puts its process number into the names of some files' symbols.
    of_nvcc = {name for name in different if any(name.startswith(part) for part in whole) or "device-link" in name}
    print(f"{len(joined)} objects and modules compared, {len(different - of_nvcc)} differ")
    for name in sorted(different):
        print(f"  {name}{' (compiled as a whole)' if name in of_nvcc else ''}")
    sys.exit(bool(different - of_nvcc))


def outputs(package: pathlib.Path) -> dict[str, str]:
    """The contents of each object and module, without the names of nvcc's temporary files."""
    found = {}
    # Wherever Cargo puts what build scripts write.
    built = (package / "target/cargo-cuda/debug").resolve()
    for path in built.rglob("*.fatbin"):
        found[path.name] = path.read_bytes().hex()
    for path in built.rglob("*.a"):
        shown = subprocess.run(["objdump", "-s", "-t", "-r", path], capture_output=True, text=True, check=True)
        for member in re.split(r"\n(?=\S+:\s+file format)", shown.stdout)[1:]:
            name, _, content = member.partition(":")
            found[f"{path.name}: {name}"] = re.sub(r"tmpxft_[0-9a-f_]+|compute_\d+[af]?\.cudafe1", "", content)
    return found


if __name__ == "__main__":
    main()
