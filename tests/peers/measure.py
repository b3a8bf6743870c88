"""CPU time of child processes, medians, tables."""

import functools
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


@dataclass
class Used:
    """What a command used, in seconds: user and system time of it and of all processes below it; from start to end."""

    cpu: float
    wall: float


def measured(command, **options) -> tuple[Used, str]:
    """Runs a command to its end. Fails with the command's output."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Used(cpu, wall), done.stdout


def cargo_environment(target: pathlib.Path) -> dict[str, str]:
    """Without the user's compiler cache and flags. A path dependency is compiled as a published crate would be."""
    unset = {"RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"}
    env = {name: value for name, value in os.environ.items() if name not in unset}
    return env | {"CARGO_TARGET_DIR": str(target), "CARGO_INCREMENTAL": "0", "CARGO_TERM_QUIET": "true"}


def our_program() -> pathlib.Path:
    """What this directory's crate does of cuda-build, as one program, optimized."""
    target = CHECKOUT / "target/peers"
    env = cargo_environment(target)
    measured(["cargo", "build", "--release", "--manifest-path", HERE / "Cargo.toml"], env=env)
    return target / "release/peers"


@functools.cache
def cargo_cuda() -> pathlib.Path:
    """The program `cargo-cuda`, optimized."""
    target = CHECKOUT / "target"
    measured(["cargo", "build", "--release", "-p", "cargo-cuda"], cwd=CHECKOUT, env=cargo_environment(target))
    return target / "release/cargo-cuda"


def median(values, key=lambda value: value) -> float:
    return statistics.median(map(key, values))


def cpu_and_wall(series: list[Used]) -> tuple[float, float]:
    return median(series, lambda used: used.cpu), median(series, lambda used: used.wall)


def print_table(rows: list[list]) -> None:
    """A Markdown table; the first row is its head."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    rows.insert(1, ["-" * width for width in widths])
    for row in rows:
        print("| " + " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths)) + " |")


def machine() -> str:
    names = [line.split(": ")[1] for line in open("/proc/cpuinfo") if line.startswith("model name")]
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return f"{os.cpu_count()} cores, {names[0].strip() if names else 'CPU unknown'}, load {load}"
