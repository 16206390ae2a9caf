#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Attribute the instructions that bench.py counts to functions of the guest's kernel.

    run.py bench --by-function NEW.json [--scenario S] [--what 'warm upgrade']
    functions.py NEW.json [ROW]             the functions of a row, most instructions first
    functions.py OLD.json NEW.json [ROW]    compare two trees, largest change first

ROW is a part of "what page setting" in the JSON. A row is one call of count-insns.c (--what
sets its arguments); the unit is that of its last count. The numbers are counts, not samples:
QEMU reports how often each block of code was entered. If a fault interrupts a block, the whole
block counts, and then the rest of it counts again. A row includes the other work of the kernel:
its threads, the timer, the start of the program.
"""
import argparse
import bisect
import collections
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
ASK_S = 60
KERNEL = 1 << 63  # kernel addresses start here
LINES = 40

Counts = dict[int, int]


class Profiler:
    """Requests counts from the plugin of one guest, by files in a directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.plugin = directory / "by-address.so"
        self.names: list[tuple[int, str]] = []
        self.requests = 0
        source = HERE / "bench" / "by-address.c"
        command = ["gcc", "-shared", "-fPIC", "-O2", "-pthread", "-Wall", "-Wextra", "-Wno-unused-parameter"]
        subprocess.run([*command, "-o", os.fspath(self.plugin), os.fspath(source)], check=True)

    def words(self) -> list[str]:
        """The options of QEMU for the plugin."""
        return ["-plugin", f"{self.plugin},dir={self.directory}"]

    def learn(self, lines: list[str]) -> None:
        """Read symbols from the lines of the guest's /proc/kallsyms."""
        names = []
        for line in lines:
            address, kind, name, *_ = [*line.split(), "", "", ""]
            if kind and kind in "tTwW":
                # Count function.cold, function.part.0 and the like as the function.
                names.append((int(address, 16), name.partition(".")[0]))
        self.names = sorted(names)

    def take(self) -> tuple[Counts, Counts]:
        """The instructions so far, and the number of entries of each block, by address."""
        self.requests += 1
        made = self.directory / f"{self.requests}"
        request = self.directory / "request.new"
        request.write_text(made.name)
        request.rename(self.directory / "request")
        end = time.monotonic() + ASK_S
        while not made.exists():
            if time.monotonic() > end:
                raise TimeoutError("QEMU's plugin does not answer")
            time.sleep(0.01)
        insns: Counts = collections.Counter()
        times: Counts = collections.Counter()
        for line in made.read_text().splitlines():
            address, length, often = line.split()
            insns[int(address, 16)] += int(length) * int(often)
            times[int(address, 16)] += int(often)
        made.unlink()
        return insns, times

    def functions(self, work: Callable[[], None]) -> dict[str, list[int]]:
        """The instructions and calls of each function during @work."""
        before, entered_before = self.take()
        work()
        after, entered = self.take()
        starts = [start for start, _ in self.names]
        functions: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for address, insns in after.items():
            insns -= before.get(address, 0)
            if not insns:
                continue
            at = bisect.bisect_right(starts, address) - 1
            name = self.names[at][1] if address >= KERNEL and at >= 0 else "(user space)"
            functions[name][0] += insns
            if at >= 0 and starts[at] == address:
                functions[name][1] += entered[address] - entered_before.get(address, 0)
        return dict(functions)


def load(path: pathlib.Path) -> dict[str, dict]:
    return {f"{row['what']} {row['page']} {row['setting']}": row for row in json.loads(path.read_text())["rows"]}


def show(name: str, old: dict | None, new: dict) -> None:
    print(f"{name}: instructions and calls for each of {new['ops']} units")
    before = old["functions"] if old else {}
    functions = new["functions"]

    def changed(function: str) -> int:
        insns = functions.get(function, [0, 0])[0]
        return -abs(insns - before.get(function, [0, 0])[0])

    for function in sorted({*before, *functions}, key=changed)[:LINES]:
        insns, calls = functions.get(function, [0, 0])
        line = f"{insns / new['ops']:12,.1f}{calls / new['ops']:9.2f}"
        if old:
            insns, calls = before.get(function, [0, 0])
            line = f"{insns / old['ops']:12,.1f}{calls / old['ops']:9.2f}  ->{line}"
        print(f"{line}  {function}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="+", metavar="FILE|ROW")
    words = parser.parse_args().words
    files = [pathlib.Path(word) for word in words if word.endswith(".json")]
    wanted = " ".join(word for word in words if not word.endswith(".json"))
    if not 1 <= len(files) <= 2:
        parser.error("expected one or two files of run.py bench --by-function")
    try:
        tables = [load(file) for file in files]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{', '.join(map(str, files))}: {error}; expected a file of run.py bench --by-function", file=sys.stderr)
        return 1
    rows = [name for name in tables[-1] if wanted in name and name in tables[0]]
    if not rows:
        print(f"no row matches {wanted}; there are: {'; '.join(tables[-1])}", file=sys.stderr)
        return 1
    for name in rows:
        show(name, tables[0][name] if len(tables) == 2 else None, tables[-1][name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
