#!/usr/bin/env python3
"""Builds the test crates of maturin with maturin and with `cargo cuda wheel`, and compares the two wheels.

    tests/projects/maturin.py --checkout DIR [--tool FILE] [--maturin FILE] [--work DIR] [--only NAME …]

DIR is a clone of maturin's repository, which is not changed. Each crate of its `test-crates` that builds a wheel gets a
table that declares cudart, and is built without optimisation. What `cargo cuda wheel` changes on purpose has a kind,
such as `search path`; everything else is a difference. It exits with 1 if a crate is different, or builds with maturin
alone. The wheels and what was printed stay in `--work`.

Needs cargo, gcc, GNU binutils, a CUDA 13 toolkit in the user's cache directory, and maturin 1.13 or newer in a directory
with `uniffi-bindgen` 0.28 and a `python3` that has cffi; no GPU and no driver.
"""

import argparse
import base64
import collections
import csv
import email
import hashlib
import json
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile

import ports

METADATA = """
[package.metadata.cuda]
capabilities = ["8.0"]
components = ["cudart"]
cudart = "shared"
"""
# For some crates: options for maturin, and a piece of Cargo.toml with its replacement.
STUBS = (["--generate-stubs"], "", "")
SPECIAL = {
    # It has no library for Python, and pyo3 is optional.
    "pyo3-feature": (["--features", "pyo3"], "[dep", '[lib]\nname = "pyo3_feature"\ncrate-type = ["cdylib"]\n\n[dep'),
    # The library has the name of the package, with minus signs, which no module of Python can have.
    "pyo3-workspace-abi3-feature": ([], "[lib]", '[lib]\nname = "pyo3_workspace_abi3_feature"'),
    # They test generated stubs, which maturin makes only on request.
    "pyo3-stub-generation-mixed": STUBS,
    "pyo3-stub-generation-mixed-py-subdir": STUBS,
    "pyo3-stub-generation-pure": STUBS,
}
# The kinds of difference that every wheel for CUDA may have. They are not printed.
USUAL = {"name", "requirement", "classifier", "Root-Is-Purelib", "search path", "SBOM"}
ADDED = {"Requires-Dist": "cuda-toolkit[cudart]>=13.0,<14", "Classifier": "Environment :: GPU :: NVIDIA CUDA :: 13"}
# Sections that change with the search path, or with the paths of source files, which `cargo cuda wheel` replaces.
SECTIONS = {".dynstr", ".dynamic", ".relro_padding", ".rodata", ".strtab", ".symtab"}


def wheel_directory(crate: pathlib.Path) -> pathlib.Path | None:
    """The directory with pyproject.toml, or that of a library for Python without one; `None` if there is no wheel."""
    files = [path for path in sorted(crate.rglob("pyproject.toml")) if 'build-backend = "maturin"' in path.read_text()]
    files += [path for path in sorted(crate.rglob("Cargo.toml")) if "cdylib" in path.read_text()]
    files += [crate / "Cargo.toml"] if crate.name in SPECIAL else []
    return files[0].parent if files else None


class Crate:
    """A test crate, copied to a path that is the same for all: both sides then compile their dependencies once."""

    def __init__(self, original: pathlib.Path, work: pathlib.Path):
        self.out = work / "wheels" / original.name
        self.options, *replacement = SPECIAL.get(original.name, ([], "", ""))
        root = work / "test-crates/crate"
        shutil.rmtree(root, ignore_errors=True)
        # Cargo compiles files with new times again: some packages have the same name.
        shutil.copytree(original, root, copy_function=shutil.copy, ignore=shutil.ignore_patterns("target"))
        self.directory = root / wheel_directory(original).relative_to(original)
        pyproject = self.directory / "pyproject.toml"
        settings = tomllib.loads(pyproject.read_text()) if pyproject.exists() else {}
        named = settings.get("tool", {}).get("maturin", {}).get("manifest-path", "Cargo.toml")
        manifest = next(path for path in map(self.directory.joinpath, [named, "rust/Cargo.toml"]) if path.exists())
        manifest.write_text(manifest.read_text().replace(*replacement, 1) + METADATA)

    def build(self, side: str, command: list, environment: dict[str, str]) -> tuple[list["Wheel"], list[str]]:
        """The wheels, or the last lines of the message if there are none."""
        out = self.out / side
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        separator = ["--"] if self.options and side == "ours" else []
        done = subprocess.run(
            [*command, "--out", out, *separator, *self.options],
            cwd=self.directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        (out / "printed.txt").write_text(done.stdout)
        if done.returncode:
            return [], [f"{side}: {line}" for line in done.stdout.strip().splitlines()[-5:]]
        return [Wheel(path) for path in sorted(out.glob("*.whl"))], []


class Wheel:
    def __init__(self, path: pathlib.Path):
        self.distribution, self.version, self.tags = path.stem.split("-", 2)
        self.stem = f"{self.distribution.removesuffix('_cu13')}-{self.version}."
        archive = zipfile.ZipFile(path)
        self.files = {self.common(entry.filename): archive.read(entry) for entry in archive.infolist()}
        self.modes = {self.common(entry.filename): entry.external_attr >> 16 for entry in archive.infolist()}
        hashed = ((path, data) for path, data in self.files.items() if path != f"{self.stem}dist-info/RECORD")
        expected = [f"{path},{digest(data)},{len(data)}" for path, data in hashed]
        lines = [self.common(",".join(line)) for line in csv.reader(self.info("RECORD").decode().splitlines())]
        self.faults = sorted({*lines} ^ {*expected, f"{self.stem}dist-info/RECORD,,"})
        if max(len(lines), len(archive.namelist())) > len(self.files):
            self.faults.append("there are too many lines or files")

    def common(self, path: str) -> str:
        """A path without `-cu13` in the names of the wheel's own directories."""
        stem = f"{self.distribution}-{self.version}."
        return self.stem + path.removeprefix(stem) if path.startswith(stem) else path

    def info(self, file: str) -> bytes:
        return self.files[f"{self.stem}dist-info/{file}"]

    def fields(self, file: str) -> dict[str, list[str]]:
        message = email.message_from_string(self.info(file).decode())
        return {key: message.get_all(key) for key in message.keys()} | {"body": [message.get_payload()]}


class Comparison:
    """The kinds of the expected differences of two wheels, and all other differences."""

    def __init__(self, theirs: Wheel, ours: Wheel):
        self.kinds: set[str] = set()
        self.differences = [f"RECORD of maturin's: {fault}" for fault in theirs.faults]
        self.differences += [f"RECORD: {fault}" for fault in ours.faults]
        self.expect("name", ours.distribution, f"{theirs.distribution}_cu13")
        self.same("file's name", [theirs.version, theirs.tags], [ours.version, ours.tags])
        self.find_moved_programs(ours)
        self.same("files", sorted(theirs.files), sorted(ours.files))
        self.metadata(theirs.fields("METADATA"), ours.fields("METADATA"))
        old, new = theirs.fields("WHEEL"), ours.fields("WHEEL")
        self.expect("Root-Is-Purelib", new["Root-Is-Purelib"], ["true"])
        self.same("WHEEL", old, new | {"Root-Is-Purelib": old["Root-Is-Purelib"]})
        apart = {f"{theirs.stem}dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD")}
        for path in sorted((theirs.files.keys() & ours.files.keys()) - apart):
            self.same(f"mode of {path}", theirs.modes[path], ours.modes[path])
            self.file(path, theirs.files[path], ours.files[path])

    def expect(self, kind: str, found, expected):
        self.kinds.add(kind)
        if found != expected:
            self.differences.append(f"{kind}: {found!r:.300}, expected {expected!r:.300}")

    def same(self, what: str, old, new):
        if old != new:
            start = max(len(os.path.commonprefix([repr(old), repr(new)])) - 40, 0)
            old, new = (f"{'…' * bool(start)}{repr(value)[start:start + 200]}" for value in (old, new))
            self.differences.append(f"{what}: {old} with maturin, here {new}")

    def find_moved_programs(self, ours: Wheel):
        """A program that needs CUDA's libraries is in `<name>.scripts`, and a script in its place starts it."""
        prefix = f"{ours.distribution}.scripts/"
        for moved in [path for path in ours.files if path.startswith(prefix)]:
            path = f"{ours.stem}data/scripts/{moved.removeprefix(prefix)}"
            script = ours.files.get(path, b"")
            found = (script[:9], moved.encode() in script, ours.modes[moved])
            self.expect("moved program", found, (b"#!python\n", True, ours.modes.get(path)))
            ours.files[path] = ours.files.pop(moved)

    def metadata(self, old: dict[str, list[str]], new: dict[str, list[str]]):
        self.expect("name", new["Name"], [re.sub("[-_.]+", "-", old["Name"][0]).lower() + "-cu13"])
        for key, kind in [("Requires-Dist", "requirement"), ("Classifier", "classifier")]:
            # Their order means nothing.
            self.expect(kind, sorted(new.get(key, [])), sorted([*old.get(key, []), ADDED[key]]))
        for key in sorted((old.keys() | new.keys()) - ADDED.keys() - {"Name"}):
            self.same(f"METADATA, {key}", old.get(key), new.get(key))

    def file(self, path: str, old: bytes, new: bytes):
        if ".dist-info/sboms/" in path:
            self.kinds.add("SBOM")
            return self.same(path, bill(old), bill(new))
        if old == new or {old[:4], new[:4]} != {b"\x7fELF"}:
            return self.same(path, old, new)
        old, new = elf(old), elf(new)
        # The program of `package-1.0.data/scripts/program` is `package.scripts/program`.
        installed = path.split(".data/")[-1]
        leads_to = [posixpath.normpath(installed + entry.replace("$ORIGIN", "/..")) for entry in new["search path"]]
        self.expect("search path", leads_to, [*old["search path"], "nvidia/cu13/lib"])
        if old["needed"] != new["needed"]:
            self.expect("needed libraries", set(new["needed"]) - {"libcudart.so.13"}, set(old["needed"]))
        for key in old.keys() - {"search path", "needed"}:
            self.same(f"{path}, {key}", old[key], new[key])


def elf(data: bytes) -> dict[str, list]:
    """What two builds of an ELF file have in common: sizes, but not addresses, nor the paths of source files."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        command = ["readelf", "-dSW", "--dyn-syms", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}).stdout
    sections = re.findall(r"^ +\[ *\d+\] (\.\S+) +\S+ +\S+ +\S+ +(\S+)", text, re.MULTILINE)
    return {
        "search path": [entry for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text) for entry in path.split(":")],
        "needed": re.findall(r"\(NEEDED\).*\[(.*)\]", text),
        "own name": re.findall(r"\(SONAME\).*\[(.*)\]", text),
        "sizes of sections": [(name, int(size, 16)) for name, size in sections if name not in SECTIONS],
        # Type, binding, whether it is undefined, name.
        "symbols": sorted(re.findall(r"^ +\d+: \S+ +\S+ +(\S+) +(\S+) +\S+ +(UND)?\d* (\S+)", text, re.MULTILINE)),
    }


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def bill(data: bytes):
    """A software bill of materials without serial number, time and directories."""
    document = json.loads(data)
    document.pop("serialNumber", None)
    document["metadata"].pop("timestamp", None)
    # Cargo omits the name of a package in a directory of that name.
    text = re.sub(r'(path\+file://[^"#]*/([^"#/]+))#([^"@ ]+)(?=[" ])', r"\1#\2@\3", json.dumps(document, sort_keys=True))
    return json.loads(re.sub(r'file://[^"#]*', "file:///", text))


def result(crate: Crate, sides: dict[str, list], environment: dict[str, str]) -> tuple[str, list[str]]:
    """The result, and the lines that explain it."""
    (theirs, message), (ours, our_message) = (crate.build(*side, environment) for side in sides.items())
    if not (theirs and ours):
        where = "ours" if theirs else "maturin's" if ours else "both"
        return f"fails in {where}", message + our_message
    pairs = [Comparison(*pair) for pair in zip(theirs, ours)]
    differences = [line for pair in pairs for line in pair.differences]
    differences += [f"wheels: {len(theirs)} with maturin, here {len(ours)}"] if len(theirs) != len(ours) else []
    kinds = sorted(set().union(*(pair.kinds for pair in pairs)) - USUAL)
    if differences:
        return f"different ({', '.join(sorted({line.split(':')[0] for line in differences}))})", differences
    return f"same but ({', '.join(kinds)})" if kinds else "same", []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkout", type=pathlib.Path, required=True)
    parser.add_argument("--tool", type=pathlib.Path, default=ports.REPOSITORY / "target/release/cargo-cuda")
    parser.add_argument("--maturin", default=shutil.which("maturin"))
    parser.add_argument("--work", type=pathlib.Path, default=None)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    arguments = parser.parse_args()
    work = (arguments.work or pathlib.Path(tempfile.mkdtemp())).resolve()
    if arguments.maturin is None:
        parser.error("maturin is not on PATH: name it with --maturin")
    originals = arguments.checkout.resolve() / "test-crates"
    # Some crates use these.
    for path in ["some_path_dep", "transitive_path_dep"]:
        shutil.copytree(originals / path, work / "test-crates" / path, dirs_exist_ok=True)
    shutil.copy(originals.parent / "README.md", work)

    maturin = pathlib.Path(arguments.maturin).absolute()
    sides = {
        "maturin": [maturin, "build", "--release"],
        "ours": [arguments.tool.resolve(), "cuda", "wheel", "--cuda", "13"],
    }
    path = f"{maturin.parent}:{os.environ['PATH']}"
    environment = dict(os.environ, PATH=path, CARGO_TARGET_DIR=str(work / "target"), CARGO_PROFILE_RELEASE_OPT_LEVEL="0")
    results: collections.Counter[str] = collections.Counter()
    for original in sorted(path for path in originals.iterdir() if path.is_dir() and wheel_directory(path)):
        if not arguments.only or original.name in arguments.only:
            word, lines = result(Crate(original, work), sides, environment)
            results[word.split(" (")[0]] += 1
            print("\n    ".join([f"{original.name} → {word}", *lines]), flush=True)
    built = results.total() - results["fails in both"] - results["fails in maturin's"]
    counts = ", ".join(f"{number} {word}" for word, number in sorted(results.items()))
    print(f"\n{results.total()} crates, {built} of which build with maturin: {counts}")
    sys.exit(results["different"] + results["fails in ours"] > 0)


if __name__ == "__main__":
    main()
