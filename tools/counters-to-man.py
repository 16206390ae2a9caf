#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Insert the numbers of include/hugemap_counters.def into a manual page.

    tools/counters-to-man.py PAGE hugemap_counters.def OUT

The list takes the place of the comment in PAGE that names the .def file.
"""
import re
import sys

ENTRY = re.compile(r'^HUGEMAP_(?:GAUGE|CORE|MODULE|LATENCY)\(\w+, (\w+),\s+((?:"[^"]*"\s*)+)\)$', re.M)
MARK = re.compile(r'^\.\\" .*hugemap_counters\.def.*\n', re.M)


def mdoc(text):
    """One sentence a line, and each name(2) as a macro, with the punctuation behind it."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"(?<=[a-z0-9%)][.;]) (?=[A-Z])", "\n", text)
    text = re.sub(r" ?\b(\w+)\((\d)\)([.,;:]*) ?", r"\n.Xr \1 \2 \3\n", text)
    return re.sub(r" *\n+", "\n", text).strip()


def main():
    page, counters, out = sys.argv[1:]
    with open(counters) as file:
        entries = ENTRY.findall(file.read())
    lines = ['.Bl -tag -width "not_promoted_needs_alloc"']
    for name, strings in entries:
        lines += [f".It Pa {name}", mdoc("".join(re.findall(r'"([^"]*)"', strings)))]
    with open(page) as file:
        text, marks = MARK.subn(lambda _: "\n".join(lines + [".El\n"]), file.read())
    if not entries or marks != 1:
        sys.exit(f"{page}: {marks} places for {len(entries)} numbers of {counters}")
    with open(out, "w") as file:
        file.write(text)


main()
