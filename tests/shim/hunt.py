#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The data integrity hunt: the exerciser under the library of `hugemap run`.

    make shim-hunt                      a million operations in all, a quarter of an hour
    make shim-hunt SEED=7 OPS=20000     others, or fewer
    tests/shim/hunt.py threads small    these variants only; DIR=: where the files are

Each variant says how many operations were done, how many of its mappings became the
engine's, and in how many of the looks that the exerciser takes at the mappings it keeps
they were the engine's: that is the share of its time in which the file was served.
Exit status 1 if a byte differed, or if a process ended or stood still.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
LINE = re.compile(r"^hugemap run: \d+: .*?: (mount|engine|advised|plain)(?:: (.*))?$")
LOOKS = re.compile(r"^(\d+) looks .*: (\d+) times not the kernel$", re.M)
STILL = 900  # seconds without a word after which nothing is expected any more
OPS = 1000000

# What the engine does not do: the file is the kernel's after it, until it is mapped anew.
DOWN = "mprotect,zero-range,map-private,truncate-path,collapse,insert,mremap-fixed,keep-odd"
CHILDREN = "fork,exec,apart,settled"

# Once a file is the kernel's, a direct write beside another thread's stores in the same
# large folio loses some, and the next sync says EIO: Linux since 6.16, on ext4.
SHARED = ["--without", "direct-write"]

Variant = collections.namedtuple("Variant", "name share processes threads args pool page")

VARIANTS = [
    Variant("all", 0.1, 4, 1, ["--pollute", "--size", "9000123", "--anew", "50"], "64M", "2M"),
    Variant("engine", 0.20, 4, 1, ["--pollute", "--size", "9000123", "--anew", "200",
                                   "--without", f"{DOWN},{CHILDREN}"], "64M", "2M"),
    Variant("small", 0.15, 4, 1, ["--pollute", "--size", "40000321", "--anew", "200",
                                  "--without", CHILDREN, "--rarely", DOWN], "16M", "2M"),
    Variant("base", 0.15, 4, 1, ["--pollute", "--size", "9000123", "--anew", "200",
                                 "--rarely", f"{DOWN},{CHILDREN}"], "8M", "4K"),
    Variant("children", 0.1, 4, 1, ["--pollute", "--size", "9000123", "--anew", "20",
                                    "--rarely", DOWN], "64M", "2M"),
    Variant("threads", 0.20, 2, 4, ["--size", "16773217", "--anew", "50",
                                    "--rarely", f"{DOWN},{CHILDREN}", *SHARED], "16M", "2M"),
    Variant("together", 0.1, 2, 3, ["--size", "16773217", "--anew", "20",
                                    "--rarely", DOWN, *SHARED], "32M", "2M"),
]


class Told:
    """What the library says of mappings, counted as it comes."""

    def __init__(self):
        self.rungs = collections.Counter()
        self.why = collections.Counter()
        self.rest = collections.deque(maxlen=200)
        self.last = time.monotonic()

    def take(self, line):
        self.last = time.monotonic()
        match = LINE.match(line)
        if not match:
            self.rest.append(line)
            if line.endswith(" operations"):
                print(f"  {line}", flush=True)
            return
        self.rungs[match[1]] += 1
        if match[2]:
            self.why[match[2]] += 1


def command(variant, ops, seed, directory):
    each = max(1, ops // (variant.processes * variant.threads))
    return each, [os.path.join(BUILD, "tests/exercise/hugemap-exercise"),
                  "--seed", str(seed), "--ops", str(each),
                  "--processes", str(variant.processes), "--threads", str(variant.threads),
                  *variant.args, os.path.join(directory, variant.name)]


def environment(variant):
    settings = {"MIN_SIZE": "4K", "CACHED": "1", "RANDOM": "1", "VERBOSE": "1", "POOL": variant.pool,
                "PAGE": variant.page}
    return {**{k: v for k, v in os.environ.items() if not k.startswith("HUGEMAP_RUN_")},
            **{f"HUGEMAP_RUN_{k}": v for k, v in settings.items()},
            "LD_PRELOAD": os.path.join(BUILD, "libhugemap-run.so")}


def run(variant, ops, seed, directory):
    """One variant. Return: what the library told, what the exerciser printed, its status."""
    _, argv = command(variant, ops, seed, directory)
    told = Told()
    with tempfile.TemporaryFile("w+") as answers:
        process = subprocess.Popen(argv, env=environment(variant), stdout=answers,
                                   stderr=subprocess.PIPE)
        os.set_blocking(process.stderr.fileno(), False)
        rest = b""
        while True:
            part = process.stderr.read()
            if part == b"":
                break
            if part is None:
                if time.monotonic() - told.last > STILL:
                    told.rest.append(f"nothing has happened for {STILL} seconds; it is left as "
                                     f"it is, to be looked at: process {process.pid}")
                    return told, "", 1
                time.sleep(0.2)
                continue
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                told.take(line.decode(errors="replace"))
        status = process.wait()
        answers.seek(0)
        return told, answers.read(), status


def report(variant, told, answer, done):
    looks = LOOKS.search(answer)
    share = f"{100 * int(looks[2]) / max(1, int(looks[1])):.0f} %" if looks else "-"
    maps = sum(told.rungs.values())
    print(f"{variant.name}: {done} operations; {told.rungs['engine']} times a mapping became "
          f"the engine's, {maps - told.rungs['engine']} times the kernel's; the engine served "
          f"{share} of the time")
    for why, n in told.why.most_common(6):
        print(f"  {n:7} {why}")
    sys.stdout.flush()


def main():
    names = sys.argv[1:]
    unknown = set(names) - {variant.name for variant in VARIANTS}
    if unknown:
        sys.exit(f"no such variant: {', '.join(sorted(unknown))}")
    seed = int(os.environ.get("SEED") or 1)
    total = int(os.environ.get("OPS") or OPS)
    chosen = [variant for variant in VARIANTS if not names or variant.name in names]
    parts = sum(variant.share for variant in chosen)
    directory = tempfile.mkdtemp(prefix="hunt-", dir=os.environ.get("DIR") or BUILD)
    all_done = 0
    for variant in chosen:
        ops = round(total * variant.share / parts)
        each, argv = command(variant, ops, seed, directory)
        done = each * variant.processes * variant.threads
        told, answer, status = run(variant, ops, seed, directory)
        if status:
            print("\n".join(told.rest))
            print(f"FAILED: {variant.name}, seed {seed}, exit status {status}; the files are in "
                  f"{directory}\n  HUGEMAP_RUN_POOL={variant.pool} HUGEMAP_RUN_PAGE="
                  f"{variant.page} {' '.join(argv)}")
            return 1
        report(variant, told, answer, done)
        all_done += done
    shutil.rmtree(directory)
    print(f"{all_done} operations, all bytes as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
