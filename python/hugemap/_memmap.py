# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Arrays in files: what numpy.memmap does, through hugemap.

Not a subclass of numpy.memmap: code that asks for one (joblib does) goes on to
map the file by itself, in this process or another, which a pool does not allow.
"""
from __future__ import annotations

import io
import operator
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO, ContextManager, Optional, Union

import numpy as np

from . import _hugemap, _options
from ._map import Map

if TYPE_CHECKING:
    from ._map import Advice, Mode
    from ._stat import Stat

    _Array = np.ndarray[Any, np.dtype[Any]]
else:
    _Array = np.ndarray

_PAGE = 4096
_BLOCK = 2 << 20  # what a pool has of a file, but for its end
_MODES = ("r", "c", "r+", "w+")
_LONG_MODES = {"readonly": "r", "copyonwrite": "c", "readwrite": "r+", "write": "w+"}

# Since then an array of no items makes an empty file one byte long (gh-27723).
_EMPTY_IS_ALLOWED = tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 2)


def _short_mode(mode: str) -> str:
    mode = _LONG_MODES.get(mode, mode)
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {[*_MODES, *_LONG_MODES]} (got {mode!r})")
    return mode


def _open(path: Union[str, bytes], mode: str) -> BinaryIO:
    if mode != "w+":
        return open(path, "r+b" if mode == "r+" else "rb")
    # Not open(path, "w+b"): the file may be mapped, and is truncated with care.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    return os.fdopen(fd, "r+b")


def _as_shape(shape: Any) -> tuple[int, ...]:
    try:
        shape = (operator.index(shape),)
    except TypeError:
        pass
    lengths = tuple(operator.index(length) for length in shape)
    if any(length < 0 for length in lengths):
        raise ValueError(f"a shape has no negative lengths: {lengths}")
    return lengths


def _set_length(file: BinaryIO, length: int) -> None:
    """In place of a write beyond the end, of which other mappings would not know."""
    if not file.writable():
        raise io.UnsupportedOperation("the file is open for reading only: it cannot be extended")
    _hugemap.truncate(file, length)
    file.seek(0, os.SEEK_END)


def _grow(file: BinaryIO, length: int) -> int:
    """Not by its length: somebody else may be making it longer still. The length then."""
    if not file.writable():
        raise io.UnsupportedOperation("the file is open for reading only: it cannot be extended")
    os.posix_fallocate(file.fileno(), length - 1, 1)
    return file.seek(0, os.SEEK_END)


def _check_range(start: int, length: int, file_bytes: int) -> None:
    """What mmap.mmap would say: touching what is not there ends a program."""
    if not length and not file_bytes:
        raise ValueError("cannot mmap an empty file")
    if start > file_bytes or (not length and start == file_bytes):
        raise ValueError("mmap offset is greater than file size")
    if length > file_bytes - start:
        raise ValueError("mmap length is greater than file size")


class memmap(_Array):
    """An array in a file: a drop-in for numpy.memmap.

    filename: a path, or an open binary file, which may be closed afterwards
    dtype: of the items
    mode: "r" (read), "r+" (read and write an existing file), "w+" (create the
        file, or empty it, for reading and writing) or "c" (copy on write:
        stores stay in memory; the kernel serves such mappings)
    offset: where the array starts in the file; bytes, any number
    shape: items, an int or a tuple; None = (n,), all whole items of the file.
        With modes "r+" and "w+" a shorter file is made as long as it must be.
    order: "C" (rows) or "F" (columns)

    Attributes: `filename` (absolute; a Path if it was given as one; None if the
    file has no name), `offset` (bytes), `mode`. Views keep them, and the
    mapping; what is computed is an ndarray or a scalar. Pickles hold the data.

    The mapping ends with the last array that uses it. Stores reach the file
    then, or earlier; they are durable after `flush()`. What is different from
    numpy.memmap is in docs/python.md.

    ValueError for arguments that do not fit together or to the file; OSError as
    told by `map`. Pools: see `defaults`.
    """

    __array_priority__ = -100.0

    _mmap: Optional[Map]
    filename: Union[str, os.PathLike[str], None]
    offset: Optional[int]
    mode: Optional[str]

    def __new__(
        cls,
        filename: Any,
        dtype: Any = np.uint8,
        mode: str = "r+",
        offset: int = 0,
        shape: Any = None,
        order: Any = "C",
    ) -> memmap:
        mode = _short_mode(mode)
        if mode == "w+" and shape is None:
            raise ValueError("shape must be given if mode == 'w+'")
        if offset < 0:
            raise ValueError(f"offset must not be negative: {offset}")
        itemtype = np.dtype(dtype)
        if shape is not None:
            shape = _as_shape(shape)

        context: ContextManager[BinaryIO]
        own = not hasattr(filename, "read")
        context = _open(os.fspath(filename), mode) if own else nullcontext(filename)
        with context as file:
            file_bytes = file.seek(0, os.SEEK_END)
            if shape is None:
                left = file_bytes - offset
                if itemtype.itemsize and left % itemtype.itemsize:
                    raise ValueError("Size of available data is not a multiple of the "
                                     "data-type size.")
                shape = (max(left, 0) // max(itemtype.itemsize, 1),)
            end = offset + itemtype.itemsize * _product(shape)
            if mode in ("r+", "w+"):
                if _EMPTY_IS_ALLOWED:
                    end = max(end, 1)
                if mode == "w+" and own:
                    _set_length(file, 0)
                    file_bytes = 0
                if file_bytes < end:
                    file_bytes = _grow(file, end)

            map_mode: Mode = "r+" if mode == "w+" else mode  # type: ignore[assignment]
            pool = _options.settle()["pool"] if mode != "c" else None
            unit = _PAGE if pool is None else _BLOCK
            start = offset - offset % unit
            if start and end <= start:
                start -= unit  # an array of no items; a mapping has some bytes
            _check_range(start, max(end - start, 0), file_bytes)
            if pool is not None and end > start:
                end = min(end + -end % unit, file_bytes)
            mapping = Map(file, max(end - start, 0), start, map_mode, pool=pool)

        self = super().__new__(cls, shape, dtype=itemtype, buffer=mapping,
                               offset=offset - start, order=order)
        self._mmap = mapping
        self.offset = offset
        self.mode = mode
        if isinstance(filename, os.PathLike):
            self.filename = filename.resolve() if hasattr(filename, "resolve") else (
                os.path.abspath(os.fspath(filename)))
        elif isinstance(getattr(file, "name", None), (str, bytes)) and own:
            self.filename = os.path.abspath(os.fspath(filename))
        elif isinstance(getattr(file, "name", None), str):
            self.filename = os.path.abspath(file.name)
        else:
            self.filename = None
        return self

    def __array_finalize__(self, obj: Any) -> None:
        # A view of a mapped array, or a copy of one?
        mapped = hasattr(obj, "_mmap") and np.may_share_memory(self, obj)
        for name in ("_mmap", "filename", "offset", "mode"):
            setattr(self, name, getattr(obj, name) if mapped else None)

    def flush(self) -> None:
        """Make what was stored to the file durable. OSError if it cannot be written."""
        if self._mmap is not None:
            self._mmap.flush()

    def prefetch(self) -> None:
        """Bring the bytes of this array, or view, into memory and wait for them."""
        if self._mmap is not None:
            self._mmap.prefetch(*self._span(self._mmap))

    def advise(self, advice: Advice) -> None:
        """Say what the program will do with this array: see Map.advise()."""
        if self._mmap is not None:
            self._mmap.advise(advice, *self._span(self._mmap))

    def stat(self) -> Optional[Stat]:
        """The numbers of the mapping, or its pool; None if this is a copy in memory."""
        return None if self._mmap is None else self._mmap.stat()

    def _span(self, mapping: Map) -> tuple[int, int]:
        """From the first to the last byte: offset in the mapping, and length; bytes."""
        if not self.size:
            return 0, 0
        low = high = self.__array_interface__["data"][0] - mapping.address
        for length, stride in zip(self.shape, self.strides):
            low += min((length - 1) * stride, 0)
            high += max((length - 1) * stride, 0)
        return low, high - low + self.itemsize

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: Optional[bool] = None
    ) -> Any:
        array = super().__array_wrap__(array, context)
        # Subclasses, and the output of a ufunc, stay what they are.
        if array is self or type(self) is not memmap:
            return array
        # NumPy 1 does not say whether a scalar is wanted.
        if array.shape == () if return_scalar is None else return_scalar:
            return array[()]
        return array.view(np.ndarray)

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(index)
        if type(result) is memmap and result._mmap is None:
            return result.view(type=np.ndarray)
        return result


memmap.__module__ = "hugemap"


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product
