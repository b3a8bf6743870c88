#!/usr/bin/env python3
"""Writes `cargo-cuda/src/package/symbols.txt`: the symbols that NVIDIA's libraries gained within a CUDA major.

    tests/symbols/collect.py                   # every component: fetches about 15 GB
    tests/symbols/collect.py cudart nvrtc      # these components; the file keeps its lines about the others

The names of components, packages and libraries come from the component table of cuda-find. Each package is fetched
with `pip download`; its libraries are read with `nm` and removed again. A component whose versions follow CUDA's is
compared at the first version of every release. Any other component is compared at its first and its newest version,
because its packages are large.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "cuda-find-core/src/component/table.rs"
OUTPUT = ROOT / "cargo-cuda/src/package/symbols.txt"
NEWEST_MAJOR = 13
PLATFORMS = ["2_5", "2_12", "2_17", "2_24", "2_25", "2_26", "2_27", "2_28", "2_31", "2_34"]

# The first versions that can be loaded. The RUNPATH of libcutensor before 2.7.0 for CUDA 13 leads to `nvidia/cublas/lib`,
# and the packages of CUDA 13 are in `nvidia/cu13/lib`.
FIRST_USABLE = {"cutensor-cu13": "2.7.0"}

# Symbols that the linker adds.
OF_THE_LINKER = {"__bss_start", "_edata", "_end", "_fini", "_init"}

HEAD = """\
# Written by tests/symbols/collect.py from NVIDIA's packages: do not edit.
#
# component <id> <CUDA major> <first version that was compared> <newest version that was compared>
# <version that added them> <symbols that its libraries lack in the first version> ...
#
# `later` instead of a version: the newest version has the symbols, and no version before it was compared.
"""


def packages_of(row):
    """The packages of a row, the last of which is for the newest major."""
    wheels = re.search(r'packages: wheels!\("([^"]+)", \[([^\]]*)\]((?:, "[^"]+")+)\)', row)
    if wheels:
        endings = re.findall(r'"([^"]+)"', wheels[2])
        # The first directory is that of the packages with an ending, if there are any.
        shared = wheels[3].count('"') // 2 - (1 if endings else 0)
        return [wheels[1] + ending for ending in endings] + [wheels[1]] * shared
    listed = re.search(r"packages: to_newest\(\[(.*?)\]\)", row, re.S)
    return re.findall(r'\("([^"]+)", "', listed[1]) if listed else []


def components():
    """The rows of the component table that have shared libraries and packages."""
    rows = re.findall(r"^    [A-Z]\w* \{\n(.*?)^    \}$", TABLE.read_text(), re.M | re.S)
    for row in rows:
        name = re.search(r'id: "([^"]+)"', row)[1]
        libraries = re.search(r"libraries: &\[([^\]]*)\]", row)
        packages = packages_of(row)
        if not libraries or not packages or "Class::Driver" in row:
            continue
        libraries = re.findall(r'"([^"]+)"', libraries[1])
        # The SONAME of this library changes with every release, and it has no public functions.
        libraries = [library for library in libraries if library != "nvrtc-builtins"]
        for index, package in enumerate(packages):
            follows = "follows_toolkit: true" in row
            yield name, NEWEST_MAJOR + 1 - len(packages) + index, package, libraries, follows


def numbers(version):
    return [int(part) for part in re.findall(r"\d+", version.split("post")[0])]


def versions(package):
    """The versions in the index, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", package]
    output = subprocess.run(command, capture_output=True, text=True)
    listed = re.search(r"^Available versions: (.*)$", output.stdout, re.M)
    if not listed:
        return []
    return sorted((version.strip() for version in listed[1].split(",")), key=numbers)


def chosen(package, major, follows):
    """The versions to compare, oldest first."""
    first = numbers(FIRST_USABLE.get(package, "0"))
    found = [version for version in versions(package) if numbers(version) >= first]
    if follows:
        first = {}
        for version in found:
            if numbers(version)[0] == major:
                first.setdefault(tuple(numbers(version)[:2]), version)
        return list(first.values())
    line = [version for version in found if numbers(version)[0] == numbers(found[-1])[0]] if found else []
    return line if len(line) < 2 else [line[0], line[-1]]


def exports(package, version, libraries):
    """The functions and variables that the libraries export."""
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-cache-dir", "--only-binary=:all:", "--python-version=3.12", "--dest", work]
        for platform in PLATFORMS:
            command += ["--platform", f"manylinux_{platform}_x86_64"]
        for platform in ["1", "2010", "2014"]:
            command += ["--platform", f"manylinux{platform}_x86_64"]
        subprocess.run([*command, f"{package}=={version}"], check=True)
        found = set()
        with zipfile.ZipFile(next(pathlib.Path(work).glob("*.whl"))) as wheel:
            for entry in wheel.namelist():
                soname = entry.rsplit("/", 1)[-1]
                library = soname.removeprefix("lib").split(".so")[0]
                if ".so" not in soname or library not in libraries:
                    continue
                path = pathlib.Path(work) / soname
                with wheel.open(entry) as source, open(path, "wb") as target:
                    shutil.copyfileobj(source, target)
                nm = ["nm", "-D", "--defined-only", "--with-symbol-versions", str(path)]
                for line in subprocess.run(nm, check=True, capture_output=True, text=True).stdout.splitlines():
                    _, kind, symbol = line.split()
                    name = symbol.split("@")[0]
                    # A name in C++ belongs to no interface of NVIDIA's libraries.
                    if kind not in "TBDRVWi" or name.startswith("_Z") or name in OF_THE_LINKER:
                        continue
                    found.add(name)
                path.unlink()
        return found


def lines(name, major, package, libraries, follows):
    """The lines about one component and one major; none if the index has no package."""
    compared = chosen(package, major, follows)
    if not compared:
        return []
    text = [f"component {name} {major} {compared[0]} {compared[-1]}"]
    seen = exports(package, compared[0], libraries)
    for version in compared[1:]:
        label = ".".join(map(str, numbers(version)[:2])) if follows else "later"
        print(f"  {package} {version}", file=sys.stderr)
        new = exports(package, version, libraries) - seen
        if new:
            text.append(f"{label} {' '.join(sorted(new))}")
        seen |= new
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("component", nargs="*")
    parser.add_argument("--major", type=int, action="append", help="only this CUDA major; may be repeated")
    arguments = parser.parse_args()
    blocks = {}
    if OUTPUT.exists():
        for block in re.split(r"^(?=component )", OUTPUT.read_text(), flags=re.M)[1:]:
            _, name, major, *_ = block.split()
            blocks[name, int(major)] = block.splitlines()
    rows = list(components())
    for name, major, package, libraries, follows in rows:
        if arguments.component and name not in arguments.component:
            continue
        if arguments.major and major not in arguments.major:
            continue
        print(f"{name} {major}", file=sys.stderr)
        blocks[name, major] = lines(name, major, package, libraries, follows)
        # Written after each component, so that a run that was stopped can be continued.
        text = [line for name, major, *_ in rows for line in blocks.get((name, major), [])]
        OUTPUT.write_text(HEAD + "".join(f"{line}\n" for line in text))


if __name__ == "__main__":
    main()
