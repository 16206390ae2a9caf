#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Stream an array from a file: hugemap.memmap beside numpy.memmap.

    stream.py [--size 4G] [--file PATH] [--rounds 5] [--chunk 8M]

Each way adds up the same array, in turns. Before each turn the file is dropped from the page
cache. The last lines are the medians, with the fastest and the slowest turn. If the file does
not exist, it is made, and removed in the end.
"""
from __future__ import annotations

import argparse
import mmap
import os
import statistics
import sys
import tempfile
import time
from typing import Callable

import numpy as np

import hugemap

ITEM = np.dtype("<f8")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def bytes_of(text: str) -> int:
    unit = UNITS.get(text[-1:].upper(), 1)
    number = int(text[:-1] if unit > 1 else text) * unit
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text}: must be more than 0")
    return number


def make_file(path: str, size: int) -> None:
    """Write small integers, whose sum is exact in any order."""
    numbers = np.arange(1 << 20, dtype="u8") * 2654435761 % 1021
    block = numbers.astype(ITEM).tobytes()
    with open(path, "wb") as file:
        for at in range(0, size, len(block)):
            file.write(block[: size - at])
        file.flush()
        os.fsync(file.fileno())


def drop_cached(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def with_numpy(path: str) -> np.ndarray:
    return np.memmap(path, dtype=ITEM, mode="r")


def with_advice(path: str) -> np.ndarray:
    array = np.memmap(path, dtype=ITEM, mode="r")
    array._mmap.madvise(mmap.MADV_SEQUENTIAL)
    return array


def with_hugemap(path: str) -> np.ndarray:
    return hugemap.memmap(path, dtype=ITEM, mode="r")


WAYS: dict[str, Callable[[str], np.ndarray]] = {
    "numpy.memmap": with_numpy,
    "numpy.memmap, sequential": with_advice,
    "hugemap.memmap": with_hugemap,
}


def add_up(array: np.ndarray, chunk: int) -> float:
    total = 0.0
    for at in range(0, len(array), chunk):
        total += float(array[at : at + chunk].sum())
    return total


def turn(way: str, path: str, chunk: int) -> tuple[float, float]:
    """Return the seconds from opening to closing, and the sum."""
    drop_cached(path)
    start = time.perf_counter()
    array = WAYS[way](path)
    total = add_up(array, chunk)
    del array
    return time.perf_counter() - start, total


def read_ahead(path: str) -> str:
    device = os.stat(path).st_dev
    for part in ("queue", "../queue"):
        name = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/{part}/read_ahead_kb"
        if os.path.exists(name):
            with open(name) as file:
                return file.read().strip() + " KB"
    return "unknown"


def stream(path: str, rounds: int, chunk: int) -> int:
    size = os.path.getsize(path)
    print(f"{size >> 20} MB; the kernel's read-ahead: {read_ahead(path)}")

    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    sums = set()
    for number in range(rounds):
        order = list(WAYS)[number % len(WAYS) :] + list(WAYS)[: number % len(WAYS)]
        for way in order:
            took, total = turn(way, path, chunk)
            seconds[way].append(took)
            sums.add(total)
            print(f"  turn {number + 1}: {way:26} {took:7.3f} s")
    if len(sums) != 1:
        print(f"stream.py: the sums differ: {sorted(sums)}", file=sys.stderr)
        return 1
    base = statistics.median(seconds["numpy.memmap"])
    for way, took in seconds.items():
        middle = statistics.median(took)
        print(f"{way:26} {middle:7.3f} s ({min(took):.3f} to {max(took):.3f}) "
              f"{size / middle / 1e6:7.0f} MB/s  {base / middle:5.2f} x")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="hugemap.memmap beside numpy.memmap")
    parser.add_argument("--size", type=bytes_of, default=4 << 30)
    parser.add_argument("--file", help="a file of 8-byte floats; made if it does not exist")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunk", type=bytes_of, default=8 << 20)
    args = parser.parse_args()
    if args.rounds < 1 or args.size % ITEM.itemsize or args.chunk % ITEM.itemsize:
        parser.error("rounds must be 1 or more; size and chunk multiples of 8")

    with tempfile.TemporaryDirectory(dir=os.environ.get("HM_TEST_DIR", "/var/tmp")) as scratch:
        path = args.file or os.path.join(scratch, "array")
        made = not os.path.exists(path)
        try:
            if made:
                make_file(path, args.size)
            return stream(path, args.rounds, args.chunk // ITEM.itemsize)
        finally:
            if made and os.path.exists(path):
                os.remove(path)


if __name__ == "__main__":
    sys.exit(main())
