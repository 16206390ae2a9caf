# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The examples run, and do what their documentation states."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

ROOT = os.environ.get("SOURCE_ROOT")
if not ROOT:
    pytest.skip("SOURCE_ROOT is not set: no examples to run", allow_module_level=True)
EXAMPLES = pathlib.Path(ROOT) / "python" / "examples"


def run(name, *args):
    return subprocess.run([sys.executable, EXAMPLES / name, *map(str, args)],
                          capture_output=True, text=True)


def test_the_stream_example_compares_three_ways(tmp_path):
    file = tmp_path / "array"
    done = run("stream.py", "--size", "20M", "--rounds", 2, "--file", file)
    assert done.returncode == 0, done.stderr
    ways = ["numpy.memmap", "numpy.memmap, sequential", "hugemap.memmap"]
    assert len(re.findall(r"(?m)^  turn \d: ", done.stdout)) == 2 * len(ways)
    assert re.findall(r"(?m)^(\w+\.memmap(?:, \w+)?) +[\d.]+ s \(", done.stdout) == ways
    assert not file.exists()
    # It keeps a file that it did not make.
    np.ones(MB := 1 << 20).tofile(file)
    done = run("stream.py", "--rounds", 1, "--file", file)
    assert done.returncode == 0, done.stderr
    assert file.stat().st_size == 8 * MB
    assert run("stream.py", "--size", "-3").returncode == 2


def test_the_safetensors_example_loads_its_file():
    done = run("safetensors_load.py")
    assert done.returncode == 0, done.stderr
    assert "6 tensors" in done.stdout and "compared with plain reads" in done.stdout


def example_module():
    spec = importlib.util.spec_from_file_location("example", EXAMPLES / "safetensors_load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_safetensors_are_loaded_without_copies(tmp_path):
    """Views of the mapping, with the right numbers, whatever their alignment."""
    example = example_module()
    file = tmp_path / "model"
    numbers = np.arange(6, dtype="<f4").reshape(2, 3)
    write(file, {"__metadata__": {"a": "b"},
                 "byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                 "x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [1, 25]}},
          b"\7" + numbers.tobytes())
    tensors, mapping = example.load(file)
    assert list(tensors) == ["byte", "x"] and np.array_equal(tensors["x"], numbers)
    for tensor in tensors.values():
        at = tensor.__array_interface__["data"][0] - mapping.address
        assert 0 <= at < len(mapping) and not tensor.flags.writeable
    with pytest.raises(BufferError):
        mapping.close()


@pytest.mark.parametrize("header, data", [
    (b"", b""),
    (b"{", b""),
    (b"[]", b""),
    ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
    ({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"12345678"),
    ({"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]}}, b"12345678"),
    ({"x": {"dtype": "F31", "shape": [2], "data_offsets": [0, 8]}}, b"12345678"),
    ({"x": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}}, b"12345678"),
    ({"x": {"dtype": "F32", "data_offsets": [0, 8]}}, b"12345678"),
    ({"x": 7}, b"12345678"),
])
def test_a_bad_safetensors_file_is_refused(tmp_path, header, data):
    write(tmp_path / "bad", header, data)
    example = example_module()
    with pytest.raises(example.BadFile):
        example.load(tmp_path / "bad")


def test_the_message_names_the_bad_file(tmp_path):
    (tmp_path / "bad").write_bytes(b"abc")
    done = run("safetensors_load.py", tmp_path / "bad")
    assert done.returncode == 1
    assert re.fullmatch(r"safetensors_load\.py: .*\S \S.*\n", done.stderr), done.stderr
