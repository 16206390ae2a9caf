# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The C part. Lengths and offsets are bytes."""
import sys
from typing import Any, Optional, Protocol, Union, overload

if sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    from typing_extensions import Buffer

class HasFileno(Protocol):
    def fileno(self) -> int: ...

FileDescriptor = Union[int, HasFileno]

def pread(fd: FileDescriptor, count: int, offset: int, /) -> bytes:
    """Read up to `count` bytes of a file that may be mapped, as os.pread() does,
    and see what was stored to its mappings in this process."""

def pwrite(fd: FileDescriptor, data: Buffer, offset: int, /) -> int:
    """Write to a file that may be mapped, as os.pwrite() does; mappings of it in
    this process see it at once. Returns the bytes written."""

def truncate(fd: FileDescriptor, length: int, /) -> None:
    """Change the length of a file that may be mapped, as os.ftruncate() does.
    Mappings know it when this returns."""

def punch(fd: FileDescriptor, offset: int, length: int, /) -> None:
    """Free a range of a file that may be mapped: it reads as zeros afterwards."""

def version() -> str:
    """The version of the library in this package, such as "0.1.0"."""

class Pool:
    def __init__(
        self,
        bytes: int,
        dirty_ratio: int,
        dirty_expire_ms: int,
        evict_batch: int,
        readahead_kb: int,
        no_readahead: bool,
        queue_depth: int,
        handlers: int,
        io: int,
        prefault: bool,
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...

class Map:
    def __init__(
        self,
        fd: FileDescriptor,
        offset: int,
        length: int,
        prot: int,
        flags: int,
        priority: int,
        pool: Optional[Pool],
        /,
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def offset(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def address(self) -> int: ...
    def _sync(self, offset: int, length: int, wait: bool, /) -> None: ...
    def _advise(self, advice: int, offset: int, length: int, /) -> None: ...
    def _prefetch(self, offset: int, length: int, /) -> None: ...
    def _stat(self) -> dict[str, Any]: ...
    def _dlpack(
        self,
        *,
        stream: Optional[Any] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    @overload
    def __setitem__(self, key: int, value: int, /) -> None: ...
    @overload
    def __setitem__(self, key: slice, value: Buffer, /) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
