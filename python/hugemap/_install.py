# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Steering of the mappings that other libraries make: the library of `hugemap run`, loaded later."""
from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
from contextlib import contextmanager
from typing import Iterator, NamedTuple, Optional

from . import _hugemap

_LIBRARY = "libhugemap-run.so"
_AREA = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) (\S+) (\d+) *(.*)")
_HINTS = {"rr", "sr", "hg", "nh"}
"""flags in smaps that the program's own madvise() sets"""

_lock = threading.RLock()
_library: Optional[ctypes.CDLL] = None
_installed = False
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release,
                    after_in_child=_lock.release)


class _Area(NamedTuple):
    start: int
    end: int
    prot: str
    offset: int
    device: str
    inode: int
    path: str


def _find() -> str:
    """The library in this package, or that of the distribution, beside libhugemap."""
    places = [os.path.dirname(os.path.abspath(__file__))]
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        places += [os.path.join(os.path.dirname(path), "hugemap")
                   for path in re.findall(r"(?m) (/.*/libhugemap\.so\.\S*)$", maps.read())]
    for place in places:
        if os.path.exists(os.path.join(place, _LIBRARY)):
            return os.path.join(place, _LIBRARY)
    raise OSError(errno.ENOENT, f"{_LIBRARY} is not installed: install the package hugemap")


def _reason(err: int, other: Optional[bytes]) -> str:
    if err == errno.EBUSY:
        return (f"another library replaces a function of the C library ({os.fsdecode(other or b'')}):"
                " start the program without it, or by `hugemap run`")
    if err == errno.ENOSYS:
        return "steering needs glibc as the C library: use Python of a distribution that has it"
    return (f"the pointers to mmap() could not be overwritten ({os.strerror(err)}): call install()"
            " before the process limits itself, or start it by `hugemap run`")


def _load() -> ctypes.CDLL:
    """Load the library, and have all objects of the process call it."""
    library = ctypes.CDLL(_find())
    other = ctypes.c_char_p()
    err = library.hugemap_run_install(ctypes.byref(other))
    if err:
        raise OSError(-err, _reason(-err, other.value))
    library.hugemap_run_count.restype = ctypes.c_uint64
    _hugemap.hand_over()
    return library


def _begin() -> Optional[ctypes.CDLL]:
    """Return the library; None under `hugemap run`, which steers all mappings."""
    global _library
    with _lock:
        if _library is None and not hasattr(ctypes.CDLL(None), "hugemap_run_version"):
            _library = _load()
        return _library


def _read(name: str) -> dict[_Area, set[str]]:
    """The areas of this process that map files, with their flags if @name is smaps."""
    areas: dict[_Area, set[str]] = {}
    flags: set[str] = set()
    with open(f"/proc/self/{name}", errors="surrogateescape") as lines:
        for line in lines:
            match = _AREA.match(line)
            if match:
                start, end, prot, offset, device, inode, path = match.groups()
                flags = set()
                if int(inode):
                    areas[_Area(int(start, 16), int(end, 16), prot, int(offset, 16), device,
                                int(inode), path)] = flags
            elif line.startswith("VmFlags:"):
                flags.update(line.split()[1:])
    return areas


def _adopt(library: ctypes.CDLL, least: int) -> None:
    """Report the mappings that exist, except those for which the program has given advice.

    Files that are also mapped with PROT_EXEC are libraries.
    """
    def large(areas: dict[_Area, set[str]]) -> list[_Area]:
        code = {(a.device, a.inode) for a in areas if "x" in a.prot}
        return [a for a, flags in areas.items()
                if a.prot[0] == "r" and (a.device, a.inode) not in code
                and a.end - a.start >= least and not flags & _HINTS]

    if not large(_read("maps")):  # smaps takes long in a process with much memory
        return
    areas = large(_read("smaps"))
    for area in areas:
        library.hugemap_run_mapped(
            os.fsencode(area.path), ctypes.c_void_p(area.start),
            ctypes.c_size_t(area.end - area.start), 3 if area.prot[1] == "w" else 1,
            1 if area.prot[3] == "s" else 2, ctypes.c_int64(area.offset))
    # Another thread may have ended one before it was reported.
    now = _read("maps")
    for area in areas:
        if area not in now:
            library.hugemap_run_unmapped(ctypes.c_void_p(area.start),
                                         ctypes.c_size_t(area.end - area.start))


def install() -> None:
    """Steer every file mapping of 16 MB or more in this process, from now on.

    It does not matter which library makes the mapping (numpy, pyarrow, polars, safetensors,
    gguf, torch), or when that library is imported. Mappings that exist already are steered,
    too. Under `hugemap run` this does nothing. See docs/python.md for the limits.

    OSError: EBUSY if another library replaces mmap() or a similar function, ENOSYS if the C
    library is not glibc, ENOENT if the library of `hugemap run` is not installed.
    """
    global _installed
    with _lock:
        library = _begin()
        if library is not None and not _installed:
            _adopt(library, library.hugemap_run_count(1))
        _installed = True


@contextmanager
def steered() -> Iterator[None]:
    """The same as install() for the mappings that the process makes within the context.

    They are steered until they end, also after the context. Mappings that are made after it
    are not. Contexts may be nested, and several threads may use them: steering of new mappings
    ends with the last one.
    """
    library = _begin()
    if library is not None:
        library.hugemap_run_count(1)
    try:
        yield
    finally:
        if library is not None:
            library.hugemap_run_count(-1)
