# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The numbers of a mapping or a pool."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Latency:
    """A latency distribution. All but `count` are nanoseconds."""

    count: int
    """how many were measured"""
    p50: int
    """half of them took no longer than this"""
    p90: int
    """90 % of them"""
    p99: int
    """99 % of them"""
    p999: int
    """99.9 % of them"""
    max: int
    """the longest"""


@dataclass(frozen=True)
class Stat:
    """What the library has counted. Mappings of a pool share its numbers: but for
    `engine`, `reason` and `mapped_bytes` they are the pool's, since it was made.
    Without a pool, all are 0 but for `mapped_bytes`, `resident_bytes`,
    `dirty_bytes`, `huge_pages` and `base_pages`, which are what this process has
    mapped.
    """

    engine: str
    """who serves it: "steer" (the page cache, steered), "pool", or "kernel" (the
    file is on a hugemap mount)"""
    reason: str
    """what was decided for it last, in words; "" = nothing yet"""
    pool_bytes: int
    """size of the pool; bytes"""
    free_bytes: int
    """free frames of the pool; bytes"""
    mapped_bytes: int
    """length of the mapping in whole 4 KB pages, or of all of the pool; bytes"""
    resident_bytes: int
    """cached data; bytes"""
    dirty_bytes: int
    """of these, not written yet; bytes"""
    huge_pages: int
    """2 MB pages mapped now"""
    base_pages: int
    """4 KB pages mapped now"""
    faults: int
    """faults served"""
    hits: int
    """faults that needed no I/O"""
    fills: int
    """faults that had to read"""
    zeros: int
    """faults on blocks without data in the file: not read"""
    write_faults: int
    """first stores to clean pages"""
    ahead: int
    """units (2 MB or 4 KB) read ahead or mapped ahead"""
    ahead_used: int
    """of these, used"""
    ahead_wasted: int
    """of these, evicted unused"""
    evictions: int
    """units evicted"""
    rescued: int
    """units touched while inactive"""
    read_bytes: int
    """read from files; bytes"""
    written_bytes: int
    """written to files; bytes"""
    read_errors: int
    """failed reads"""
    write_errors: int
    """failed writes"""
    slipped: int
    """stores that were caught between mapping and write protection"""
    fault_ns: Latency
    """from the arrival of a fault to its end, I/O included; nanoseconds"""
    read_ns: Latency
    """reads; nanoseconds"""
    write_ns: Latency
    """writes; nanoseconds"""


def make(numbers: dict[str, Any]) -> Stat:
    for name in ("fault_ns", "read_ns", "write_ns"):
        numbers[name] = Latency(**numbers[name])
    return Stat(**numbers)
