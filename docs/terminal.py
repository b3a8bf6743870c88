"""Draws what `script` recorded as an SVG: `python3 docs/terminal.py RECORDING... > docs/terminal.svg`.

To record: `script -qec 'stty cols 100; cargo cuda run --fetch' recording`. Each recording starts with its command.
"""

import re
import sys
from html import escape

COLOURS = {"31": "#f48771", "32": "#89d185", "33": "#e5c07b", "36": "#61c0d8", "91": "#f48771", "92": "#89d185", "96": "#61c0d8"}
ROW, COLUMN = 18, 8


def rows(recording):
    text = open(recording, encoding="utf-8", newline="").read()
    command = re.search(r'COMMAND="(?:stty cols \d+; )?([^"]*)"', text)[1]
    yield f"\x1b[36m$\x1b[0m \x1b[1m{command}"
    for row in text.split("\n")[1:]:
        if row.startswith("Script done"):
            break
        # What remains of a row that was drawn several times.
        row = re.split(r"\r|\x1b\[2?K", row.rstrip())[-1]
        if row.strip() and not re.search(r"Building.*\[[=> ]*\]", row):
            yield row


def spans(row):
    style, spans = "", []
    for part in re.split(r"(\x1b\[[0-9;]*m)", row):
        if part.startswith("\x1b"):
            codes = part[2:-1].split(";")
            style = "" if codes in (["0"], [""]) else style
            style += ' font-weight="bold"' if "1" in codes and "bold" not in style else ""
            style += "".join(f' fill="{COLOURS[code]}"' for code in codes if code in COLOURS)
        elif part:
            spans.append(f"<tspan{style}>{escape(part)}</tspan>")
    return "".join(spans)


lines = [row for recording in sys.argv[1:] for row in rows(recording)]
width = max(len(re.sub(r"\x1b\[[0-9;]*m", "", row)) for row in lines) * COLUMN + 32
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{len(lines) * ROW + 32}">')
print('<rect width="100%" height="100%" rx="8" fill="#1e1e1e"/>')
print('<g font-family="monospace" font-size="13" fill="#d4d4d4" xml:space="preserve">')
for number, row in enumerate(lines):
    print(f'<text x="16" y="{28 + number * ROW}">{spans(row)}</text>')
print("</g></svg>")
