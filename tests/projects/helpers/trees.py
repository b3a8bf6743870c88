"""Lays out CUDA as Python wheels, conda, Nix, Debian and NVIDIA's installer do, of the files of real wheels.

Every file is a hard link to a file of a toolkit that `cargo cuda toolkit add` fetched, or a copy if the toolkit is on
another file system. The names follow the listings in tests/layouts. What no wheel has is made: the stub of the driver's
library, from the names in `cuda.h`; static archives of cuBLAS, which are empty; nvcc.profile of conda and Nix.
"""

import csv
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

TARGET = "targets/x86_64-linux"
PACKAGES = {
    "nvidia_cuda_nvcc", "nvidia_nvvm", "nvidia_cuda_crt", "nvidia_cuda_runtime", "nvidia_cuda_cccl",
    "nvidia_cuda_culibos", "nvidia_cuda_nvrtc", "nvidia_cublas", "nvidia_curand",
}
NIX_NAMES = {
    "nvidia_cuda_nvcc": "cuda_nvcc", "nvidia_nvvm": "cuda_nvcc", "nvidia_cuda_crt": "cuda_nvcc",
    "nvidia_cuda_runtime": "cuda_cudart", "nvidia_cuda_culibos": "cuda_cudart", "nvidia_cuda_cccl": "cuda_cccl",
    "nvidia_cuda_nvrtc": "cuda_nvrtc", "nvidia_cublas": "libcublas", "nvidia_curand": "libcurand",
}
PROFILE = """TOP = {top}
NVVMIR_LIBRARY_DIR = $(_HERE_)/../nvvm/libdevice
PATH += $(_HERE_)/../nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
SYSTEM_INCLUDES += "-isystem" "$(TOP)/include/cccl" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib/stubs" "-L$(TOP)/lib"
"""
# nixpkgs' compilers add these variables to every call.
WRAPPER = """#!/bin/sh
for word in $NIX_LDFLAGS; do case $word in -L*) set -- "$@" "$word";; esac; done
exec {program} "$@" $NIX_CFLAGS_COMPILE
"""
# A command runs with directories of the tree over those of the machine, in a mount namespace of its own.
MOUNT = """for over in "$1"/*; do
    mount -t overlay overlay -o "lowerdir=$over:/${over##*/}" "/${over##*/}" || exit 97
done
shift
exec "$@"
"""


@dataclasses.dataclass
class Tree:
    """A directory, the variables of a user of it, and what lies over the machine's `/usr` and `/etc`, if anything."""

    name: str
    variables: dict[str, str]
    over: pathlib.Path | None = None

    def command(self, *words) -> list[str]:
        """The command, run where the tree is in its place."""
        words = [str(word) for word in words]
        return words if not self.over else ["unshare", "-m", "sh", "-c", MOUNT, "sh", str(self.over), *words]


def can_mount(tree: Tree) -> bool:
    """Whether this user may lay the tree over the machine's directories."""
    words = tree.command("true")
    return shutil.which(words[0]) is not None and subprocess.run(words, capture_output=True).returncode == 0


def link(source: pathlib.Path, place: pathlib.Path):
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)


def points(place: pathlib.Path, target: str):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def written(place: pathlib.Path, text: str, mode: int = 0o644):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.write_text(text)
    place.chmod(mode)


class Wheels:
    """The files of the wheels of one CUDA release: package and path, as the wheels' RECORD lists them."""

    def __init__(self, release: str):
        self.release = release
        self.files: dict[str, tuple[str, pathlib.Path]] = {}
        self.packages: set[str] = set()
        cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        cache = pathlib.Path(os.environ.get("CUDA_BUILD_CACHE_DIR") or pathlib.Path(cache) / "cuda-build")
        for toolkit in sorted((cache / "toolkits").glob(f"{release}.*")):
            for description in toolkit.glob("*.dist-info"):
                self.add(toolkit, description)
        if missing := PACKAGES - self.packages:
            command = f"cargo cuda toolkit add {release} --components cudart,nvcc,nvrtc,cublas,curand"
            sys.exit(f"no {', '.join(sorted(missing))}: run `{command}`")

    def add(self, toolkit: pathlib.Path, description: pathlib.Path):
        package = description.name.split("-")[0]
        if package not in PACKAGES or package in self.packages:
            return
        self.packages.add(package)
        with (description / "RECORD").open(newline="") as lines:
            for path, *_ in csv.reader(lines):
                if (toolkit / path).is_file() and not path.endswith((".pyc", "__init__.py")):
                    self.files[path] = (package, toolkit / path)

    def parts(self):
        """Package, path below the directory of the major (`include/cuda.h`) and file."""
        for path, (package, file) in sorted(self.files.items()):
            if found := re.match(r"nvidia/cu\d+/(.*)", path):
                yield package, found[1], file

    def functions(self) -> str:
        """C source with every function that `cuda.h` names, for a stub."""
        header = next(file for _, path, file in self.parts() if path == "include/cuda.h")
        names = sorted(set(re.findall(r"\bcu[A-Z]\w*", header.read_text(errors="replace"))))
        return "".join(f"int {name}(void) {{ return 100; }}\n" for name in names)


class Forest:
    """All trees below one directory."""

    def __init__(self, top: pathlib.Path, release: str, debian: pathlib.Path | None):
        self.top = top
        self.wheels = Wheels(release)
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir(parents=True)
        (top / "driver.c").write_text(self.wheels.functions())
        self.driver = top / "libcuda.so"
        options = ["-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
        subprocess.run(["gcc", *options, "-o", self.driver, top / "driver.c"], check=True)
        with_driver = top / "driver"
        for name in ("libcuda.so", "libcuda.so.1"):
            link(self.driver, with_driver / "usr/lib/x86_64-linux-gnu" / name)
        path = os.environ["PATH"]
        self.trees = [*self.python(path, with_driver), self.conda(path), self.nix(path, with_driver)]
        if debian:
            self.trees.append(self.debian(debian))
        self.trees += self.installer(path)
        if not can_mount(self.trees[0]):
            print("without root and `unshare`, trees that belong into /usr are left out", file=sys.stderr)
            self.trees = [tree for tree in self.trees if not tree.over]

    def root(self, root: pathlib.Path, layout: str):
        """A root with `targets/x86_64-linux`, as NVIDIA's installer and conda have it."""
        for _, path, file in self.wheels.parts():
            if path.startswith("lib/libnvvm"):
                link(file, root / "nvvm/lib64" / file.name)
                points(root / "nvvm/lib64/libnvvm.so", file.name)
            elif path.startswith(("include/", "lib/")):
                link(file, root / TARGET / path)
                self.development_link(root / TARGET / path)
            else:
                link(file, root / path)
        link(self.driver, root / TARGET / "lib/stubs/libcuda.so")
        if layout == "conda":
            written(root / "bin/nvcc.profile", PROFILE.format(top=f"$(_HERE_)/../{TARGET}"))

    @staticmethod
    def development_link(library: pathlib.Path):
        """`libcublas.so`, which wheels lack."""
        if ".so." in library.name:
            plain = library.with_name(library.name.split(".so.")[0] + ".so")
            if not plain.is_symlink():
                points(plain, library.name)

    def python(self, path: str, with_driver: pathlib.Path) -> list[Tree]:
        venv = self.top / "wheels/venv"
        site = venv / "lib/python3.12/site-packages"
        for name, (_, file) in self.wheels.files.items():
            link(file, site / name)
        written(venv / "pyvenv.cfg", "home = /usr/bin\nversion = 3.12.0\n")
        (venv / "bin").mkdir()
        variables = {"VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}:{path}"}
        root = next(site.glob("nvidia/cu*"))
        named = variables | {"CUDA_HOME": str(root), "CUDA_PATH": str(root)}
        named["PATH"] = f"{root / 'bin'}:{named['PATH']}"
        return [
            Tree("wheels", variables, with_driver),
            Tree("wheels, variables set", named, with_driver),
            Tree("wheels, no driver", variables),
        ]

    def conda(self, path: str) -> Tree:
        prefix = self.top / "conda"
        self.root(prefix, "conda")
        (prefix / "conda-meta").mkdir()
        points(prefix / TARGET / "bin/nvcc", "../../../bin/nvcc")
        points(prefix / TARGET / "nvvm", "../../nvvm")
        for library in sorted((prefix / TARGET / "lib").glob("lib*")):
            points(prefix / "lib" / library.name, f"../{TARGET}/lib/{library.name}")
        return Tree("conda", {"CONDA_PREFIX": str(prefix), "PATH": f"{prefix / 'bin'}:{path}"})

    def nix(self, path: str, with_driver: pathlib.Path) -> Tree:
        def output(name: str) -> pathlib.Path:
            name = f"{name.split('-')[0]}-{self.wheels.release}" + (f"-{name.split('-')[1]}" if "-" in name else "")
            digest = hashlib.sha256(name.encode()).hexdigest()[:32]
            return self.top / "nix/store" / f"{digest}-{name}"

        for package, inner, file in self.wheels.parts():
            name = NIX_NAMES[package]
            if name == "cuda_nvcc":
                inner = inner.replace("lib/libnvvm", "nvvm/lib/libnvvm")
                link(file, output(name) / inner)
            elif inner.startswith("include/"):
                link(file, output(f"{name}-dev") / inner.replace("/cccl/", "/"))
            elif inner.endswith(".a"):
                link(file, output(f"{name}-static") / inner)
            elif inner.startswith("lib/lib"):
                link(file, output(f"{name}-lib") / inner)
                self.development_link(output(f"{name}-lib") / inner)
        link(self.driver, output("cuda_cudart-stubs") / "lib/stubs/libcuda.so")
        written(output("cuda_nvcc") / "bin/nvcc.profile", PROFILE.format(top="$(_HERE_)/.."))
        for name in ("gcc", "g++", "cc", "c++"):
            written(self.top / "nix/compilers" / name, WRAPPER.format(program=shutil.which(name)), 0o755)
        outputs = sorted((self.top / "nix/store").iterdir())
        includes = [f"-isystem {place / 'include'}" for place in outputs if place.name.endswith("-dev")]
        libraries = [f"-L{place / 'lib'}" for place in outputs if place.name.endswith(("-lib", "-static"))]
        return Tree("Nix outputs", {
            "NIX_CFLAGS_COMPILE": " ".join(includes), "NIX_LDFLAGS": " ".join(libraries),
            "PATH": f"{self.top / 'nix/compilers'}:{output('cuda_nvcc') / 'bin'}:{path}",
        }, with_driver)

    def debian(self, unpacked: pathlib.Path) -> Tree:
        return Tree("Debian's packages", {}, unpacked)

    def installer(self, path: str) -> list[Tree]:
        over = self.top / "installer"
        root = over / f"usr/local/cuda-{self.wheels.release}"
        self.root(root, "installer")
        profile = (root / "bin/nvcc.profile").read_text().replace("$(TOP)/lib", "$(TOP)/lib64")
        written(root / "bin/nvcc.profile", profile)
        points(root / "include", f"{TARGET}/include")
        points(root / "lib64", f"{TARGET}/lib")
        points(over / "usr/local/cuda", root.name)
        written(root / "version.json", f'{{"cuda": {{"name": "CUDA SDK", "version": "{self.wheels.release}.0"}}}}\n')
        for name in ("cublas", "cublasLt", "curand"):
            written(root / TARGET / "lib" / f"lib{name}_static.a", "!<arch>\n")
        return [
            Tree("/usr/local/cuda", {"PATH": f"/usr/local/cuda/bin:{path}"}, over),
            Tree("/usr/local/cuda, not on PATH", {}, over),
        ]
