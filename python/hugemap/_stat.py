# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The state of a mapping."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Stat:
    """The state of a mapping, and what steering did for it. The fields are those of
    struct hugemap_stat.
    """

    engine: str
    """the cache that serves it: "steer" (Linux's page cache, steered) or "kernel" (the file
    is on a hugemap mount)"""
    pattern: str
    """how it is accessed: "stream", "streams", "backward", "strided", "chunks", "random",
    "hinted" (the program gives advice itself) or "unknown" """
    reason: str
    """the last decision of steering, in words; "" = none yet"""
    mapped_bytes: int
    """length of the mapping in whole 4 KB pages"""
    resident_bytes: int
    """bytes of it that this process has mapped now"""
    dirty_bytes: int
    """of these, bytes that are not written yet"""
    huge_bytes: int
    """of resident_bytes, bytes that are mapped by 2 MB pages"""
    accessed_bytes: int
    """bytes that steering has seen accessed; a page that was reclaimed and accessed again
    counts again"""
    random_bytes: int
    """bytes that got MADV_RANDOM"""
    hugepage_bytes: int
    """bytes that got MADV_HUGEPAGE"""
    normal_bytes: int
    """bytes whose advice was taken back"""
    ahead_bytes: int
    """bytes that steering requested before the program accessed them"""
