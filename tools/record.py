#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Record a command on a terminal of 80 columns, as text and as a picture.

    record.py record FILE.cast COMMAND ARGUMENT...    an asciicast (version 2)
    record.py draw FILE.cast FILE.svg                 the same as an SVG that moves

A pause is shortened to a second. Viewers that do not move the picture show its end. Its colours
follow the reader's light or dark setting.
"""
import codecs
import fcntl
import html
import json
import os
import pty
import re
import shlex
import struct
import sys
import termios
import time

COLUMNS = 80
PAUSE = 1.0  # the longest time without output in a recording
LAST = 4.0  # seconds that the end stays
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14
STYLE = """
:root { --paper: #f6f8fa; --ink: #1d2126; --bold: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec; --bold: #6aa8ff; } }
rect { fill: var(--paper); }
text { fill: var(--ink); font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre; }
.command, .verdict { fill: var(--bold); font-weight: bold; }
"""


def record(path, command):
    """Run a command, and write its output with its times."""
    pid, terminal = pty.fork()
    if not pid:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        os.execvp(command[0], command)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    events, at, last = [[0.0, "o", "$ " + shlex.join(command) + "\r\n"]], 0.0, time.monotonic()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        if not data:
            break
        now = time.monotonic()
        at, last = at + min(now - last, PAUSE), now
        events.append([round(at, 2), "o", decoder.decode(data)])
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    header = {"version": 2, "width": COLUMNS, "height": 24, "idle_time_limit": PAUSE, "title": shlex.join(command)}
    with open(path, "w", encoding="utf-8") as file:
        for line in [header, *events]:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return status


def screens(path):
    """The lines on the screen after each event of a recording: pairs of a time and a list."""
    with open(path, encoding="utf-8") as file:
        events = [json.loads(line) for line in file][1:]
    lines, column = [""], 0
    for at, _, text in events:
        for part in re.findall(r"\x1b\[K|\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\r":
                column = 0
            elif part == "\n":
                lines.append("")
                column = 0
            elif part == "\x1b[K":
                lines[-1] = lines[-1][:column]
            elif part[0] != "\x1b":
                lines[-1] = lines[-1][:column].ljust(column) + part + lines[-1][column + len(part):]
                column += len(part)
        yield at, [line.rstrip() for line in lines[:-1] + lines[-1:] * bool(lines[-1])]


def draw_lines(lines):
    for number, line in enumerate(lines):
        if line:
            kind = "command" if line.startswith("$ ") else "verdict" if "verdict " in line else "line"
            y = MARGIN + CELL_HEIGHT * number + 14
            # The colour is for viewers without variables in styles.
            yield (f'<text class="{kind}" x="{MARGIN}" y="{y}" fill="#1d2126" xml:space="preserve">'
                   f"{html.escape(line)}</text>")


def draw(path, to):
    frames = list(screens(path))
    end = frames[-1][0] + LAST
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, max(len(f[1]) for f in frames) * CELL_HEIGHT + 2 * MARGIN
    style, groups = [], []
    for number, (begin, lines) in enumerate(frames):
        until = frames[number + 1][0] if number + 1 < len(frames) else end
        first, last = 100 * begin / end, 100 * until / end
        final = number + 1 == len(frames)
        style.append(f"#f{number} {{ visibility: {'visible' if final else 'hidden'}; animation: k{number} {end:.2f}s "
                     "step-end infinite; }\n"
                     f"@keyframes k{number} {{ 0% {{ visibility: {'hidden' if begin else 'visible'}; }} "
                     f"{first:.2f}% {{ visibility: visible; }} {last:.2f}%, 100% {{ visibility: "
                     f"{'visible' if final else 'hidden'}; }} }}\n")
        groups.append(f'<g id="f{number}">' + "\n".join(draw_lines(lines)) + "</g>")
    with open(to, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
                   f'height="{height}" role="img">\n<title>{html.escape(frames[0][1][0])}</title>\n'
                   f"<style>{STYLE}{''.join(style)}</style>\n"
                   f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#f6f8fa"/>\n' + "\n".join(groups) + "\n</svg>\n")


def main():
    words = sys.argv[1:]
    if len(words) > 2 and words[0] == "record":
        return record(words[1], words[2:])
    if len(words) == 3 and words[0] == "draw":
        draw(words[1], words[2])
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
