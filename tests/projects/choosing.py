#!/usr/bin/env python3
"""Bundles the part of text-embeddings-inference that chooses by the capability, and starts it with stub drivers.

    tests/projects/choosing.py [--tool PROGRAM] CHECKOUT

CHECKOUT is a clone of https://github.com/huggingface/text-embeddings-inference. Its `backends/candle` stores the
capability of the build (`build.rs`), and refuses GPUs that do not match (`src/compute_cap.rs`). Both files are used
as they are, but for the path of cudarc, which they take from candle. A program around them prints which capability it
was built for and whether that table accepts the GPU; `cargo cuda bundle --split` builds it for each capability of the
project's images but 7.5, which needs other features, with CUDA 12, which its cudarc is for. Prints a row for each
machine, and exits with 1 if the table refuses a build that was started.

Needs cargo, gcc and the network; no GPU and no driver.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
MANIFEST = """[package]
name = "router"
version = "0.1.0"
edition = "2021"
[dependencies]
anyhow = "1"
cudarc = { version = "0.13", default-features = false, features = ["std", "driver", "cuda-12020"] }
[build-dependencies]
anyhow = "1"
[workspace]
[workspace.metadata.cuda]
capabilities = ["8.0", "9.0", "10.0", "12.0"]
"""
MAIN = """mod compute_cap;
fn main() {
    let gpu = std::env::args().nth(1).unwrap().parse().unwrap();
    let built = compute_cap::get_compile_compute_cap().unwrap();
    println!("{built} {}", compute_cap::matches(gpu, built));
}
"""
DRIVER = """#include <stdlib.h>
int cuDriverGetVersion(int *version) { *version = atoi(getenv("STUB_CUDA")); return 0; }
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int gpu = atoi(getenv("STUB_GPU"));
    *value = attribute == 75 ? gpu / 10 : gpu % 10;
    return 0;
}
"""
MACHINES = [(cuda, gpu) for cuda in (12020, 13000) for gpu in (75, 80, 86, 89, 90, 100, 120, 121)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", default=str(REPOSITORY / "target/debug/cargo-cuda"), help="the program cargo-cuda")
    parser.add_argument("CHECKOUT", type=pathlib.Path)
    arguments = parser.parse_args()
    sources = arguments.CHECKOUT / "backends/candle"
    table = (sources / "src/compute_cap.rs").read_text().replace("candle::cuda_backend::cudarc", "cudarc")
    # The table is private, and its tests are for its crate.
    table = table.split("#[cfg(test)]")[0]
    table += "pub fn matches(gpu: usize, built: usize) -> bool { compute_cap_matching(gpu, built) }\n"
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        files = {
            "Cargo.toml": MANIFEST, "build.rs": (sources / "build.rs").read_text(), "src/main.rs": MAIN,
            "src/compute_cap.rs": table, "driver.c": DRIVER,
        }
        (work / "src").mkdir()
        for name, text in files.items():
            (work / name).write_text(text)
        command = [arguments.tool, "cuda", "bundle", "--fetch", "--cuda", "12", "--split", "--output", "dist"]
        subprocess.run(command, cwd=work, check=True, stdout=sys.stderr)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"], cwd=work, check=True)
        description = json.loads((work / "dist/bundle.json").read_text())
        size = sum(file["size"] for file in description["files"].values())
        print(f"{len(description['builds'])} builds, {size} bytes")
        for cuda, gpu in MACHINES:
            environment = dict(os.environ, STUB_CUDA=str(cuda), STUB_GPU=str(gpu), LD_LIBRARY_PATH=str(work))
            run = subprocess.run([work / "dist/bin/router", str(gpu)], env=environment, capture_output=True, text=True)
            print(f"driver {cuda}, GPU {gpu}: {run.stdout.strip() or run.stderr.strip()}")
            if run.stdout.endswith("false\n"):
                wrong.append((cuda, gpu))
    if wrong:
        sys.exit(f"the project's table refuses: {wrong}")


if __name__ == "__main__":
    main()
