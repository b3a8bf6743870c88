"""One root out of packages: a view beside `cp -rs` and lndir, which is what Nix's `symlinkJoin` runs.

All link to the same files. "Cold": the root does not exist before. "Warm": it does, and stays as it is.
"""

import os
import pathlib
import shutil
import tempfile

from measure import CHECKOUT, Used, cpu_and_wall, machine, measured, print_table


def count(directory: pathlib.Path) -> tuple[int, int]:
    """Everything that is no directory, and directories with the topmost."""
    files = directories = 0
    for _, below, names in os.walk(directory):
        links = [name for name in below if (pathlib.Path(_) / name).is_symlink()]
        files += len(names) + len(links)
        directories += 1
    return files, directories


def newest(directory: pathlib.Path) -> int:
    """The last change of anything below; links are not followed."""
    paths = [directory, *directory.rglob("*")] if directory.exists() else []
    return max((path.lstat().st_ctime_ns for path in paths), default=0)


def run(_: pathlib.Path, ours: pathlib.Path, packages: str, lndir: str, rounds: int = 21) -> None:
    site_packages = pathlib.Path(packages).resolve()
    program = CHECKOUT / "target/release/cargo-cuda"
    measured(["cargo", "build", "--release", "--manifest-path", CHECKOUT / "Cargo.toml", "-p", "cargo-cuda"])
    # On the disk of the packages.
    with tempfile.TemporaryDirectory(dir=site_packages) as directory:
        scratch = pathlib.Path(directory)
        root, source = scratch / "root", site_packages / "nvidia/cu13"
        # Nothing of this machine's: the packages alone, and a cache directory of its own.
        env = {"PATH": "/usr/bin:/bin", "CUDA_BUILD_ROOTS": str(site_packages), "CUDA_BUILD_CACHE_DIR": str(scratch / "cache"), "CUDA_BUILD_VIEWS": str(root)}
        options = {"env": env, "cwd": scratch}
        view = [program, "cuda", "view"]
        ways = [
            ("cp -rs", False, ["cp", "-rs", source, root]),
            ("lndir", False, ["sh", "-c", 'mkdir "$3" && exec "$1" -silent "$2" "$3"', "sh", lndir, source, root]),
            ("cargo cuda view, cold", False, view),
            ("cargo cuda view, warm", True, view),
            ("(cargo-cuda, doing nothing)", True, [program, "cuda", "--version"]),
            ("(`true`, as a process)", True, ["true"]),
        ]
        used: list[list[Used]] = [[] for _ in ways]
        made = [(0, 0)] * len(ways)
        for _ in range(rounds):
            for index, (name, warm, command) in enumerate(ways):
                shutil.rmtree(root, ignore_errors=True)
                if warm:
                    measured(view, **options)
                before = newest(root)
                used[index].append(measured(command, **options)[0])
                if warm and newest(root) != before:
                    raise RuntimeError(f"{name} wrote into the root")
                if not warm:
                    made[index] = count(root)
        files, directories = count(source)
        print(f"{machine()}; {rounds} rounds, medians; {files} files in {directories} directories\n")
        rows = [["way", "links and files", "directories", "CPU ms", "wall ms", "CPU beside cp -rs", "wall beside cp -rs"]]
        cp_cpu, cp_wall = cpu_and_wall(used[0])
        for (name, _, _), series, (links, below) in zip(ways, used, made):
            cpu, wall = cpu_and_wall(series)
            rows.append([name, links, below, f"{cpu * 1e3:.2f}", f"{wall * 1e3:.2f}", f"{cpu / cp_cpu:.2f}", f"{wall / cp_wall:.2f}"])
        print_table(rows)
        print("\n" + measured([ours, "view", site_packages, scratch / "in-process"])[1].strip())
