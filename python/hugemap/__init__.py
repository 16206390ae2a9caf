# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Memory-mapped files that need no tuning.

    a = hugemap.memmap("data", dtype="f4", mode="r", shape=(1000, 768))
    with open("data", "rb") as file, hugemap.map(file) as m:
        header = m[:8]

`memmap` takes the place of numpy.memmap: the same arguments, the same array.
`map` gives the bytes of a file by the buffer protocol and DLPack. Both are the
kernel's mmap with all that it promises; the library looks on, and gives the kernel
the advice that makes it fast. With a `Pool`, the cache is the program's own.

Lengths and offsets are bytes, everywhere. Errors are OSError with the errno of
the library, and a sentence that says what to do. See docs/python.md.
"""
from ._hugemap import pread, punch, pwrite, truncate, version
from ._map import Advice, Map, Pool, map
from ._memmap import memmap
from ._options import defaults
from ._stat import Latency, Stat

__version__ = version()
__all__ = [
    "Advice",
    "Latency",
    "Map",
    "Pool",
    "Stat",
    "defaults",
    "map",
    "memmap",
    "pread",
    "punch",
    "pwrite",
    "truncate",
    "version",
]
