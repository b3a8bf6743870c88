"""Two parts of compiling, each as a whole process: a small module, and a build from kept images."""

import os
import pathlib
import shutil

from measure import Used, cargo_cuda, cargo_environment, cpu_and_wall, machine, measured, print_table
from rebuild import FILES, FOUR, Project
from toolkit import Counted
from ways import WAYS

SAXPY = """
extern "C" __global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""


def row(name: str, series: list[Used], other: list[Used]) -> list[str]:
    (cpu, wall), (other_cpu, other_wall) = cpu_and_wall(series), cpu_and_wall(other)
    return [name, f"{cpu * 1e3:.1f}", f"{wall * 1e3:.1f}", f"{cpu / other_cpu:.3f}", f"{wall / other_wall:.3f}"]


def head(first: str, other: str) -> list[str]:
    return [first, "CPU ms", "wall ms", f"CPU beside {other}", f"wall beside {other}"]


def script_environment(toolkit: Counted, package: pathlib.Path, out: pathlib.Path, capabilities: list[str]) -> dict[str, str]:
    """That of a build script, for our program."""
    out.mkdir(exist_ok=True)
    return os.environ | toolkit.environment() | {
        "CARGO_MANIFEST_DIR": str(package),
        "OUT_DIR": str(out),
        "TARGET": "x86_64-unknown-linux-gnu",
        "HOST": "x86_64-unknown-linux-gnu",
        "OPT_LEVEL": "0",
        "NUM_JOBS": str(os.cpu_count()),
        "CUDA_BUILD_CAPABILITIES": ",".join(f"sm_{name}" for name in capabilities),
        "CUDA_BUILD_CACHE_DIR": str(package.parent / "cache"),
    }


def module(place: pathlib.Path, ours: pathlib.Path, rounds: int = 11, *files: str) -> None:
    """Modules by NVRTC, beside nvcc: a small one, or the files that are named, each with its directory."""
    toolkit = Counted(place / "cuda", ours)
    small = place / "small/saxpy.cu"
    small.parent.mkdir()
    small.write_text(SAXPY)
    table = [head("a module by", "nvcc")]
    for index, source in enumerate(map(pathlib.Path, files or [small])):
        package = place / str(index)
        shutil.copytree(source.parent, package)
        (package / "Cargo.toml").write_text('[package]\nname = "x"\n\n[workspace]\n')
        nvrtc: list[Used] = []
        nvcc: list[Used] = []
        command = [toolkit.root / "bin/nvcc", "-fatbin", "-std=c++17", "-gencode=arch=compute_80,code=sm_80", source.name]
        for round_ in range(rounds + 1):
            out = package / f"out-{round_}"
            env = script_environment(toolkit, package, out, ["80"])
            once = measured([ours, "build-once", "module", source.name], cwd=package, env=env)[0]
            # The first round queries nvcc, once per machine.
            if round_:
                nvrtc.append(once)
                nvcc.append(measured([*command, "-o", out / "nvcc.fatbin"], cwd=package, env=env)[0])
        table.append(row(f"cuda-build, NVRTC, search included, {source.name}", nvrtc, nvcc))
        table.append(row(f"nvcc -fatbin, {source.name}", nvcc, nvcc))
    print(f"Modules for sm_80, nvcc {toolkit.version}, {rounds} interleaved rounds, medians; {machine()}\n")
    print_table(table)


def call(place: pathlib.Path, ours: pathlib.Path, rounds: int = 20) -> None:
    """Calls through the nvcc wrapper, and of nvcc alone for the same list."""
    toolkit = Counted(place / "cuda", ours)
    package = place / "package"
    (package / "src").mkdir(parents=True)
    (package / "src/lib.rs").write_text("")
    manifest = '[package]\nname = "x"\n\n[workspace]\n\n[package.metadata.cuda]\ncapabilities = ["8.0", "9.0"]\n'
    (package / "Cargo.toml").write_text(manifest)
    (package / "host.cpp").write_text("int host() { return 0; }\n")
    env = cargo_environment(package / "target") | toolkit.root_only() | {"CUDA_BUILD_IMAGES": str(place / "images")}
    measured([cargo_cuda(), "cuda", "build", "-q", "--target-dir", package / "target"], cwd=package, env=env)
    view = (package / "target/debug").resolve().parent / ".cuda/view"
    programs = [view / "bin/nvcc", view / "nvcc/bin/nvcc"]
    both = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"]
    one = ["-arch=sm_80"]
    calls = {
        "`--version`": (["--version"], ["--version"]),
        "a call that is passed on": (["-c", "host.cpp", "-o", "host.o"],) * 2,
        "compiled, kept": ([*one, "-c", "k.cu", "-o", "k.o"], [*both, "-c", "k.cu", "-o", "k.o"]),
        "taken from the store": ([*one, "-c", "k.cu", "-o", "k.o"], [*both, "-c", "k.cu", "-o", "k.o"]),
    }
    table = [head("a call", "nvcc")]
    for name, words in calls.items():
        series: tuple[list[Used], list[Used]] = ([], [])
        for round_ in range(rounds):
            if name != "taken from the store":
                text = f"__global__ void k(int *p) {{ *p = {round_}; }}\n"
                (package / "k.cu").write_text(text)
            for program, of_program, used in zip(programs, words, series):
                used.append(measured([program, *of_program], cwd=package, env=env)[0])
        table += [row(f"{name}, wrapper", *series), row(f"{name}, nvcc", series[1], series[1])]
    print(f"Calls of nvcc {toolkit.version}, {rounds} interleaved rounds, medians; {machine()}\n")
    print_table(table)


def images(place: pathlib.Path, ours: pathlib.Path, rounds: int = 3) -> None:
    """A final build from the directories of four machines, beside compiling everything."""
    toolkit = Counted(place / "cuda", ours)
    package, shared = place / "package", place / "images"
    Project(package, WAYS[0])

    def build(name: str, capabilities: list[str], kept: pathlib.Path, cache: str) -> Used:
        env = script_environment(toolkit, package, package / name, capabilities)
        env |= {"CUDA_BUILD_CACHE_DIR": str(place / f"cache-of-{cache}"), "CUDA_BUILD_IMAGES": str(kept)}
        toolkit.forget()
        return measured([ours, "build-once", "library"], cwd=package, env=env)[0]

    # Every job is on a machine of its own, which starts without a cache directory. Putting the directories of all
    # jobs together is the union of their files.
    for capability in FOUR:
        own = place / f"images-{capability}"
        build(f"out-{capability}", [capability], own, capability)
        shutil.copytree(own, shared, dirs_exist_ok=True)
    first: list[Used] = []
    kept: list[Used] = []
    compiled: list[Used] = []
    for round_ in range(rounds):
        first.append(build(f"first-{round_}", FOUR, shared, f"first-{round_}"))
        kept.append(build(f"kept-{round_}", FOUR, shared, "first-0"))
        from_kept = toolkit.calls()
        compiled.append(build(f"compiled-{round_}", FOUR, place / f"empty-{round_}", "first-0"))
        from_nothing = toolkit.calls()
    print(
        f"{FILES} `.cu` files for {len(FOUR)} capabilities, nvcc {toolkit.version}, {rounds} interleaved rounds, "
        f"medians; {machine()}. Files and images compiled: {from_kept} and {from_nothing}.\n"
    )
    print_table(
        [
            head("a build", "compiling"),
            row("from four full directories", kept, compiled),
            row("the same, the first on a machine", first, compiled),
            row("by compiling", compiled, compiled),
        ]
    )
