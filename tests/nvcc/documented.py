#!/usr/bin/env python3
"""Lists the options that releases of `nvcc --help` document, for documented.txt.

    documented.py 11.8=FILE 12.4=FILE …     each file has the help text of one release

nvcc 11.8 and 12.4 are in Debian's package nvidia-cuda-toolkit, 13.x in the Python package nvidia-cuda-nvcc.
"""

import re
import sys

# nvcc wants a value, which the heading of the help does not show.
UNSHOWN = {"dependency-output", "qpp-config"}
# Without a value, nvcc 13.5 takes a default.
OPTIONAL = {"Ofast-compile", "host-linker-script"}
HEADING = re.compile(r"--(\S+)(?: +([^-\s(].*?))?  *\(?(--?[^\s()]+)\)?\s*$")


def main() -> None:
    releases: dict[tuple[str, str, str], list[str]] = {}
    for argument in sys.argv[1:]:
        release, path = argument.split("=", 1)
        with open(path, encoding="utf-8") as file:
            headings = [line for line in file if line.startswith("--")]
        for heading in headings:
            found = HEADING.match(heading)
            if not found:
                sys.exit(f"not understood: {heading!r}")
            name, shape, short = found.groups()
            value = "value" if shape or name in UNSHOWN else "none"
            value = "optional" if name in OPTIONAL else value
            releases.setdefault((f"--{name}", short, value), []).append(release)
    for (name, short, value), known in releases.items():
        print(name, short, value, *known)


if __name__ == "__main__":
    main()
