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


def renewed(entry: str) -> str:
    """The entry of the newest major, for the new one."""
    entry = re.sub(rf"(-builtins\.so\.){old}\.\d+", rf"\g<1>{new}.0", entry)
    for before in (f".so.{old}", f"cu{old}", f'"{old}"'):
        entry = entry.replace(before, before.replace(str(old), str(new)))
    return entry


def closing(text: str, opening: int) -> int:
    """Where the bracket at `opening` ends."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] in "[(") - (text[at] in "])")
        if depth == 0:
            return at
    raise ValueError(text[opening : opening + 80])


def extended(text: str, opening: int) -> str:
    """The text with one more entry in the list of which the bracket is at `opening`."""
    end = closing(text, opening)
    inside = text[opening + 1 : end].rstrip().rstrip(",")
    return f"{text[: opening + 1]}{inside}, {renewed(entries(inside)[-1])}{text[end:]}"


def with_new_major(text: str) -> str:
    place = 0
    while field := re.compile(r"\s(sonames|packages): (wheels!\(|)").search(text, place):
        start = place = field.end()
        if field[2]:
            arguments = entries(text[start : closing(text, start - 1)])
            # The endings, if no package is without one.
            start = start - 1 if len(arguments) == 4 else text.index("[", start)
        else:
            start = text.index("[", start)
        if not text[: closing(text, start)].endswith("; MAJORS"):
            text = extended(text, start)
    return text


before, table = components.read_text().split("components! {\n")
lines = f"{before}components! {{\n{with_new_major(table)}".splitlines()


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
