"""Finding cudart, nvcc, cuBLAS, cuFFT and NVRTC, as whole processes: by cuda-build, CMake and cuda-pathfinder.

Three places made of the same wheels: as pip leaves them, as NVIDIA's installer does, and as Debian does. Files are hard
links, so nothing is stored twice.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from measure import Used, cpu_and_wall, machine, measured, print_table

WANTED = ["cudart", "nvcc", "cublas", "cufft", "nvrtc"]

HEADERS = """
from cuda import pathfinder
names = [n for n in ('cudart', 'cublas', 'cufft', 'nvrtc') if pathfinder.find_nvidia_header_directory(n)]
if pathfinder.find_nvidia_binary_utility('nvcc'): names.append('nvcc')
print('found:', *names)
"""

LIBRARIES = """
from cuda import pathfinder
names = []
for n in ('cudart', 'cublas', 'cufft', 'nvrtc'):
    try:
        if pathfinder.find_nvidia_header_directory(n) and pathfinder.load_nvidia_dynamic_lib(n): names.append(n)
    except pathfinder.DynamicLibNotFoundError: pass
if pathfinder.find_nvidia_binary_utility('nvcc'): names.append('nvcc')
print('found:', *names)
"""

FIND = """
find_package(CUDAToolkit)
foreach(name cudart cublas cufft nvrtc)
  if(TARGET CUDA::${name})
    list(APPEND found ${name})
  endif()
endforeach()
if(CUDAToolkit_NVCC_EXECUTABLE)
  list(APPEND found nvcc)
endif()
"""

PROFILE = """TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/$(_TARGET_DIR_)/include" $(_SPACE_)
SYSTEM_INCLUDES += "-isystem" "$(TOP)/$(_TARGET_DIR_)/include/cccl" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/$(_TARGET_DIR_)/lib/stubs" "-L$(TOP)/$(_TARGET_DIR_)/lib"
"""


def link(source: pathlib.Path, to: pathlib.Path) -> None:
    shutil.copytree(source, to, copy_function=lambda one, other: os.link(os.path.realpath(one), other), dirs_exist_ok=True)


def libraries(source: pathlib.Path, to: pathlib.Path) -> None:
    """With link names: `libcublas.so` beside `libcublas.so.13`."""
    link(source, to)
    for path in source.iterdir():
        if ".so." in path.name:
            (to / (path.name.partition(".so.")[0] + ".so")).symlink_to(path.name)


def profile(binaries: pathlib.Path, text: str) -> None:
    """That of the wheel is a hard link, which must not be written through."""
    (binaries / "nvcc.profile").unlink()
    (binaries / "nvcc.profile").write_text(text)


def installed_root(wheels: pathlib.Path, root: pathlib.Path) -> None:
    target = root / "targets/x86_64-linux"
    link(wheels / "include", target / "include")
    libraries(wheels / "lib", target / "lib")
    link(wheels / "bin", root / "bin")
    link(wheels / "nvvm", root / "nvvm")
    (root / "include").symlink_to("targets/x86_64-linux/include")
    (root / "lib64").symlink_to("targets/x86_64-linux/lib")
    (root / "version.json").write_text('{\n   "cuda" : {\n      "name" : "CUDA SDK",\n      "version" : "13.4.3"\n   }\n}\n')
    profile(root / "bin", PROFILE)


def debian_root(wheels: pathlib.Path, root: pathlib.Path) -> None:
    """Headers in `include`, libraries in the multiarch directory, programs apart, `bin/nvcc` a script."""
    programs, multiarch = root / "lib/nvidia-cuda-toolkit", root / "lib/x86_64-linux-gnu"
    link(wheels / "include", root / "include")
    libraries(wheels / "lib", multiarch)
    link(wheels / "bin", programs / "bin")
    link(wheels / "nvvm/bin", programs / "bin")
    link(wheels / "nvvm/libdevice", programs / "libdevice")
    (root / "bin").mkdir()
    (root / "bin/nvcc").write_text(f'#!/bin/sh\nexec {programs}/bin/nvcc "$@"\n')
    (root / "bin/nvcc").chmod(0o755)
    profile(
        programs / "bin",
        f"NVVMIR_LIBRARY_DIR = {programs}/libdevice\nPATH += $(_HERE_):\n"
        f"LIBRARIES =+ $(_SPACE_) -L{multiarch}/stubs -L{multiarch}\n",
    )


def site_packages(venv: pathlib.Path) -> pathlib.Path:
    return next(venv.glob("lib/python*/site-packages"))


def cmake(scratch: pathlib.Path, finds: bool) -> list:
    source, build = scratch / f"project-{finds}", scratch / "cmake-build"
    shutil.rmtree(build, ignore_errors=True)
    source.mkdir(exist_ok=True)
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(p LANGUAGES NONE)\nset(found)\n"
        + (FIND if finds else "")
        + 'message(STATUS "found: ${found}")\n'
    )
    # Without a language CMake does not know the directory of Debian's libraries.
    options = ["-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu", "-G", "Unix Makefiles"]
    return [shutil.which("cmake"), "-S", source, "-B", build, *options]


def what_was_found(text: str) -> str:
    lines = [line.partition("found: ")[2] for line in text.splitlines() if "found: " in line]
    names = " ".join(lines).replace(";", " ").split()
    missing = [name for name in WANTED if name not in names]
    if not missing:
        return "all"
    return "nothing" if len(missing) == len(WANTED) else f"not {', '.join(missing)}"


def compare(title: str, variables: dict, path, python, scratch: pathlib.Path, ours: pathlib.Path, rounds: int) -> None:
    home = scratch / "home"
    env = {"HOME": str(home), "PATH": f"{path}:/usr/bin:/bin"} | {name: str(value) for name, value in variables.items()}
    # Only CMake needs it; cuda-build finds the wheels by `VIRTUAL_ENV`.
    our_env = {name: value for name, value in env.items() if name != "CUDAToolkit_ROOT"}

    def find(cold: bool) -> list:
        if cold:
            shutil.rmtree(home, ignore_errors=True)
        home.mkdir(exist_ok=True)
        return [ours, "find"]

    # Name, repeats in one round (short ones need more samples), command. The others are compared with the first two.
    finders = [
        ("cuda-build, cold", 8, lambda: find(True)),
        ("cuda-build, warm", 8, lambda: find(False)),
        ("CMake, `find_package(CUDAToolkit)`", 2, lambda: cmake(scratch, True)),
        ("(CMake, the project without it)", 2, lambda: cmake(scratch, False)),
        ("cuda-pathfinder, headers, nvcc, libraries loaded", 2, lambda: [python / "bin/python", "-c", LIBRARIES]),
        ("cuda-pathfinder, headers and nvcc alone", 2, lambda: [python / "bin/python", "-c", HEADERS]),
        ("(Python, doing nothing)", 2, lambda: [python / "bin/python", "-c", "print('found: ')"]),
        ("(`true`, as a process)", 8, lambda: ["/bin/true"]),
    ]
    used: list[list[Used]] = [[] for _ in finders]
    found, calls = [""] * len(finders), ["?"] * len(finders)
    for round_ in range(rounds):
        for index, (_, repeats, command) in enumerate(finders):
            options = {"cwd": scratch, "env": our_env if index < 2 else env}
            for _ in range(repeats):
                once, text = measured(command(), **options)
                used[index].append(once)
                found[index] = what_was_found(text)
            if round_ == 0 and (strace := shutil.which("strace")):
                summary = scratch / "strace"
                measured([strace, "-f", "-c", "-o", summary, *command()], **options)
                total = next(line for line in summary.read_text().splitlines() if line.endswith("total"))
                calls[index] = total.split()[3]
    (cold, _), (warm, _) = cpu_and_wall(used[0]), cpu_and_wall(used[1])
    rows = [["finder", "found", "CPU ms", "wall ms", "CPU beside ours, cold", "beside ours, warm", "system calls"]]
    for index, (name, _, _) in enumerate(finders):
        cpu, wall = cpu_and_wall(used[index])
        figures = [f"{cpu * 1e3:.2f}", f"{wall * 1e3:.2f}", f"{cpu / cold:.1f}", f"{cpu / warm:.1f}"]
        rows.append([name, found[index], *figures, calls[index]])
    print(f"\n{title}\n")
    print_table(rows)


def run(_: pathlib.Path, ours: pathlib.Path, venv: str, rounds: int = 5) -> None:
    """In a virtual environment with the wheels of CUDA 13 and cuda-pathfinder."""
    environment = pathlib.Path(venv).resolve()
    wheels = site_packages(environment) / "nvidia/cu13"
    # On the disk of the wheels, so that their files can be linked to.
    with tempfile.TemporaryDirectory(dir=environment) as directory:
        scratch = pathlib.Path(directory)
        installed, debian, bare = scratch / "usr/local/cuda-13.4", scratch / "debian/usr", scratch / "bare"
        installed_root(wheels, installed)
        debian_root(wheels, debian)
        # cuda-pathfinder without the wheels of CUDA, which it would find first.
        subprocess.run([environment / "bin/python", "-m", "venv", "--without-pip", bare], check=True)
        link(site_packages(environment) / "cuda/pathfinder", site_packages(bare) / "cuda/pathfinder")
        pathfinder = next(site_packages(environment).glob("cuda_pathfinder-*.dist-info")).name
        version = subprocess.check_output(["cmake", "--version"], text=True).splitlines()[0]
        print(f"{machine()}; {rounds} rounds, medians; {version}, {pathfinder}")
        of_wheels = {"VIRTUAL_ENV": environment, "CUDAToolkit_ROOT": wheels}
        # What the real `/usr` needs no variable for.
        of_debian = {"CMAKE_PREFIX_PATH": debian, "LD_LIBRARY_PATH": debian / "lib/x86_64-linux-gnu"}
        for title, variables, path, python in [
            ("pip's wheels in an active virtual environment", of_wheels, environment / "bin", environment),
            ("A root as NVIDIA's installer leaves it, named by `CUDA_PATH`", {"CUDA_PATH": installed}, installed / "bin", bare),
            ("A root as Debian leaves it, its nvcc on `PATH`", of_debian, debian / "bin", bare),
        ]:
            compare(title, variables, path, python, scratch, ours, rounds)
