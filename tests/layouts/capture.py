#!/usr/bin/env python3
"""Makes a listing for tests/layouts from a directory of installed components.

    capture.py <directory> <first comment line> [<nvcc answer>]

Keeps what a search can look at: programs, libraries, archives, one telling header a component,
package metadata by name. Everything else would only make the test slower.
"""

import os
import re
import struct
import sys

HEADERS = re.compile(
    r"/(cuda|cuda_runtime|crt/host_config|fatbinary_section|nvvm|nvrtc|nvJitLink|nvFatbin|cublas_v2|cufft|curand"
    r"|cusolverDn|cusparse|npp|nvjpeg|cupti|nvml|CL/cl|cuda_profiler_api|nvPTXCompiler|cudnn|nccl|cutensor|nvshmem)\.h$"
    r"|/cuda/std/version$|/cub/version\.cuh$|/nv/target$|/libdevice\.10\.bc$"
)


def soname(path):
    """DT_SONAME, or the file's own name."""
    data = open(path, "rb").read(1 << 20)
    if data[:4] != b"\x7fELF":
        return None
    import subprocess

    text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True).stdout
    found = re.search(r"SONAME\).*\[(.*)\]", text)
    machine = struct.unpack_from("<H", data, 18)[0]
    return (found.group(1) if found else os.path.basename(path)) + (" aarch64" if machine == 183 else "")


def lines(top, answer):
    for directory, names, files in os.walk(top):
        names.sort()
        names[:] = [n for n in names if n not in ("__pycache__", "doc")]
        inside = os.path.relpath(directory, top)
        if inside.endswith(".dist-info"):
            yield f"file {inside}/METADATA"
            names.clear()
            continue
        for name in sorted(files):
            path = os.path.join(directory, name)
            at = os.path.normpath(os.path.join(inside, name))
            if os.path.islink(path):
                yield f"link {at} -> {os.readlink(path)}"
            elif re.search(r"\.so(\.|$)", name):
                yield f"elf {at} {soname(path)}"
            elif name.endswith((".a", ".lib", ".dll", ".exe")):
                yield f"file {at}"
            elif name == "nvcc.profile":
                # What the search reads of it.
                line = next(line for line in open(path) if line.startswith("LIBRARIES"))
                yield f"file {at} | {line.strip()}"
            elif name == "nvcc":
                yield f"nvcc {at} {answer}"
            elif os.access(path, os.X_OK) and "/bin/" in "/" + at:
                yield f"tool {at}"
            elif name == "cuda.h":
                macro = next(line for line in open(path) if line.startswith("#define CUDA_VERSION"))
                yield f"file {at} | {macro.strip()}"
            elif HEADERS.search("/" + at):
                yield f"file {at}"


if __name__ == "__main__":
    top, comment = sys.argv[1], sys.argv[2]
    answer = sys.argv[3] if len(sys.argv) > 3 else ""
    print("# " + comment.replace("\\n", "\n# "))
    print("\n".join(lines(top, answer)))
