# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Arrays in files: numpy.memmap, steered."""
from __future__ import annotations

import math
import mmap
import operator
import os
import pathlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO, ContextManager, Optional, Union

import numpy as np

from ._map import Map

if TYPE_CHECKING:
    from typing import Self

    from ._map import Advice, Mode
    from ._stat import Stat

    _NumpyMemmap = np.memmap[Any, np.dtype[Any]]
else:
    _NumpyMemmap = np.memmap

_MODES = ("r", "c", "r+", "w+")
_LONG_MODES = {"readonly": "r", "copyonwrite": "c", "readwrite": "r+", "write": "w+"}


def _open(path: Union[str, bytes], mode: str) -> BinaryIO:
    if mode == "w+":
        # open(path, "w+b") would empty the file before the other arguments are checked.
        return open(path, "r+b",
                    opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o666))
    return open(path, "r+b" if mode == "r+" else "rb")


def _grow(file: BinaryIO, length: int) -> int:
    """Make the file at least so long. Return its length.

    posix_fallocate() never makes a file shorter and never changes a byte, so another
    program may append to the file at the same time.
    """
    length_now = file.seek(0, os.SEEK_END)
    if length_now >= length:
        return length_now
    file.write(b"")  # io.UnsupportedOperation if the file is open for reading only
    os.posix_fallocate(file.fileno(), length - 1, 1)
    return file.seek(0, os.SEEK_END)


class memmap(_NumpyMemmap):
    """A numpy.memmap whose mapping is steered. See the documentation of numpy.memmap.

    filename: a path, or an open binary file, which may be closed afterwards
    dtype: of the items
    mode: "r" (read), "r+" (read and write an existing file), "w+" (create the
        file, or empty it, for reading and writing) or "c" (copy on write:
        stores stay in memory)
    offset: where the array starts in the file; bytes, any number
    shape: items, an int or a sequence; None = (n,), all whole items of the file.
        With modes "r+" and "w+" a shorter file is made as long as it must be.
    order: "C" (rows) or "F" (columns)

    The attributes `filename`, `offset` and `mode` are those of numpy.memmap. `_mmap` is
    the hugemap.Map. Pickles contain the data.

    The mapping ends with the last array that uses it. Stores reach the file
    then, or earlier; they are durable after `flush()`.

    ValueError for arguments that do not fit together or to the file; OSError as for `Map`.
    """

    _mmap: Optional[Map]

    def __new__(
        cls,
        filename: Any,
        dtype: Any = np.uint8,
        mode: str = "r+",
        offset: int = 0,
        shape: Any = None,
        order: Any = "C",
    ) -> Self:
        mode = _LONG_MODES.get(mode, mode)
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {[*_MODES, *_LONG_MODES]} (got {mode!r})")
        if mode == "w+" and shape is None:
            raise ValueError("shape must be given if mode == 'w+'")
        dtype = np.dtype(dtype)
        offset = operator.index(offset)
        if shape is not None:
            shape = tuple(operator.index(length) for length in np.atleast_1d(shape))
        if min((offset, *(shape or ()))) < 0:
            raise ValueError(f"offset and shape must not be negative: {offset}, {shape}")

        opened = not hasattr(filename, "read")
        context: ContextManager[BinaryIO]
        context = _open(os.fspath(filename), mode) if opened else nullcontext(filename)
        with context as file:
            if mode == "w+" and opened:
                os.ftruncate(file.fileno(), 0)
            file_bytes = file.seek(0, os.SEEK_END)
            if shape is None:
                left = file_bytes - offset
                if left < 0:
                    raise ValueError("mmap offset is greater than file size")
                if left % dtype.itemsize:
                    raise ValueError("Size of available data is not a multiple of the "
                                     "data-type size.")
                shape = (left // dtype.itemsize,)
            end = offset + math.prod(shape) * dtype.itemsize
            if mode in ("r+", "w+"):
                file_bytes = _grow(file, max(end, 1))
            if not file_bytes:
                raise ValueError("cannot mmap an empty file")
            if end > file_bytes:
                raise ValueError("mmap length is greater than file size")
            start = offset - offset % mmap.ALLOCATIONGRANULARITY
            if start and start == end:
                start -= mmap.ALLOCATIONGRANULARITY  # a mapping is not empty
            map_mode: Mode = "r+" if mode == "w+" else mode  # type: ignore[assignment]
            mapping = Map(file, end - start, start, map_mode)
            name = getattr(file, "name", None)

        self = np.ndarray.__new__(cls, shape, dtype, mapping, offset - start, order=order)
        self._mmap = mapping
        self.offset = offset
        self.mode = mode
        if isinstance(filename, os.PathLike):
            self.filename = pathlib.Path(filename).resolve()  # type: ignore[assignment]
        elif isinstance(name, str):
            self.filename = os.path.abspath(name)
        return self

    def prefetch(self) -> None:
        """Read the bytes of this array, or view, into memory and wait for them."""
        if self._mmap is not None:
            self._mmap.prefetch(*self._span(self._mmap))

    def advise(self, advice: Advice) -> None:
        """Say how the program will access this array, or view: see Map.advise()."""
        if self._mmap is not None:
            self._mmap.advise(advice, *self._span(self._mmap))

    def stat(self) -> Optional[Stat]:
        """The state of the mapping; None if this is a copy in memory."""
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

    # numpy.memmap turns results into ndarrays and scalars, but not those of subclasses.

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: Optional[bool] = None
    ) -> Any:
        array = super().__array_wrap__(array, context)
        if array is self or type(self) is not memmap:
            return array
        # NumPy 1 does not pass return_scalar.
        if array.shape == () if return_scalar is None else return_scalar:
            return array[()]
        return array.view(np.ndarray)

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(index)
        if type(result) is memmap and result._mmap is None:
            return result.view(type=np.ndarray)
        return result


memmap.__module__ = "hugemap"
