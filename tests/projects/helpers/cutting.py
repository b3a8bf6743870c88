"""Takes Rust items out of a source by their names, and counts lines of code."""

import re

# What may stand before the keyword of an item.
BEFORE = r"(?m)^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|unsafe|async)\s+)*?"
LITERALS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""", re.S
)


def masked(source: str) -> str:
    """The source with spaces instead of comments, strings and characters, so that brackets can be counted."""
    return LITERALS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)


def end_of(mask: str, start: int) -> int:
    """Where the item or statement ends that begins at `start`: behind its semicolon, or behind its last brace."""
    depth = 0
    for index in range(start, len(mask)):
        character = mask[index]
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and (character == ";" or character == "}"):
            return index + 1
    raise ValueError(f"no end: {mask[start:start + 60]!r}")


def start_of(source: str, at: int) -> int:
    """The beginning of the item's line, or of the comments and attributes above it."""
    start = source.rfind("\n", 0, at) + 1
    while start:
        above = source.rfind("\n", 0, start - 1) + 1
        if not source[above:start].lstrip().startswith(("//", "#[")):
            break
        start = above
    return start


def cut(source: str, start: int) -> tuple[str, str]:
    """The source without what begins at `start`, and what was taken out."""
    end = end_of(masked(source), start)
    start = start_of(source, start)
    return source[:start] + source[end:].removeprefix("\n"), source[start:end] + "\n"


def cut_item(source: str, name: str) -> tuple[str, str]:
    """Takes out a function, constant or struct; a method only if nothing outside of an `impl` has that name."""
    found = list(re.finditer(BEFORE + rf"(?:fn|const|static|struct)\s+{name}\b", masked(source)))
    if not found:
        raise ValueError(f"there is no item `{name}`")
    return cut(source, min(found, key=lambda item: len(item[0]) - len(item[0].lstrip())).start())


def cut_statement(source: str, needle: str) -> tuple[str, str]:
    """Takes out the statement that begins with the needle."""
    found = re.search(rf"(?m)^[ \t]*{re.escape(needle)}", source)
    if not found:
        raise ValueError(f"there is no statement `{needle}`")
    return cut(source, found.start())


def code_lines(source: str) -> int:
    """Lines that are neither empty nor a comment."""
    lines = (line.strip() for line in source.splitlines())
    return sum(bool(line) and not line.startswith("//") for line in lines)
