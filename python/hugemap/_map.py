# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Mappings as bytes, and pools."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Optional, Union

from . import _hugemap, _options, _stat

if TYPE_CHECKING:
    from types import TracebackType

    from ._hugemap import FileDescriptor
    from ._options import Priority, _Unset

Mode = Literal["r", "r+", "c"]
Advice = Literal[
    "normal",
    "sequential",
    "random",
    "willneed",
    "dontneed",
    "priority-high",
    "priority-normal",
    "priority-low",
]

# As in hugemap.h.
_ADVICES = {
    "normal": 0,
    "sequential": 1,
    "random": 2,
    "willneed": 3,
    "dontneed": 4,
    "priority-high": 5,
    "priority-normal": 6,
    "priority-low": 7,
}
_IOS = {"auto": 0, "uring": 1, "threads": 2}
_PROT_READ, _PROT_WRITE = 1, 2
_PRIVATE = 1
_MODES = {
    "r": (_PROT_READ, 0),
    "r+": (_PROT_READ | _PROT_WRITE, 0),
    "c": (_PROT_READ | _PROT_WRITE, _PRIVATE),
}


class Pool(_hugemap.Pool):
    """DRAM for cached data, with threads that serve faults: a hard limit.

    It is strict: see docs/python.md, "Pools", before one is used.

    bytes: its size; 0 = a quarter of the available memory, between 64 MB and 4 GB
    dirty_ratio: write-back starts by itself above this share of the pool;
        percent; 0 = 75
    dirty_expire_ms: dirty data is written after this time at the latest;
        milliseconds; 0 = 5000
    evict_batch: units evicted at a time; 0 = 16
    readahead_kb: the largest read-ahead window of a stream; KiB; 0 = 32768
    readahead: False: never read ahead
    queue_depth: I/O operations in flight; 0 = 32
    handlers: threads that serve faults; 0 = one for every 8 CPUs, at most 4
    io: "auto", "uring" or "threads"
    prefault: True: take all memory before this returns; False: in the background

    OSError: EINVAL (a setting is out of range), ENOMEM (less memory is
    available), EPERM, ENOSYS or EOPNOTSUPP (userfaultfd cannot be used here).
    """

    def __init__(
        self,
        bytes: int = 0,
        *,
        dirty_ratio: int = 0,
        dirty_expire_ms: int = 0,
        evict_batch: int = 0,
        readahead_kb: int = 0,
        readahead: bool = True,
        queue_depth: int = 0,
        handlers: int = 0,
        io: Literal["auto", "uring", "threads"] = "auto",
        prefault: bool = False,
    ) -> None:
        if io not in _IOS:
            raise ValueError(f"io must be one of {_options.names(_IOS)}, not {io!r}")
        for name, value in (("bytes", bytes), ("dirty_ratio", dirty_ratio),
                            ("dirty_expire_ms", dirty_expire_ms), ("evict_batch", evict_batch),
                            ("readahead_kb", readahead_kb), ("queue_depth", queue_depth),
                            ("handlers", handlers)):
            limit = 1 << (64 if name == "bytes" else 32)
            if not 0 <= value < limit:
                raise ValueError(f"{name} is out of range: {value}")
        super().__init__(bytes, dirty_ratio, dirty_expire_ms, evict_batch, readahead_kb,
                         not readahead, queue_depth, handlers, _IOS[io], prefault)

    def close(self) -> None:
        """Give the memory back. OSError with EBUSY while mappings use the pool."""
        super().close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


class Map(_hugemap.Map):
    """The bytes of a file: what `map` returns.

    It has the buffer protocol (one dimension of unsigned bytes, shape
    `(len(self),)`), DLPack (uint8, the same shape, on the CPU), items (an int)
    and slices (bytes, copied). It is writable unless the mode is "r".

    It stays open as long as anything uses its memory: `close()` raises
    BufferError while there are memoryviews, arrays or tensors of it. An object
    that is dropped without close() is unmapped when the last of these has gone.
    All of them may be used by several threads at a time; calls that may wait do
    not hold the interpreter's lock.
    """

    def __init__(
        self,
        fd: FileDescriptor,
        length: int = 0,
        offset: int = 0,
        mode: Mode = "r",
        *,
        pool: Union[Pool, None, _Unset] = _options.UNSET,
        priority: Union[Priority, _Unset] = _options.UNSET,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {_options.names(_MODES)}, not {mode!r}")
        if mode == "c" and pool is _options.UNSET:
            pool = None
        settings = _options.settle(pool=pool, priority=priority)
        prot, flags = _MODES[mode]
        super().__init__(
            fd,
            offset,
            length,
            prot,
            flags,
            _options.PRIORITIES[settings["priority"]],
            settings["pool"],
        )
        self._mode = mode

    @property
    def mode(self) -> Mode:
        """How it was mapped: "r", "r+" or "c"."""
        return self._mode

    def size(self) -> int:
        """Length of the mapping; bytes."""
        return len(self)

    def close(self) -> None:
        """Unmap it. What was stored is in the file then, not yet on the device.

        BufferError while something uses the memory; OSError if something could
        not be written: it is unmapped nevertheless, unless the errno is EBUSY (direct
        I/O has pages of a pool pinned). Closing twice is no error.
        """
        super().close()

    def sync(self, offset: int = 0, length: Optional[int] = None, *, wait: bool = True) -> None:
        """Make stores durable: when this returns, they survive a power cut.

        offset: bytes from the start of the mapping
        length: bytes; None = to its end
        wait: False: start writing and return

        OSError: EINVAL (the range is not in the mapping), or the errno of a write
        that failed since the last call; the data stays cached and is tried again.
        Stores to a mapping of mode "c" go nowhere.
        """
        self._sync(offset, -1 if length is None else _length(length), wait)

    def flush(self, offset: int = 0, size: Optional[int] = None) -> None:
        """The same as sync(): under the name that mmap objects have for it."""
        self._sync(offset, -1 if size is None else _length(size), True)

    def prefetch(self, offset: int = 0, length: Optional[int] = None) -> None:
        """Bring a range into memory, and wait until it is there.

        offset: bytes from the start of the mapping
        length: bytes; None = to its end. What does not fit into three quarters
            of a pool is left out.

        OSError: EINVAL, or EIO if something could not be read.
        """
        self._prefetch(offset, -1 if length is None else _length(length))

    def advise(self, advice: Advice, offset: int = 0, length: Optional[int] = None) -> None:
        """Say what the program will do. No advice is needed; all are honoured.

        advice: "normal", "sequential", "random" or a "priority-...": for the
            whole mapping; "willneed" (bring it in, in the background) or
            "dontneed" (drop what is cached and clean): for the range
        offset: bytes from the start of the mapping
        length: bytes; None = to its end
        """
        if advice not in _ADVICES:
            raise ValueError(f"advice must be one of {_options.names(_ADVICES)}, not {advice!r}")
        self._advise(_ADVICES[advice], offset, -1 if length is None else _length(length))

    def stat(self) -> _stat.Stat:
        """The numbers of this mapping, or of its pool."""
        return _stat.make(self._stat())

    def __dlpack__(
        self,
        *,
        stream: Optional[Any] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """The bytes as a DLPack tensor: uint8, shape `(len(self),)`, on the CPU.

        A read-only mapping needs a consumer of DLPack 1.0; BufferError if it is
        older, or wants a copy, a stream or another device.
        """
        return self._dlpack(stream=stream, max_version=max_version, dl_device=dl_device,
                            copy=copy)

    def __enter__(self) -> Map:
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


def _length(length: int) -> int:
    """A length of the caller's: -1 means something else further down."""
    return -2 if length == -1 else length


def map(
    fd: FileDescriptor,
    length: int = 0,
    offset: int = 0,
    mode: Mode = "r",
    *,
    pool: Union[Pool, None, _Unset] = _options.UNSET,
    priority: Union[Priority, _Unset] = _options.UNSET,
) -> Map:
    """Map a file, or a block device, as bytes.

    fd: a descriptor or a file object; it may be closed afterwards
    length: bytes; 0 = to the end of the file. The file must be that long.
    offset: where to start in the file; bytes, a multiple of 4096
    mode: "r" (read), "r+" (read and write), or "c" (copy on write: stores stay
        in this process)
    pool, priority: see `defaults`, which they override. With a pool, the offset is a
        multiple of 2 MB, and so is the length, unless it ends with the file.

    The address is the same as the offset modulo 2 MB.

    OSError: EACCES (fd is not open for what the mode needs), EBADF, EINVAL, ENODEV
    (this cannot be mapped), ENOMEM, EOVERFLOW; EBUSY: with a pool, somebody else has
    locked the file; without one, a pool of this process has it.
    """
    return Map(fd, length, offset, mode, pool=pool, priority=priority)
