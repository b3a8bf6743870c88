#!/usr/bin/env python3
"""Compiles real projects by shards: an array of three SLURM tasks, and a last job, beside one machine alone.

    tests/projects/shards.py [--work DIR] [--only REGEX] [--capabilities LIST] [--checkout DIR] PROJECT

PROJECT is `candle-kernels` (the published crate, unmodified), `library` (the template, with Thrust and a relocatable
library), or another name in tests/projects/ports, which needs `--checkout`; `--only` keeps those `.cu` files.

Each task has a checkout and an output store of its own, mounted at one path. rsync brings the stores of the three to
the last job. A script in the place of cicc, which nvcc starts for each file and capability, counts.

Wants root, SLURM, munge and rsync (Debian: slurm-wlm munge rsync); no GPU and no driver.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import types

import ports

MARK = b"cuda-build: another shard compiles this file"
UNMODIFIED = """\
[package]
name = "unmodified"
version = "0.1.0"
edition = "2021"

[dependencies]
candle-kernels = "=0.11.1"

[package.metadata.cuda]
components = ["nvcc", "cudart"]
capabilities = {capabilities}

[workspace]
"""
LIBRARIES = """\
use cuda_build::{Build, Library};

fn main() -> Result<(), cuda_build::Error> {
    Build::new()?
        .library(Library::new("saxpy").glob("kernels/*.cu"))
        .library(Library::new("relocatable").glob("relocatable/*.cu").rdc(true))
        .run()?;
    Ok(())
}
"""
THRUST = """\
#include <thrust/device_vector.h>
#include <thrust/sort.h>
extern "C" void sort_NUMBER(TYPE *data, unsigned n) {
    thrust::device_vector<TYPE> on_device(data, data + n);
    thrust::sort(on_device.begin(), on_device.end());
    thrust::copy(on_device.begin(), on_device.end(), data);
}
"""


def library_template(package: pathlib.Path, capabilities: str):
    """The template with five files that use Thrust, and four with relocatable device code that call each other."""
    shutil.copytree(
        ports.REPOSITORY / "templates/library", package, ignore=shutil.ignore_patterns("target"), dirs_exist_ok=True
    )
    manifest = (package / "Cargo.toml").read_text().replace("../..", str(ports.REPOSITORY))
    (package / "Cargo.toml").write_text(re.sub(r"(?m)^capabilities = .*", f"capabilities = {capabilities}", manifest))
    (package / "build.rs").write_text(LIBRARIES)
    for number, kind in enumerate(["int", "float", "double", "long long", "short"]):
        text = THRUST.replace("NUMBER", str(number)).replace("TYPE", kind)
        (package / f"kernels/sort{number}.cu").write_text(text)
    (package / "relocatable").mkdir(exist_ok=True)
    for number in range(4):
        text = f"__device__ int next{number}(int);\n__device__ int next{(number + 1) % 4}(int value) {{ return value; }}\n"
        text += f"__global__ void call{number}(int *value) {{ *value = next{number}(*value); }}\n"
        (package / f"relocatable/call{number}.cu").write_text(text)


def unmodified(package: pathlib.Path, capabilities: str):
    (package / "src").mkdir(parents=True, exist_ok=True)
    (package / "src/main.rs").write_text("fn main() {}\n")
    (package / "Cargo.toml").write_text(UNMODIFIED.format(capabilities=capabilities))


class Machines:
    """Checkouts of one package, which are seen at one path, each with an output store."""

    def __init__(self, work: pathlib.Path, package: pathlib.Path):
        self.work = work
        self.package = package
        self.here = work / "here"
        self.here.mkdir(exist_ok=True)
        self.calls = work / "calls"
        self.program = ports.REPOSITORY / "target/release/cargo-cuda"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CARGO_TARGET", "CUDA_BUILD"))
        } | {"CUDA_BUILD_CACHE_DIR": str(work / "cache"), "CUDA_BUILD_IMAGES": str(self.here / "images")}

    def fetch(self):
        """Everything that the jobs need, before they start; and the script that counts."""
        for command in [["cargo", "fetch"], [self.program, "cuda", "fetch"]]:
            subprocess.run(command, cwd=self.package, env=self.environment, check=True)
        for cicc in list((self.work / "cache/toolkits").rglob("nvvm/bin/cicc")):
            real = cicc.with_name("cicc.real")
            if not real.exists():
                cicc.rename(real)
                cicc.write_text(f'#!/bin/sh\necho x >> "{self.calls}"\nexec "{real}" "$@"\n')
                cicc.chmod(0o755)

    def checkout(self, name: str) -> pathlib.Path:
        machine = self.work / name
        shutil.rmtree(machine, ignore_errors=True)
        shutil.copytree(self.package, machine / "package", ignore=shutil.ignore_patterns("target"))
        (machine / "images").mkdir()
        return machine

    def script(self, machine: str, jobs: int, command: str) -> str:
        """What runs a command in a checkout, at the common path."""
        return f"""\
machine={machine}
export CARGO_BUILD_JOBS={jobs} TIMEFORMAT='cpu %U %S'
mount --bind "{self.work}/$machine" "{self.here}"
cd "{self.here}/package"
time "{self.program}" cuda {command}
"""

    def alone(self, name: str, command: str) -> tuple[float, int, str]:
        """CPU seconds, calls of cicc, and what was printed."""
        before = self.counted()
        done = subprocess.run(
            ["unshare", "--mount", "bash", "-ec", self.script(name, 2, command)],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        (self.work / f"{name}.out").write_text(done.stdout)
        assert done.returncode == 0, done.stdout
        return cpu(done.stdout), self.counted() - before, done.stdout

    def array(self, count: int) -> tuple[list[float], int, list[str]]:
        """The same of an array of tasks of SLURM, two of which run at a time with one job each, as one machine has."""
        for task in range(1, count + 1):
            self.checkout(f"task-{task}")
        task = self.script("task-$SLURM_ARRAY_TASK_ID", 1, 'check --release --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"')
        (self.work / "task.sh").write_text(task)
        (self.work / "array.sh").write_text(
            f"#!/bin/bash\n#SBATCH --array=1-{count} --cpus-per-task=4 --output={self.work}/task-%a.out\n"
            f"unshare --mount bash -e {self.work}/task.sh\n"
        )
        before = self.counted()
        slurm = ports.REPOSITORY / "tests/support/with-slurm.sh"
        done = subprocess.run(
            [slurm, self.work / "slurm", "sbatch", "--wait", self.work / "array.sh"], env=self.environment, cwd=self.work
        )
        printed = [(self.work / f"task-{task}.out").read_text() for task in range(1, count + 1)]
        assert done.returncode == 0, printed
        return [cpu(text) for text in printed], self.counted() - before, printed

    def counted(self) -> int:
        return self.calls.read_text().count("\n") if self.calls.exists() else 0


def cpu(printed: str) -> float:
    user, system = re.findall(r"^cpu (\S+) (\S+)$", printed, re.MULTILINE)[-1]
    return float(user) + float(system)


def summary(printed: str) -> str:
    return next((line.strip() for line in printed.splitlines() if line.lstrip().startswith("Compiled ")), "no summary")


def outputs(machine: pathlib.Path) -> dict[str, bytes]:
    """What build scripts wrote, by name."""
    builds = machine / "package/target/cargo-cuda/release/build"
    files = (path for path in builds.glob("*/out/**/*") if path.is_file() and not path.is_symlink())
    kinds = (".o", ".a", ".ptx", ".fatbin", ".cubin")
    return {str(path.relative_to(builds)): path.read_bytes() for path in files if path.suffix in kinds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=pathlib.Path, default=None)
    parser.add_argument("--only", default="")
    parser.add_argument("--capabilities", default="8.0,9.0,12.0+PTX")
    parser.add_argument("--checkout", type=pathlib.Path)
    parser.add_argument("PROJECT")
    arguments = parser.parse_args()
    work = (arguments.work or pathlib.Path(tempfile.mkdtemp())).resolve()
    work.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "build", "-q", "--release", "-p", "cargo-cuda"], cwd=ports.REPOSITORY, check=True)

    capabilities = str(arguments.capabilities.split(",")).replace("'", '"')
    if arguments.PROJECT in ("candle-kernels", "library"):
        package = work / "source"
        (unmodified if arguments.PROJECT == "candle-kernels" else library_template)(package, capabilities)
    else:
        arguments = types.SimpleNamespace(**vars(arguments), CRATE=arguments.PROJECT, CHECKOUT=arguments.checkout)
        (work / "ported").mkdir(exist_ok=True)
        package = ports.Port(arguments, work / "ported").package

    machines = Machines(work, package)
    machines.fetch()
    machines.checkout("alone")
    alone, calls, _ = machines.alone("alone", "build --release")
    print(f"\n{arguments.PROJECT}, {arguments.capabilities}\none machine: {alone:.0f} s of CPU, {calls} calls of cicc")
    tasks, sharded, printed = machines.array(3)
    for seconds, text in zip(tasks, printed):
        print(f"shard: {seconds:.0f} s of CPU; {summary(text)}")
    last = machines.checkout("last")
    for task in range(1, 4):
        copy = ["rsync", "-a", "--ignore-existing", f"{work}/task-{task}/images/", f"{last}/images/"]
        subprocess.run(copy, check=True)
    joined, again, text = machines.alone("last", "build --release")
    print(f"last job: {joined:.0f} s of CPU, {again} calls of cicc; {summary(text)}")
    print(f"all shards: {sharded} calls of cicc; with the last job {(sum(tasks) + joined) / alone:.2f} of the CPU of one machine")
    expected, found = outputs(work / "alone"), outputs(last)
    assert expected.keys() == found.keys(), expected.keys() ^ found.keys()
    same = sum(expected[name] == found[name] for name in found)
    print(f"outputs: {len(found)}, {same} with the bytes of one machine's, {sum(MARK in data for data in found.values())} with a mark")


if __name__ == "__main__":
    main()
