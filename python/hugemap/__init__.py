# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Less waiting for memory-mapped files.

    hugemap.install()
    a = hugemap.memmap("data", dtype="f4", mode="r", shape=(1000, 768))
    with open("data", "rb") as file, hugemap.map(file) as m:
        header = m[:8]

`install` steers all large mappings of files in the process, such as those of numpy, pyarrow,
polars, safetensors and gguf. `memmap` is a numpy.memmap whose mapping is steered. `map` gives
the bytes of a file by the buffer protocol and DLPack. Both are the kernel's mmap with all that
it promises; the library observes the accesses and gives the kernel advice that makes them fast.

All lengths and offsets are bytes. Errors are OSError with the errno of the library and a
sentence with the remedy. See docs/python.md.
"""
from typing import TYPE_CHECKING, Any

from ._hugemap import version
from ._map import Advice, Map, map
from ._stat import Stat
from ._install import install, steered

if TYPE_CHECKING:
    from ._memmap import memmap

__version__ = version()
__all__ = ["Advice", "Map", "Stat", "install", "map", "memmap", "steered", "version"]


def __getattr__(name: str) -> Any:
    """Only memmap needs NumPy."""
    if name != "memmap":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._memmap import memmap

    globals()[name] = memmap
    return memmap
