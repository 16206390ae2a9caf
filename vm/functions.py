#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which functions of the guest's kernel do the instructions belong to that bench.py counts?

    run.py bench --by-function NEW.json [--scenario S] [--what 'warm upgrade']
    functions.py NEW.json [ROW]             the functions of a row, most instructions first
    functions.py OLD.json NEW.json [ROW]    the same of two trees, most changed first

ROW is a part of "what page setting", as the JSON has it; a row is all that count-insns.c is
asked for at once (--what asks for something else), by units of its last count. Numbers are
counts, not samples: QEMU tells how often each block of code was begun. One that a fault leaves
in the middle counts as a whole, and the rest of it once more. What the kernel does beside the row
is in it, too: its own threads, the timer, the start of the program.
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
KERNEL = 1 << 63  # from here on addresses are the kernel's
LINES = 40

Counts = dict[int, int]


class Profiler:
    """Asks the plugin of one guest, which runs in a directory of its own."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.plugin = directory / "by-address.so"
        self.names: list[tuple[int, str]] = []
        self.taken = 0
        source = HERE / "bench" / "by-address.c"
        command = ["gcc", "-shared", "-fPIC", "-O2", "-pthread", "-Wall", "-Wextra", "-Wno-unused-parameter"]
        subprocess.run([*command, "-o", os.fspath(self.plugin), os.fspath(source)], check=True)

    def words(self) -> list[str]:
        """For QEMU's command line."""
        return ["-plugin", f"{self.plugin},dir={self.directory}"]

    def learn(self, lines: list[str]) -> None:
        """The guest's /proc/kallsyms, with what is loaded by now."""
        names = []
        for line in lines:
            address, kind, name, *_ = [*line.split(), "", "", ""]
            if kind and kind in "tTwW":
                # What the compiler has cut out of a function, or made a copy of, is that function.
                names.append((int(address, 16), name.partition(".")[0]))
        self.names = sorted(names)

    def take(self) -> tuple[Counts, Counts]:
        """Instructions so far, and how often each address was the first of a block."""
        self.taken += 1
        made = self.directory / f"{self.taken}"
        asked = self.directory / "asked"
        asked.write_text(made.name)
        asked.rename(self.directory / "ask")
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
        """Name: instructions and calls, of what ran during @work."""
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
        parser.error("one file of run.py bench --by-function, or two")
    try:
        tables = [load(file) for file in files]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{', '.join(map(str, files))}: {error}; it has to be what run.py bench --by-function wrote", file=sys.stderr)
        return 1
    rows = [name for name in tables[-1] if wanted in name and name in tables[0]]
    if not rows:
        print(f"no row is called {wanted}; there are: {'; '.join(tables[-1])}", file=sys.stderr)
        return 1
    for name in rows:
        show(name, tables[0][name] if len(tables) == 2 else None, tables[-1][name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
