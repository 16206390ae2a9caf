# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Memory-mapped files that need no tuning.

    a = hugemap.memmap("data", dtype="f4", mode="r", shape=(1000, 768))
    with open("data", "rb") as file, hugemap.map(file) as m:
        header = m[:8]

`memmap` is a numpy.memmap whose mapping is steered. `map` gives the bytes of a file by the
buffer protocol and DLPack. Both are the kernel's mmap with all that it promises; the
library observes the accesses and gives the kernel advice that makes them fast.

All lengths and offsets are bytes. Errors are OSError with the errno of the library and a
sentence with the remedy. See docs/python.md.
"""
from ._hugemap import version
from ._map import Advice, Map, map
from ._memmap import memmap
from ._stat import Stat

__version__ = version()
__all__ = ["Advice", "Map", "Stat", "map", "memmap", "version"]
