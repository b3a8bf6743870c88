#!/usr/bin/env python3
"""usage: peers.py BENCHMARK [ROUNDS] [...]

  cold-build [ROUNDS]               CPU time and crates of a cold build, for each build dependency
  rebuild [ROUNDS] [NAME PART ...]  what is compiled again after a change, and how long it takes
  module [ROUNDS] [FILE ...]        modules: NVRTC and nvcc
  call [ROUNDS]                     calls through the nvcc wrapper: passed on, compiled, from the store
  images [ROUNDS]                   a library from kept images of four capabilities
  search VENV [ROUNDS]              finding CUDA: cuda-build, CMake, cuda-pathfinder
  view SITE-PACKAGES LNDIR [ROUNDS] one root: cargo cuda view, cp -rs, lndir
"""

import pathlib
import sys
import tempfile

import cold_build
import parts
import rebuild
import search
import view
from measure import our_program

BENCHMARKS = {
    "rebuild": rebuild.run,
    "module": parts.module,
    "call": parts.call,
    "images": parts.images,
    "search": search.run,
    "view": view.run,
}


def main() -> None:
    name, *rest = sys.argv[1:] or [""]
    arguments = [int(word) if word.isdigit() else word for word in rest]
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        if name == "cold-build":
            cold_build.run(place, *arguments)
        elif name in BENCHMARKS:
            BENCHMARKS[name](place, our_program(), *arguments)
        else:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
