#!/usr/bin/env python3
"""Replaces the search for CUDA of published crates with cuda-find, and compares both.

    tests/projects/helpers.py [--keep DIR] [--rounds N] [--debian DIR] [--cuda-find DIR] [--only PART ...] [CRATE ...]

The published source of each crate is copied from cargo's registry cache. Functions and constants that search for CUDA
are cut out by their names, and a text of this repository (tests/projects/helpers) that calls cuda-find takes their
place. No text of the crates is in this repository. Then both, the original and the port, are compared:

- lines: lines of code that search, before and after.
- trees: a small package uses the crate on each layout of CUDA: Python wheels, conda, Nix, Debian's packages and
  NVIDIA's installer. The files are real ones of CUDA 13.4, from toolkits that `cargo cuda toolkit add` fetched. Trees
  that belong into /usr are mounted over it for one command, which needs root. Prints what was found, or the first line
  of the error.
- tests: the crate's own tests that need no GPU.
- time: CPU seconds of a cold build of the crate (user and system, dependencies included), N rounds in turn.

DIR of `--debian` has Debian's packages, unpacked; without it, that tree is left out. They are had by `apt-get download`
and `dpkg -x` of nvidia-cuda-toolkit, nvidia-cuda-toolkit-gcc, nvidia-cuda-dev, libcudart12, libcublas12,
libcublaslt12, libcurand10, libnvrtc12, libnvrtc-builtins12.4, libcu++-dev, libthrust-dev and libcub-dev of Debian 13.

Of llama-cpp-sys-2, only the lines that link CUDA are used, as a build script of their own. For the time, its whole
build script is compiled, and not run.

Needs cargo, gcc and pip; no GPU and no driver.
"""

import argparse
import contextlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path.insert(0, str(HERE / "helpers"))
sys.dont_write_bytecode = True

from crates import CRATES, Crate  # noqa: E402
from trees import Forest, Tree  # noqa: E402

WAYS = ("original", "port")
PARTS = ("lines", "trees", "tests", "time")
# What another toolkit could be found by, and what would build otherwise.
UNSET = re.compile(
    r"CUDA|^NVCC|^CONDA|^NIX_|^VIRTUAL_ENV|^RUSTFLAGS|^CARGO_(BUILD_TARGET|TARGET|ENCODED)|_LIBRARY_PATH$"
)
ERRORS = [
    r"unable to find library -l\S+", r"cannot find -l\S+", r"could not find native static library `[^`]*`",
    r"fatal error: \S+: No such file or directory", r"panicked at [^\n]*\n[^\n]+", r"(?m)^\s*Error: .*",
    r"(?m)^error(?!: failed to run custom)\S*: .*", r"(?m)--- stderr\n[^\n]+",
]


def first_error(text: str) -> str:
    """The line that says what is wrong."""
    for pattern in ERRORS:
        if found := re.search(pattern, text):
            line = re.sub(r"panicked at [^\n]*\n|--- stderr\n", "", found[0]).strip()
            return re.sub(r"\s+", " ", line)
    return (text.strip().splitlines() or ["?"])[-1]


class Bench:
    def __init__(self, work: pathlib.Path, arguments):
        self.work, self.rounds, self.cuda_find = work, arguments.rounds, arguments.cuda_find.resolve()
        self.environment = {name: value for name, value in os.environ.items() if not UNSET.search(name)}
        (work / "empty").mkdir(parents=True, exist_ok=True)
        self.environment |= {
            "CARGO_INCREMENTAL": "0", "CARGO_TERM_COLOR": "never", "CUDA_COMPUTE_CAP": "90",
            # No toolkit that was fetched for other projects.
            "CUDA_BUILD_CACHE_DIR": str(work / "empty"),
        }
        self.trees: list[Tree] = []
        if set(arguments.only) != {"lines"}:
            self.trees = Forest(work / "trees", "13.4", arguments.debian and arguments.debian.resolve()).trees

    def run(self, *words, tree: Tree | None = None, check=False, **settings) -> tuple[int, str, float]:
        """Runs a command; returns its exit code, its output and its CPU seconds."""
        variables = settings.pop("variables", {})
        environment = self.environment | (tree.variables if tree else {}) | variables
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            tree.command(*words) if tree else [str(word) for word in words], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", **settings,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if check and done.returncode:
            sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}")
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return done.returncode, done.stdout, seconds

    def clang(self) -> dict[str, str]:
        """Installs libclang, which bindgen loads, and returns the variables that lead to it."""
        if "LIBCLANG_PATH" in self.environment:
            return {}
        target = self.work / "libclang"
        if not target.exists():
            self.run(sys.executable, "-m", "pip", "install", "-q", "--target", target, "libclang", check=True)
        headers = self.run("gcc", "-print-file-name=include", check=True)[1].strip()
        return {"LIBCLANG_PATH": str(target / "clang/native"), "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers}"}

    def source(self, crate: str, version: str) -> pathlib.Path:
        """The crate in the registry's cache."""
        name = f"{crate}-{version}"
        cargo = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
        if not any(cargo.glob(f"registry/src/*/{name}")):
            scratch = self.work / "fetch"
            (scratch / "src").mkdir(parents=True, exist_ok=True)
            (scratch / "src/lib.rs").touch()
            manifest = '[package]\nname = "fetch"\nedition = "2021"\n'
            manifest += f'[dependencies]\n{crate} = "={version}"\n'
            (scratch / "Cargo.toml").write_text(manifest + "[workspace]\n")
            self.run("cargo", "fetch", cwd=scratch, check=True)
        return next(cargo.glob(f"registry/src/*/{name}"))

    def compare(self, crate: Crate, parts):
        print(f"\n## {crate.name} {crate.version}\n")
        at = {way: self.work / crate.name / way for way in WAYS}
        lines = {}
        for way, place in at.items():
            shutil.rmtree(place, ignore_errors=True)
            source = self.source(crate.name, crate.version)
            lines[way] = crate.prepare(source, place, self.cuda_find, is_port=way == "port")
        before, after = lines["port"]
        helper = ""
        if crate.helper:
            name, version, _ = crate.helper
            helper = f" and {crate.helper_lines(self.source(name, version))} of {name}"
        print(f"lines of code that search: {before}{helper}, now {after}")
        variables = self.clang() if crate.libclang else {}
        for way in WAYS:
            for place in crate.packages(at[way]):
                self.run("cargo", "fetch", cwd=place, check=True)
        if "trees" in parts:
            print("\n| tree | original | port |\n|---|---|---|")
            for tree in self.trees:
                cells = [self.on_tree(crate, at[way] / "app", tree, variables, way) for way in WAYS]
                print(f"| {tree.name} | {' | '.join(cells)} |", flush=True)
        # Where most crates find CUDA; without root, another tree.
        installed = next((tree for tree in reversed(self.trees) if tree.name in ("/usr/local/cuda", "conda")), None)
        if "tests" in parts and crate.tests is not None:
            for way in WAYS:
                print(f"tests, {way}: {self.tests(crate, at[way] / 'crate', installed, variables)}", flush=True)
        if "time" in parts:
            self.time(crate, at, installed, variables)

    def on_tree(self, crate: Crate, app: pathlib.Path, tree: Tree, variables, way: str) -> str:
        """What the crate found on the tree, or the first line of the error."""
        target = self.work / "target" / way
        variables = variables | {"CARGO_TARGET_DIR": str(target)}
        # Cargo cannot know that the tree is another one.
        self.run("cargo", "clean", "--offline", "-p", "app", *crate.cleaned, cwd=app, variables=variables)
        code, text, _ = self.run("cargo", "build", "--offline", "-vv", cwd=app, tree=tree, variables=variables)
        log = app.parent / (re.sub(r"\W+", "-", f"{way} {tree.name}").strip("-") + ".log")
        log.write_text(text)
        short = text.replace(str(self.work / "trees"), "…")
        result = f"**fails**: {first_error(short)}" if code else crate.found(short)
        if not code:
            result += self.needed(target / "debug/app")
        return self.shortened(result)

    def shortened(self, text: str) -> str:
        text = re.sub(r"…/wheels/venv/lib/python3.12/site-packages", "…/site-packages", text)
        text = re.sub(r"…/nix/store/\w{32}-", "/nix/store/…-", text)
        return re.sub(r"[|\n]", " ", text.replace(str(self.work), "…"))[:420]

    def needed(self, program: pathlib.Path) -> str:
        """CUDA's libraries that the program was linked with."""
        listed = re.findall(r"NEEDED.*\[(lib(?:cu|nv)[^]]*)\]", self.run("readelf", "-d", program)[1])
        return f"; needs {', '.join(sorted(listed))}" if listed else ""

    def tests(self, crate: Crate, place: pathlib.Path, tree: Tree, variables) -> str:
        """How many of the crate's own tests pass, and which fail."""
        variables = variables | {"CARGO_TARGET_DIR": str(self.work / "target/tests")}
        if crate.tests_load_cuda:
            # The stub: every call fails, as without a GPU.
            driver = self.work / "trees/driver/usr/lib/x86_64-linux-gnu"
            variables |= {"LD_LIBRARY_PATH": f"/usr/local/cuda/lib64:{driver}"}
        words = ["cargo", "test", "--offline", "--no-fail-fast", *crate.tests]
        text = self.run(*words, cwd=place, tree=tree, variables=variables)[1]
        place.with_name("tests.log").write_text(text)
        counts = re.findall(r"test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored", text)
        if not counts:
            return f"do not run: {first_error(text)}"
        passed, failed, ignored = (sum(int(count[index]) for count in counts) for index in range(3))
        names = sorted(set(re.findall(r"^test (\S+)[^\n]* \.\.\. FAILED", text, re.M)))
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"{passed} passed, {failed} failed, {ignored} ignored" + (f" ({shown})" if names else "")

    def time(self, crate: Crate, at, tree, variables):
        seconds = {way: [] for way in WAYS}
        for _ in range(self.rounds):
            for way in WAYS:
                target = self.work / "target/cold"
                shutil.rmtree(target, ignore_errors=True)
                words = ["cargo", "build", "--offline", *crate.features()]
                code, text, spent = self.run(
                    *words, cwd=crate.timed(at[way]), tree=tree, variables=variables | {"CARGO_TARGET_DIR": str(target)}
                )
                if code:
                    print(f"time: the {way} does not build: {first_error(text)}")
                    return
                seconds[way].append(spent)
        shown = {way: "/".join(f"{value:.1f}" for value in values) for way, values in seconds.items()}
        ratio = min(seconds["port"]) / min(seconds["original"])
        print(f"CPU seconds of a cold build: {shown['original']}, now {shown['port']}; ratio {ratio:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="work here, and leave everything there")
    parser.add_argument("--rounds", type=int, default=2, metavar="N")
    parser.add_argument("--debian", type=pathlib.Path, metavar="DIR", help="Debian's packages, unpacked")
    here = REPOSITORY / "cuda-find"
    parser.add_argument("--cuda-find", type=pathlib.Path, metavar="DIR", default=here, help="another one")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("crates", nargs="*", metavar="CRATE", help=", ".join(CRATES))
    arguments = parser.parse_args()
    if unknown := set(arguments.crates) - set(CRATES):
        parser.error(f"no crate is named {', '.join(sorted(unknown))} here; there are: {', '.join(CRATES)}")
    with contextlib.ExitStack() as stack:
        work = arguments.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        bench = Bench(work.resolve(), arguments)
        for name in arguments.crates or CRATES:
            bench.compare(CRATES[name], arguments.only)


if __name__ == "__main__":
    main()
