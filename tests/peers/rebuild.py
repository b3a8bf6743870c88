"""What is compiled again after a change, how long it takes, and whether the result is right."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, replace

from measure import CHECKOUT, cargo_cuda, cargo_environment, machine, measured, median, print_table
from toolkit import Counted
from ways import CMAKE_LISTS, WAYS, WRAPPER, Way

FILES = 12
ONE, FOUR, FIVE = ["80"], ["80", "86", "89", "90"], ["80", "86", "89", "90", "120"]
# Title and capabilities, in this order. Where little happens, one build says nothing, so that step is repeated.
STEPS = [
    ("cold", ONE),
    ("nothing to do", ONE),
    ("one file of twelve", ONE),
    ("the shared header", ONE),
    ("release after dev", ONE),
    ("clean, cache full", ONE),
    ("capabilities 1 → 4", FOUR),
    ("4 → 5", FIVE),
    ("5 → 4", FOUR),
]
# Not sccache's default, which another server may use.
PORT = 42261
# With this at its start, a build script can be compiled and run without building anything.
PREPARE = """{
    if std::env::var_os("PEERS_PREPARE").is_some() {
        println!("cargo:rerun-if-env-changed=PEERS_PREPARE");
        std::process::exit(0);
    }
"""


class Project:
    """Twelve `.cu` files that a program prints something from, so that a stale object shows."""

    def __init__(self, directory: pathlib.Path, way: Way):
        self.directory, self.all, self.third = directory, 1000, 200
        (directory / "src").mkdir(parents=True)
        (directory / "kernels").mkdir()
        self.write(
            "Cargo.toml",
            '[package]\nname = "twelve"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n\n[build-dependencies]\n'
            + way.dependency.replace("OURS", str(CHECKOUT / "cuda-build"))
            + '\n\n[package.metadata.cuda]\ncapabilities = ["8.0"]\n\n'
            # In a debug build, `cc` passes `-G`, which puts paths into device code and turns its optimization off.
            + "[profile.dev]\ndebug = false\n",
        )
        indices = range(FILES) if way.package else []
        declared = "".join(f"    fn value_{index:02}() -> i32;\n" for index in indices)
        values = ", ".join(f"unsafe {{ value_{index:02}() }}" for index in indices)
        self.write("src/lib.rs", f'extern "C" {{\n{declared}}}\n\npub fn values() -> Vec<i32> {{\n    vec![{values}]\n}}\n')
        # Cargo links what a build script names into the library, and so into its users.
        self.write("src/main.rs", 'fn main() {\n    twelve::values().iter().for_each(|value| println!("{value}"));\n}\n')
        self.write("build.rs", way.script.replace("{\n", PREPARE, 1))
        self.write("kernels/CMakeLists.txt", CMAKE_LISTS)
        self.write_header()
        for index in range(FILES):
            self.write_kernel(index)

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def write_header(self) -> None:
        self.write("kernels/all.cuh", f"#pragma once\n#define ALL {self.all}\n")

    def value(self, index: int) -> int:
        return self.third if index == 3 else index

    def write_kernel(self, index: int) -> None:
        self.write(
            f"kernels/k{index:02}.cu",
            f"""#include "all.cuh"
__global__ void fill_{index:02}(float *out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = out[i] * 2.0f + (ALL + {self.value(index)});
}}
extern "C" void launch_{index:02}(float *out, int n) {{ fill_{index:02}<<<(n + 255) / 256, 256>>>(out, n); }}
extern "C" int value_{index:02}() {{ return ALL + {self.value(index)}; }}
""",
        )

    def change(self, step: str) -> None:
        if step == "the shared header":
            self.all += 1000
            self.write_header()
        elif step == "one file of twelve":
            self.third += 1
            self.write_kernel(3)

    def expected(self) -> str:
        """What the program prints when every object is up to date."""
        return "".join(f"{self.all + self.value(index)}\n" for index in range(FILES))


class Sccache:
    """Its server starts the compilers, so its CPU time is a part of what a build uses."""

    def __init__(self, cache: pathlib.Path):
        environment = {"START_SERVER": "1", "NO_DAEMON": "1", "IDLE_TIMEOUT": "0", "SERVER_PORT": str(PORT), "DIR": str(cache)}
        environment = os.environ | {f"SCCACHE_{name}": value for name, value in environment.items()}
        self.process = subprocess.Popen(["sccache"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", PORT)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("sccache accepts no connection")

    def cpu(self) -> float:
        """Seconds of the server so far, with the processes that it has waited for."""
        # The second field, in parentheses, is the name. The fields 14 to 17 are times in ticks.
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Outcome:
    calls: tuple[int, int]
    cpu: float
    wall: float
    # Whether the program does what the sources say, for all capabilities.
    right: bool


class Peer:
    def __init__(self, way: Way, place: pathlib.Path, toolkit: Counted):
        self.way, self.toolkit, self.server = way, toolkit, None
        self.directory = place / re.sub(r"\W", "-", way.name)
        self.project = Project(self.directory, way)
        self.outcomes: list[list[Outcome]] = [[] for _ in STEPS]
        # The build script and its dependencies are compiled for both profiles: neither is measured here.
        for capabilities in [ONE, FOUR, FIVE] if way.wrapped else [ONE]:
            for profile in ["dev", "release"]:
                self.build(capabilities, profile, "--lib", PEERS_PREPARE="1")
            target = self.target(capabilities)
            self.copy(target, self.prepared(target))
        lock = (self.directory / "Cargo.lock").read_text()
        version = re.search(f'name = "{way.package}"\nversion = "(.*)"', lock)
        self.version = version[1] if version else ""

    @staticmethod
    def copy(source: pathlib.Path, to: pathlib.Path) -> None:
        """With the times of change, by which Cargo decides."""
        to.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", source, to], check=True)

    def prepared(self, target: pathlib.Path) -> pathlib.Path:
        return self.directory / "prepared" / target.name

    def reset(self) -> None:
        """As if the build script had never run."""
        for target in {self.target(capabilities) for capabilities in [ONE, FOUR, FIVE]}:
            shutil.rmtree(target)
            self.copy(self.prepared(target), target)

    def target(self, capabilities: list[str]) -> pathlib.Path:
        """Cargo's target directory: one for each list under `cargo cuda`."""
        target = self.directory / "target"
        return target / "-".join(capabilities) if self.way.wrapped else target

    def build(self, capabilities: list[str], profile: str, *arguments: str, **variables: str):
        wrapped, target = self.way.wrapped, self.target(capabilities)
        toolkit = self.toolkit.root_only() if wrapped else self.toolkit.environment()
        env = cargo_environment(target) | toolkit | self.way.env | variables
        env |= {
            "CAPABILITIES": " ".join(ONE if wrapped else capabilities),
            "CUDA_BUILD_CAPABILITIES": ",".join(f"sm_{name}" for name in capabilities),
            "CUDA_BUILD_CACHE_DIR": str(self.directory.parent / "cache"),
            "CUDA_BUILD_IMAGES": str(self.directory / "images"),
            "CCACHE_DIR": str(self.directory / "launcher-cache"),
            "SCCACHE_SERVER_PORT": str(PORT),
        }
        command = ["cargo", "build", "--profile", profile, *arguments]
        if wrapped:
            command = [cargo_cuda(), "cuda", "build", "-q", "--target-dir", target, *command[2:]]
        return measured(command, cwd=self.directory, env=env)[0]

    def round(self) -> None:
        self.reset()
        images, cache = self.directory / "images", self.directory / "launcher-cache"
        for directory in [images, cache]:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        if "sccache" in self.way.env.values():
            self.server = Sccache(cache)
        for index, (step, capabilities) in enumerate(STEPS):
            if step == "clean, cache full" and not self.way.has_cache:
                continue
            repeats = [self.step(step, capabilities) for _ in range(5 if step == "nothing to do" else 1)]
            cpu, wall = median(repeats, lambda one: one.cpu), median(repeats, lambda one: one.wall)
            self.outcomes[index].append(replace(repeats[-1], cpu=cpu, wall=wall))
        if self.server:
            self.server.stop()
            self.server = None

    def step(self, step: str, capabilities: list[str]) -> Outcome:
        # Some of the neighbours compare times of change.
        time.sleep(0.05)
        self.project.change(step)
        if step == "clean, cache full":
            self.reset()
        release = step == "release after dev"
        self.toolkit.forget()
        before = self.server.cpu() if self.server else 0
        used = self.build(capabilities, "release" if release else "dev")
        cpu = used.cpu + (self.server.cpu() - before if self.server else 0)
        calls = self.toolkit.calls()
        profile = (self.target(capabilities) / ("release" if release else "debug")).resolve()
        # Wherever Cargo puts what build scripts write.
        program, archives = profile / "twelve", profile.rglob("libkernels.a")
        right = not self.way.package or (
            subprocess.check_output([program], text=True) == self.project.expected()
            and all(self.toolkit.has_exactly(archive, capabilities, FIVE, FILES) for archive in archives)
        )
        return Outcome(calls, cpu, used.wall, right)


def cell(outcomes: list[Outcome]) -> str:
    if not outcomes:
        return "–"
    stale = "" if all(one.right for one in outcomes) else "**stale**, "
    files, images = outcomes[-1].calls
    cpu, wall = median(outcomes, lambda one: one.cpu), median(outcomes, lambda one: one.wall)
    return f"{stale}{files}+{images}; {cpu:.2f}, {wall:.2f}"


def compare(peers: list[Peer]) -> None:
    """Ratios to the best neighbour without a launcher whose program is right."""
    print("\ncuda-build beside the best neighbour without a launcher:\n")
    ours = peers[0]
    others = [peer for peer in peers if peer.way.package not in ("", "cuda-build") and not peer.way.has_cache]
    rows = [["step", "CPU", "wall"]]
    for index, (step, _) in enumerate(STEPS):
        right = [peer for peer in others if peer.outcomes[index] and all(one.right for one in peer.outcomes[index])]
        if step == "nothing to do" or not ours.outcomes[index] or not right:
            continue
        ratios = []
        for key in [lambda one: one.cpu, lambda one: one.wall]:
            best = min(right, key=lambda peer: median(peer.outcomes[index], key))
            ratio = median(ours.outcomes[index], key) / median(best.outcomes[index], key)
            ratios.append(f"{ratio:.2f} ({best.way.name})")
        rows.append([step, *ratios])
    print_table(rows)


def compare_wrapped(peers: list[Peer]) -> None:
    """The CPU time of each helper under the wrapper, beside the helper alone with the list as options."""
    rows = [["under the wrapper, beside the same helper alone", *(step for step, _ in STEPS)]]
    alone = {peer.way.name: peer for peer in peers}
    for peer in peers:
        if not peer.way.wrapped or not (helper := alone.get(peer.way.name.removesuffix(WRAPPER))):
            continue
        cells = []
        for ours, theirs in zip(peer.outcomes, helper.outcomes):
            # After `cargo clean`, a helper alone compiles everything.
            theirs = theirs or helper.outcomes[0]
            right = all(one.right for one in ours + theirs)
            ratio = median(ours, lambda one: one.cpu) / median(theirs, lambda one: one.cpu)
            cells.append(f"{ratio:.2f}" if right else "–")
        rows.append([helper.way.name, *cells])
    if rows[1:]:
        print()
        print_table(rows)


def run(place: pathlib.Path, ours: pathlib.Path, rounds: int = 5, *names: str) -> None:
    toolkit = Counted(place / "cuda", ours)
    ways = [way for way in WAYS if not names or any(name in way.name for name in names)]
    ways = [way for way in ways if all(map(shutil.which, way.env.values()))]
    peers = [Peer(way, place, toolkit) for way in ways]
    print(f"Twelve `.cu` files, nvcc {toolkit.version}, {rounds} interleaved rounds, medians; {machine()}", flush=True)
    for _ in range(rounds):
        # Interleaved, so that a slow minute of the machine meets every way.
        for peer in peers:
            peer.round()
    print("Each cell: files compiled as a whole + images compiled; CPU seconds, wall seconds.\n")
    print_table(
        [["builds with", "version", *(step for step, _ in STEPS)]]
        + [[peer.way.name, peer.version, *map(cell, peer.outcomes)] for peer in peers]
    )
    compare(peers)
    compare_wrapped(peers)
