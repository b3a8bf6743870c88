#!/usr/bin/env python3
"""Compares `cuda_find::runtime` with NVIDIA's cuda-pathfinder on the same trees.

    tests/projects/pathfinder.py [--keep DIR]

Installs NVIDIA's packages of CUDA 13 and 12 into virtual environments, and makes other trees of their files: a conda
prefix, directories for the loader, roots for CUDA_PATH and CUDA_HOME, a product's root. In each tree, a fresh Python
process loads a library with cuda-pathfinder, and the example `library` of cuda-find prints the path that it would open.
Then another fresh process opens cuda-find's list of needs and the library, in that order. Prints a row for each, and
exits with 1 if the two differ in a way that the table does not expect, or if a library cannot be opened.

cuda-pathfinder takes whatever major it finds first; cuda-find is asked for one. Needs cargo, pip and 1.5 GB.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
PATHFINDER = "cuda-pathfinder==1.9.1"
PACKAGES = {
    13: ["cusolver", "cufft", "curand", "nvjpeg", "cuda-cupti", "cuda-nvrtc", "nvvm", "cuda-runtime", "nccl-cu13"],
    12: ["cuda-runtime-cu12", "cuda-nvrtc-cu12", "curand-cu12"],
}
# Names of cuda-find, and of cuda-pathfinder where they differ.
LIBRARIES = {"nvjitlink": "nvJitLink"}
LOAD = "import sys; from cuda.pathfinder import load_nvidia_dynamic_lib as load; print(load(sys.argv[1]).abs_path)"
OPEN = "import ctypes, sys\nfor path in sys.argv[1:]: ctypes.CDLL(path, ctypes.RTLD_GLOBAL)"


def run(command: list, variables: dict) -> tuple[str, str]:
    kept = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run(list(map(str, command)), env=kept | variables, capture_output=True, text=True)
    return (done.stdout.strip(), "") if done.returncode == 0 else ("", done.stderr.strip())


def link(files, directory: pathlib.Path) -> pathlib.Path:
    directory.mkdir(parents=True)
    for file in files:
        (directory / file.name).symlink_to(file)
    return directory


class Trees:
    def __init__(self, top: pathlib.Path):
        self.top = top
        self.venvs = {major: self.venv(f"venv{major}", names) for major, names in PACKAGES.items()}
        self.bare = self.venv("bare", [])

    def venv(self, name: str, packages: list) -> pathlib.Path:
        path = self.top / name
        if not path.exists():
            subprocess.run([sys.executable, "-m", "venv", path], check=True)
            install = [path / "bin/python", "-m", "pip", "install", "--quiet", PATHFINDER]
            subprocess.run([*install, *(f"nvidia-{package}" for package in packages)], check=True)
        return path

    def files(self, major: int, *names: str) -> list:
        site = next(self.venvs[major].glob("lib/python3*/site-packages"))
        found = [file for file in site.glob("nvidia/**/lib*.so*") if file.is_file()]
        return [file for file in found if not names or file.name.startswith(names)]

    def rows(self):
        """Each row: a name, the Python to use, variables, libraries, a major, what cuda-pathfinder may do else."""
        all13 = ["cudart", "cublas", "cusolver", "cusparse", "cufft", "curand", "nvjpeg", "nvrtc", "nvjitlink",
                 "nvvm", "cupti", "nccl"]
        on = {"VIRTUAL_ENV": str(self.venvs[13])}
        yield "wheels", self.venvs[13], on, all13, 13, ""
        yield "wheels", self.venvs[12], {"VIRTUAL_ENV": str(self.venvs[12])}, ["cudart", "nvrtc", "curand"], 12, ""
        yield "wheels of 12, 13 wanted", self.venvs[12], {"VIRTUAL_ENV": str(self.venvs[12])}, ["cudart", "curand"], 13, "12"
        core = ("libcudart", "libnvrtc", "libnvJitLink", "libcurand", "libcublas", "libnvblas")
        some = ["cudart", "nvrtc", "nvjitlink", "curand", "cublas"]
        conda = link(self.files(13, *core), self.top / "conda/lib").parent
        (conda / "conda-meta").mkdir()
        yield "conda", self.bare, {"CONDA_PREFIX": str(conda)}, some, 13, ""
        loader = link(self.files(13, *core), self.top / "loader")
        yield "loader", self.bare, {"LD_LIBRARY_PATH": str(loader)}, some, 13, ""
        root = link(self.files(13, *core), self.top / "cuda-13/lib64").parent
        old = link(self.files(12), self.top / "cuda-12/lib64").parent
        yield "CUDA_PATH", self.bare, {"CUDA_PATH": str(root)}, some, 13, ""
        yield "CUDA_HOME", self.bare, {"CUDA_HOME": str(old)}, ["cudart", "nvrtc", "curand"], 12, ""
        both = {"CUDA_PATH": str(old), "CUDA_HOME": str(root)}
        yield "CUDA_PATH 12, CUDA_HOME 13", self.bare, both, ["cudart", "curand"], 13, "12"
        product = link(self.files(13, "libnccl"), self.top / "nccl/lib").parent
        yield "NCCL_HOME", self.bare, {"NCCL_HOME": str(product)}, ["nccl"], 13, ""
        everything = {"CONDA_PREFIX": str(conda), "LD_LIBRARY_PATH": str(loader), "CUDA_PATH": str(old)}
        yield "conda, loader, CUDA_PATH", self.bare, everything, ["cudart", "curand"], 13, ""
        behind = {"LD_LIBRARY_PATH": str(loader), "CUDA_PATH": str(old)}
        yield "loader, CUDA_PATH", self.bare, behind, ["cudart"], 13, ""
        yield "nothing", self.bare, {}, ["cudart", "nccl"], 13, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=pathlib.Path, help="a directory for the environments and trees")
    arguments = parser.parse_args()
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "cuda-find", "--example", "library"], cwd=REPOSITORY, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    ours = target / "release/examples/library"
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        top = arguments.keep or pathlib.Path(temporary)
        top.mkdir(parents=True, exist_ok=True)
        for old in ("conda", "loader", "cuda-13", "cuda-12", "nccl"):
            subprocess.run(["rm", "-rf", top / old], check=True)
        print("| tree | library | cuda-pathfinder | cuda-find | opened | ms |\n|---|---|---|---|---|---|")
        for name, python, variables, libraries, major, other in Trees(top).rows():
            for library in libraries:
                theirs, _ = run([python / "bin/python", "-c", LOAD, LIBRARIES.get(library, library)], variables)
                started = time.monotonic()
                printed, error = run([ours, library, major], variables)
                took = (time.monotonic() - started) * 1000
                lines = printed.splitlines()
                path = lines[-2] if lines else ""
                needs = [line.removeprefix("needs ") for line in lines[:-2]]
                _, failure = run([python / "bin/python", "-c", OPEN, *needs, path], {}) if path else ("", "")
                same = bool(path) == bool(theirs) and os.path.realpath(path) == os.path.realpath(theirs)
                expected = same or (other and theirs and not f"{major}" == other)
                wrong += not expected or bool(failure)
                short = lambda text: text.replace(str(top), "").replace("/lib/python3", "…") or "nothing"
                answer = "the same" if same else short(path) if path else " ".join(line.strip() for line in error.splitlines() if "is for CUDA" in line) or "nothing"
                opened = failure.splitlines()[-1] if failure else f"with {len(needs)} before" if path else "–"
                print(f"| {name} | {library} {major} | {short(theirs)} | {short(answer)} | {opened} | {took:.0f} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
