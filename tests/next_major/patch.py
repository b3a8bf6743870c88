"""Adds the major after the newest one, a product cuFOO and a toolkit component cuBAR to the tables of cuda-find-core."""

import re
import sys
from pathlib import Path

source = Path(sys.argv[1])
components = source / "component" / "table.rs"
releases = source / "release.rs"

text = releases.read_text()
old = max(int(major) for major in re.findall(r"^    row\(\((\d+), \d+\)", text, re.M))
new = old + 1
row = f"    row(({new}, 0), (99, 0), (12, 0), [99, 99], None, NOT_PINNED),\n"
text = text.replace("];\n\n/// For each major", f"{row}];\n\n/// For each major", 1)
text = re.sub(r"(const DRIVER_FLOORS.*?)\](;)", rf'\1, ({new}, "999.1")]\2', text, count=1, flags=re.S)
releases.write_text(text)


def entries(inside: str) -> list[str]:
    """The text between the brackets of a list, split at its own commas."""
    found, depth, start = [], 0, 0
    for at, character in enumerate(inside):
        depth += character in "[(" 
        depth -= character in "])"
        if character == "," and depth == 0:
            found.append(inside[start:at].strip())
            start = at + 1
    return found + [inside[start:].strip()]


def with_new_major(line: str) -> str:
    field, inside, rest = re.fullmatch(r"(\s*\w+: \[)(.*)(\],.*)", line).groups()
    last = entries(inside)[-1]
    last = re.sub(rf"(-builtins\.so\.){old}\.\d+", rf"\g<1>{new}.0", last)
    last = last.replace(f".so.{old}", f".so.{new}").replace(f"cu{old}", f"cu{new}")
    return f"{field}{inside}, {last}{rest}"


lines = components.read_text().splitlines()
per_major = re.compile(r"\s*(sonames|packages|package_dirs): \[(?!.*; MAJORS\])")
first = lines.index("components! {")
lines[first:] = [with_new_major(line) if per_major.match(line) else line for line in lines[first:]]


def copied(name: str, replacements: list[tuple[str, str]]) -> list[str]:
    start = lines.index(f"    {name} {{") - 1
    end = lines.index("    }", start) + 1
    row = "\n".join(lines[start:end])
    for before, after in replacements:
        row = row.replace(before, after)
    return row.splitlines()


foo = copied("Cudss", [("cudss", "cufoo"), ("CUDSS", "CUFOO"), ("Cudss", "Cufoo")])
bar = copied("Cublas", [("cublas", "cubar"), ("Cublas", "Cubar"), ("nvblas", "nvbar")])
end = lines.index("}", lines.index("components! {"))
components.write_text("\n".join(lines[:end] + bar + foo + lines[end:] + [""]))
