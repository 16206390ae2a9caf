# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Mappings as bytes."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Optional, get_args

from . import _hugemap
from ._stat import Stat

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ._hugemap import FileDescriptor

Mode = Literal["r", "r+", "c"]
# In the order of enum hugemap_advice.
Advice = Literal["normal", "sequential", "random", "willneed", "dontneed"]

_ADVICE = get_args(Advice)
_PROT_READ, _PROT_WRITE = 1, 2
_PRIVATE = 1
_MODES = {
    "r": (_PROT_READ, 0),
    "r+": (_PROT_READ | _PROT_WRITE, 0),
    "c": (_PROT_READ | _PROT_WRITE, _PRIVATE),
}


class Map(_hugemap.Map):
    """The bytes of a file or a block device in memory. `hugemap.map` is this class.

    fd: a descriptor or a file object; it may be closed afterwards
    length: bytes; 0 = to the end of the file. The file must be that long.
    offset: where the mapping starts in the file; bytes, a multiple of 4096
    mode: "r" (read), "r+" (read and write), or "c" (copy on write: stores stay
        in this process)

    It has the buffer protocol (one dimension of unsigned bytes, shape
    `(len(self),)`), DLPack (uint8, the same shape, on the CPU), items (an int)
    and slices (bytes, copied). It is writable unless the mode is "r".

    It stays open while its memory is in use: `close()` raises BufferError while
    memoryviews, arrays or tensors of it exist. A mapping that is dropped without
    close() ends with the last of these. Several threads may use it at a time;
    calls that may wait release the interpreter's lock.

    OSError: EACCES (fd is not open for what the mode needs), EBADF, EINVAL, ENODEV
    (the file cannot be mapped), ENOMEM or EOVERFLOW.
    """

    _mode: Mode

    def __new__(
        cls, fd: FileDescriptor, length: int = 0, offset: int = 0, mode: Mode = "r"
    ) -> Self:
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {[*_MODES]}, not {mode!r}")
        self = super().__new__(cls, fd, offset, length, *_MODES[mode])
        self._mode = mode
        return self

    @property
    def mode(self) -> Mode:
        """How it was mapped: "r", "r+" or "c"."""
        return self._mode

    def size(self) -> int:
        """Length of the mapping; bytes."""
        return len(self)

    def close(self) -> None:
        """Unmap it. Stores are in the file then, but not necessarily on the device.

        BufferError while something uses the memory; OSError with ENOMEM if the kernel
        lacks memory: it is still open then. Closing twice is no error.
        """
        super().close()

    def sync(self, offset: int = 0, length: Optional[int] = None, *, wait: bool = True) -> None:
        """Make stores durable: when this returns, they survive a power cut.

        offset: bytes from the start of the mapping
        length: bytes; None = to its end
        wait: False: the kernel writes in its own time

        OSError: EINVAL (the range is not in the mapping), or the errno of a write
        that failed since the last call; the data stays cached and is tried again.
        Stores to a mapping of mode "c" are never written.
        """
        self._sync(offset, length, wait)

    def flush(self, offset: int = 0, size: Optional[int] = None) -> None:
        """The same as sync(), with the name and the arguments of mmap.flush()."""
        self._sync(offset, size, True)

    def prefetch(self, offset: int = 0, length: Optional[int] = None) -> None:
        """Read a range into memory and wait for it.

        offset: bytes from the start of the mapping
        length: bytes; None = to its end

        OSError: EINVAL, or EIO if a page cannot be read.
        """
        self._prefetch(offset, length)

    def advise(self, advice: Advice, offset: int = 0, length: Optional[int] = None) -> None:
        """Say how the program will access a range. No advice is needed.

        advice: "normal" (the kernel's default), "sequential" (read ahead from the first
            access on), "random" (do not read ahead), "willneed" (read the range in the
            background, now) or "dontneed" (reclaim the range; no data is lost)
        offset: bytes from the start of the mapping
        length: bytes; None = to its end

        Steering leaves a range alone after "sequential" or "random", until "normal".
        """
        if advice not in _ADVICE:
            raise ValueError(f"advice must be one of {[*_ADVICE]}, not {advice!r}")
        self._advise(_ADVICE.index(advice), offset, length)

    def stat(self) -> Stat:
        """The state of this mapping. It takes about a millisecond for each GB that is
        mapped by small pages."""
        return Stat(**self._stat())

    def __dlpack__(
        self,
        *,
        stream: Optional[Any] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """The bytes as a DLPack tensor: uint8, shape `(len(self),)`, on the CPU.

        A read-only mapping needs a consumer of DLPack 1.0. BufferError if the consumer is
        older, or requests a copy, a stream or another device.
        """
        return self._dlpack(stream=stream, max_version=max_version, dl_device=dl_device,
                            copy=copy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<hugemap.Map, closed>"
        return f"<hugemap.Map of {len(self)} bytes at offset {self.offset}, mode {self._mode!r}>"


map = Map
