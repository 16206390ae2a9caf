#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Load a safetensors file through hugemap, without copying, and check it.

    safetensors_load.py [FILE]

The tensors are views of one mapping: nothing is read before it is used. The check compares
them with plain reads of the file, and with the package safetensors if that is installed.
Without FILE a small file is made.

A safetensors file has the length of the header (8 bytes, little-endian), the header (JSON:
for each name dtype, shape and data_offsets, relative to the end of the header), and the data.
"""
from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from typing import Any

import numpy as np

import hugemap

MOST_HEADER = 100 << 20  # bytes

# NumPy lacks BF16 and F8: their bits are shown as unsigned integers of the same size.
DTYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "F8_E4M3": "u1",
    "F8_E5M2": "u1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "BF16": "<u2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
BITS_ONLY = ("BF16", "F8_E4M3", "F8_E5M2")


class BadFile(ValueError):
    """The file is not a valid safetensors file."""


def parse_header(mapping: hugemap.Map) -> tuple[dict[str, Any], int]:
    """Return the entries of the header, and where the data begins; bytes."""
    if len(mapping) < 8:
        raise BadFile("the file is too short for a header")
    length = int.from_bytes(mapping[:8], "little")
    if length > MOST_HEADER or length > len(mapping) - 8:
        raise BadFile(f"a header of {length} bytes does not fit")
    try:
        header = json.loads(mapping[8 : 8 + length])
    except ValueError as error:
        raise BadFile(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise BadFile("the header is not a JSON object")
    header.pop("__metadata__", None)
    return header, 8 + length


def check_entry(name: str, entry: Any, data_bytes: int) -> tuple[np.dtype, list[int], int]:
    """Check that a tensor is within the data. Return dtype, shape and its first byte."""
    try:
        dtype = np.dtype(DTYPES[entry["dtype"]])
        shape = entry["shape"]
        first, end = entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{name}: the header describes it badly: {error!r}") from None
    numbers = [first, end, *shape] if isinstance(shape, list) else [None]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise BadFile(f"{name}: a length or an offset is negative, or not an integer")
    if end - first != math.prod(shape) * dtype.itemsize or end > data_bytes:
        raise BadFile(f"{name}: its bytes {first} to {end} do not match its shape, or are "
                      "not in the file")
    return dtype, shape, first


def load(path: str) -> tuple[dict[str, np.ndarray], hugemap.Map]:
    """Return the tensors of a file, by name: read-only views of one mapping."""
    with open(path, "rb") as file:
        mapping = hugemap.map(file)
    header, data_at = parse_header(mapping)
    tensors = {}
    for name, entry in header.items():
        dtype, shape, first = check_entry(name, entry, len(mapping) - data_at)
        count = math.prod(shape)
        # The array keeps the mapping. Its address need not be aligned.
        flat = np.frombuffer(mapping, dtype, count, data_at + first) if count else np.empty(0, dtype)
        tensors[name] = flat.reshape(shape)
    return tensors, mapping


def save(path: str, tensors: dict[str, np.ndarray]) -> None:
    """Write a safetensors file."""
    names = {np.dtype(code): name for name, code in DTYPES.items() if name not in BITS_ONLY}
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check(path: str, tensors: dict[str, np.ndarray]) -> None:
    """Compare with plain reads, and with the package if it is installed."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name, tensor in tensors.items():
            first, end = header[name]["data_offsets"]
            file.seek(8 + length + first)
            if file.read(end - first) != tensor.tobytes():
                raise BadFile(f"{name}: plain reads of the file give other bytes")
    try:
        from safetensors.numpy import load_file
    except ImportError:
        print("compared with plain reads; the package safetensors is not installed")
        return
    if any(entry.get("dtype") in BITS_ONLY for entry in header.values()):
        print("compared with plain reads; NumPy lacks some of the types")
        return
    theirs = load_file(path)
    if theirs.keys() != tensors.keys():
        raise BadFile("the package safetensors finds other tensors")
    for name, tensor in tensors.items():
        if not same(tensor, theirs[name]):
            raise BadFile(f"{name}: the package safetensors gives other bytes")
    print("compared with plain reads and with the package safetensors")


def make_sample(path: str) -> None:
    random = np.random.default_rng(1)
    save(path, {
        "embedding": random.standard_normal((5000, 256), dtype="f4"),
        "layer.0.weight": random.standard_normal((256, 256)).astype("f2"),
        "layer.0.bias": random.standard_normal(256),
        "steps": np.array(17, dtype="i8"),
        "mask": random.integers(0, 2, (3, 5, 7)).astype("?"),
        "nothing": np.empty((0, 4), dtype="f4"),
    })


def show(path: str) -> None:
    tensors, mapping = load(path)
    for name, tensor in tensors.items():
        total = tensor.astype("f8").sum() if tensor.size else 0.0
        print(f"{name:40} {tensor.dtype!s:8} {tensor.shape!s:20} sum {total:.6g}")
    check(path, tensors)
    print(f"{len(tensors)} tensors, {mapping.stat().resident_bytes} bytes in memory")


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    try:
        if len(sys.argv) == 2:
            show(sys.argv[1])
            return 0
        with tempfile.TemporaryDirectory(dir=os.environ.get("HM_TEST_DIR", "/var/tmp")) as scratch:
            path = os.path.join(scratch, "sample.safetensors")
            make_sample(path)
            show(path)
        return 0
    except (OSError, BadFile) as error:
        print(f"safetensors_load.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
