#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Real programs, unmodified, under `hugemap run`: programs.py [--dir DIR] [NAME ...]

Each program runs plain and under `hugemap run`, in turns, on files that the page
cache does not hold at the start. What it prints and what is in its files must be
the same. Prints a table: medians of the time, of the ratio of the times of a turn, of
the processor's time and of the page faults, and what was advised; of programs that
write, also the ratio of the times until what they have written is on the disk. Exit
status 1 if anything differed. What is not installed is skipped, and said:
tools/install-deps.sh programs installs what Debian has, and what PyPI has into
~/.cache/hugemap/programs.

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
            raise Different(f"it printed {result.output!r}, not {expected.output!r}")
        if result.digest != expected.digest:
            raise Different("its files are not the same")
    return results


def ratio(results, field):
    """Of each plain run to the one after it: the disk is not as fast at all times."""
    return statistics.median(getattr(plain, field) / getattr(under, field)
                             for plain, under in zip(results[False], results[True]))


def advice_of(results):
    """How many mappings there were of which kind, and how many got which advice."""
    return "; ".join(", ".join(f"{name} {count}" for name, count in counter.most_common())
                     for counter in results[-1].advice if counter) or "none"


def default_python():
    """The one that tools/install-deps.sh has made, with what PyPI has."""
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
