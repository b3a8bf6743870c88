#!/usr/bin/env python3
"""Builds crates of candle and mistral.rs with build scripts that use cuda-build.

    tests/projects/ports.py [--work DIR] [--only REGEX] [--capabilities LIST] [--wheel] CHECKOUT CRATE

CHECKOUT is a clone of the project's repository, CRATE one of the names in tests/projects/ports. The crate is copied,
its build script and manifest are replaced, and for all but candle-kernels its Rust code, too, which needs the rest of
the project. `--only` keeps only the `.cu` files whose names match, because some take an hour.

Prints the lines of both build scripts, what each build compiled, its CPU seconds, and the device code of each output.
Needs cargo and gcc; no GPU and no driver. Components are fetched into the user's cache directory.
"""

import argparse
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
MANIFEST = """\
[package]
name = "{name}"
version = "0.1.0"
edition = "2021"

[build-dependencies]
cuda-build = {{ path = "{repository}/cuda-build" }}

[package.metadata.cuda]
{metadata}
[workspace]
"""


def code_lines(path: pathlib.Path) -> int:
    lines = (line.strip() for line in path.read_text().splitlines())
    return sum(bool(line) and not line.startswith("//") for line in lines)


class Port:
    def __init__(self, arguments, work: pathlib.Path):
        self.name = arguments.CRATE
        self.capabilities = arguments.capabilities.split(",")
        self.package = work / self.name
        self.program = REPOSITORY / "target/debug/cargo-cuda"
        # Without it, an earlier run would have compiled everything.
        self.environment = dict(os.environ, CUDA_BUILD_IMAGES=str(work / "images"))
        shutil.rmtree(self.package, ignore_errors=True)
        shutil.rmtree(work / "images", ignore_errors=True)
        (work / "images").mkdir()
        original = arguments.CHECKOUT / self.name
        shutil.copytree(original, self.package)
        for source in self.package.rglob("*.cu"):
            if not re.search(arguments.only, source.name):
                source.unlink()
        port = HERE / "ports" / f"{self.name}.rs"
        shutil.copy(port, self.package / "build.rs")
        print(f"{self.name}: {code_lines(original / 'build.rs')} lines of build script, now {code_lines(port)}")
        self.rust(is_whole=not arguments.only)
        self.declare(self.capabilities)

    def rust(self, is_whole: bool):
        """candle-kernels keeps its Rust code, with fat binaries for modules, which were PTX."""
        library = self.package / "src/lib.rs"
        if self.name != "candle-kernels" or not is_whole:
            library.write_text("")
            return
        text = library.read_text()
        text = text.replace("/ptx.rs", "/cuda_build.rs").replace("ptx::$cst", "ptx::modules::$cst")
        library.write_text(text.replace("&'static str", "&'static [u8]"))

    def declare(self, capabilities):
        metadata = (HERE / "ports" / f"{self.name}.toml").read_text()
        metadata = metadata.replace("components = [", 'components = ["cuobjdump", ')
        metadata += f"capabilities = {list(capabilities)}\n".replace("'", '"')
        text = MANIFEST.format(name=self.name, repository=REPOSITORY, metadata=metadata)
        (self.package / "Cargo.toml").write_text(text)

    def run(self, what: str, *command, **environment):
        """Prints the CPU seconds of a command and the outputs that were compiled."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command, cwd=self.package, env=self.environment | environment, text=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        if done.returncode:
            sys.exit(f"{what}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        compiled = sorted(set(re.findall(r"cuda-build: (made .*)", done.stdout + done.stderr)))
        print(f"\n{what}: {seconds:.1f} s of CPU, {len(compiled)} outputs compiled")
        for line in compiled:
            print(f"  {line}")

    def build(self, what: str, *options, **environment):
        self.run(what, self.program, "cuda", "build", "-vv", "--release", *options, **environment)

    def wheel(self, work: pathlib.Path):
        """A Python package that uses the port: device code comes from the output store."""
        application = work / "application"
        shutil.rmtree(application, ignore_errors=True)
        self.run("template", self.program, "cuda", "new", "--template", "python", application)
        manifest = application / "Cargo.toml"
        text = re.sub(r'cuda-build = \{ git = "[^"]*"', f'cuda-build = {{ path = "{REPOSITORY}/cuda-build"', manifest.read_text())
        declared = str(self.capabilities).replace("'", '"')
        manifest.write_text(re.sub(r"(?m)^capabilities .*", f"capabilities = {declared}", text))
        wheel = [self.program, "cuda", "wheel", "--fetch", "--cuda", "13", "--manifest-path", manifest]
        self.run("wheel of the template", *wheel)
        dependencies = f'[dependencies]\n{self.name} = {{ path = "{self.package}" }}'
        manifest.write_text(manifest.read_text().replace("[dependencies]", dependencies))
        kept = self.kept()
        self.run(f"wheel with {self.name}", *wheel)
        print(f"  device code that was compiled for it: {len(self.kept() - kept)} outputs")

    def kept(self) -> set:
        images = pathlib.Path(self.environment["CUDA_BUILD_IMAGES"])
        return {path for path in images.rglob("*") if path.is_file()}

    def common_header(self) -> pathlib.Path:
        """The header that most sources name."""
        texts = [path.read_text() for path in self.package.rglob("*.cu")]
        # Views below `target` have links into the store.
        headers = [path for path in self.package.rglob("*.*h") if path.is_file() and "target" not in path.parts]
        return max(sorted(headers), key=lambda header: sum(f'{header.name}"' in text for text in texts))

    def device_code(self):
        """The capabilities in each output, as NVIDIA's cuobjdump lists them."""
        built = (self.package / "target/cargo-cuda/release").resolve()
        outputs = [path for path in built.rglob("*") if path.suffix in (".fatbin", ".a") and path.is_file()]
        print("\ndevice code:")
        for output in sorted(outputs):
            listed = subprocess.run(
                [self.program, "cuda", "exec", "-q", "--", "cuobjdump", "--list-elf", "--list-ptx", output],
                cwd=self.package, env=self.environment, text=True, capture_output=True, check=True,
            ).stdout
            by_file: dict[str, list] = {}
            member = output.name
            for line in listed.splitlines():
                if line.startswith("member"):
                    member = line.split(":")[-2 if line.endswith(":") else -1].strip()
                elif found := re.search(r"sm_(\d+[af]?)\.(cubin|ptx)", line):
                    kind = "PTX" if found[2] == "ptx" else "SASS"
                    by_file.setdefault(member, []).append(f"{kind} {found[1]}")
            for member, found in by_file.items():
                print(f"  {output.name} {member if member != output.name else ''}: {', '.join(found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=pathlib.Path, default=None)
    parser.add_argument("--only", default="")
    parser.add_argument("--capabilities", default="8.0,9.0,12.0+PTX")
    parser.add_argument("--added", default="10.0")
    parser.add_argument("--wheel", action="store_true")
    parser.add_argument("CHECKOUT", type=pathlib.Path)
    parser.add_argument("CRATE", choices=sorted(path.stem for path in (HERE / "ports").glob("*.rs")))
    arguments = parser.parse_args()
    work = (arguments.work or pathlib.Path(tempfile.mkdtemp())).resolve()
    work.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "build", "-q", "-p", "cargo-cuda"], cwd=REPOSITORY, check=True)

    port = Port(arguments, work)
    port.build("cold", "--fetch")
    port.build("again")
    header = port.common_header()
    with header.open("a") as file:
        file.write("\n// edited\n")
    port.build(f"{header.relative_to(port.package)} edited")
    if arguments.added:
        port.declare([*port.capabilities, arguments.added])
        port.build(f"{arguments.added} added")
        alone = tempfile.mkdtemp(dir=work)
        port.build(f"{arguments.added} alone", "--capabilities", arguments.added, CUDA_BUILD_IMAGES=alone)
        port.declare(port.capabilities)
        port.build(f"{arguments.added} removed")
    shutil.rmtree(port.package / "target")
    port.build("after cargo clean")
    port.run("plain cargo", "cargo", "build", "-vv")
    port.device_code()
    if arguments.wheel:
        port.wheel(work)


if __name__ == "__main__":
    main()
