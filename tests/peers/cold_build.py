"""What it costs to have a crate as the only build dependency, nothing compiled before."""

import pathlib
import shutil

from measure import CHECKOUT, Used, cargo_environment, machine, measured, median, print_table

# Name, requirement. All are compared with the first; the last is what a build script costs by itself.
PEERS = [
    ("cuda-build", '{ path = "OURS" }'),
    ("cuda-find", '{ path = "OURS" }'),
    ("cmake", '"0.1"'),
    ("cc", '"1"'),
    ("bindgen_cuda", '"0.1"'),
    ("cudaforge", '"0.1"'),
    ("(no dependency)", None),
]


def prepare(directory: pathlib.Path, name: str, requirement: str | None) -> tuple[str, int]:
    """Writes the crate and fetches what it needs. Returns the version and the number of crates."""
    (directory / "src").mkdir(parents=True)
    dependency = used = ""
    if requirement:
        dependency = f"{name} = {requirement}\n".replace("OURS", str(CHECKOUT / name))
        # Named, so that it is linked into the script as in real use.
        used = f"use {name.replace('-', '_')} as _;\n"
    (directory / "Cargo.toml").write_text(
        '[package]\nname = "cold"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n\n'
        f"[build-dependencies]\n{dependency}"
    )
    (directory / "src/lib.rs").write_text("")
    (directory / "build.rs").write_text(f"{used}fn main() {{}}\n")
    options = {"cwd": directory, "env": cargo_environment(directory / "target")}
    measured(["cargo", "generate-lockfile"], **options)
    measured(["cargo", "fetch", "--locked"], **options)
    tree = ["cargo", "tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]
    # `name v1.2.3 (path) (*)`: a crate can stand in the tree many times.
    lines = measured(tree, **options)[1].splitlines()[1:]
    crates = {tuple(line.split(" ")[:2]) for line in lines if " " in line}
    return dict(crates).get(name, "").removeprefix("v"), len(crates)


def run(place: pathlib.Path, rounds: int = 3) -> None:
    facts = [prepare(place / str(index), *peer) for index, peer in enumerate(PEERS)]
    used: list[list[Used]] = [[] for _ in PEERS]
    for _ in range(rounds):
        # Interleaved, so that a slow minute of the machine meets every crate.
        for index in range(len(PEERS)):
            target = place / "target"
            options = {"cwd": place / str(index), "env": cargo_environment(target)}
            used[index].append(measured(["cargo", "build", "--offline", "--locked"], **options)[0])
            shutil.rmtree(target)
    print(f"Cold builds (`cargo build`, debug), {rounds} rounds, {machine()}:\n")
    rows = [["build dependency", "version", "crates", "CPU s, median", "least", "most", "CPU beside cuda-build", "wall s"]]
    first = median(used[0], lambda one: one.cpu)
    for (name, _), (version, crates), series in zip(PEERS, facts, used):
        cpu = [one.cpu for one in series]
        wall = median(series, lambda one: one.wall)
        rows.append(
            [name, version, crates, f"{median(cpu):.2f}", f"{min(cpu):.2f}", f"{max(cpu):.2f}"]
            + [f"{median(cpu) / first:.2f}", f"{wall:.2f}"]
        )
    print_table(rows)
