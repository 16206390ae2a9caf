#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Run unmodified programs under `hugemap run`: programs.py [--dir DIR] [NAME ...]

Each program runs plain and under `hugemap run` in turns. The page cache does not hold its
files at the start. Its output and its files must be the same. The script prints a table with
the medians of the time, the ratio of the times of a turn, the CPU time and the page faults,
and with the advice. For programs that write, it also has the ratio of the times until the data
is on the disk. The exit status is 1 if a program failed or its results differed. A program that
is not installed is skipped with a message. `tools/install-deps.sh programs` installs the
packages of Debian, and those of PyPI into ~/.cache/hugemap/programs.

    make programs
"""
import argparse
import contextlib
import os
import statistics
import subprocess
import sys

import programs_code
import programs_data
import programs_storage
from program import CACHE, Different, Skip, prepared, run_once, sync, warm_memory

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TURNS = 3
PROGRAMS = {**programs_storage.ROWS, **programs_data.ROWS, **programs_code.ROWS}


def run_program(kind, args):
    results = {False: [], True: []}
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(prepared(kind, args)) if kind.only_reads else None
        for under in [False, True] * args.turns:
            with prepared(kind, args) if not program else contextlib.nullcontext(program) as it:
                sync(it.dir, forget=True)
                warm_memory()
                results[under].append(run_once(it, args.hugemap, under))
    expected = results[False][0]
    for result in results[False] + results[True]:
        if result.output != expected.output:
            raise Different(f"the output is {result.output!r}, not {expected.output!r}")
        if result.digest != expected.digest:
            raise Different("its files differ")
    return results


def ratio(results, field):
    """The median ratio of a plain run to the next run, as the speed of the disk varies."""
    return statistics.median(getattr(plain, field) / getattr(under, field)
                             for plain, under in zip(results[False], results[True]))


def advice_of(results):
    """The number of mappings of each access pattern, and of each kind of advice."""
    return "; ".join(", ".join(f"{name} {count}" for name, count in counter.most_common())
                     for counter in results[-1].advice if counter) or "none"


def default_python():
    """The Python of tools/install-deps.sh, with the packages of PyPI."""
    path = f"{CACHE}/programs/bin/python"
    return path if os.access(path, os.X_OK) else sys.executable


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dir", default=os.environ.get("HM_TEST_DIR", "/var/tmp"))
    parser.add_argument("--hugemap", default=f"{ROOT}/build/hugemap")
    parser.add_argument("--python", default=default_python())
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    status = 0
    print("| program | plain, s | under, s | plain / under | ... on the disk | ... of a processor "
          "| faults, plain | faults, under | advice |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    for name, kind in PROGRAMS.items():
        if args.names and name not in args.names:
            continue
        try:
            results = run_program(kind, args)
        except Skip as why:
            print(f"| {name} | skipped: {why} | | | | | | | |", flush=True)
            continue
        except (Different, subprocess.CalledProcessError) as why:
            print(f"| {name} | FAILED: {why} | | | | | | | |", flush=True)
            status = 1
            continue
        plain, under = ({field: statistics.median(getattr(r, field) for r in results[u])
                         for field in ("seconds", "faults")} for u in (False, True))
        synced = "" if kind.only_reads and not kind.writes else f"{ratio(results, 'synced'):.2f}"
        print(f"| {name} | {plain['seconds']:.2f} | {under['seconds']:.2f} "
              f"| {ratio(results, 'seconds'):.2f} | {synced} | {ratio(results, 'processor'):.2f} "
              f"| {plain['faults']:.0f} | {under['faults']:.0f} | {advice_of(results[True])} |", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
