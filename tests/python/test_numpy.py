# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""NumPy's own tests of numpy.memmap, with hugemap.memmap under that name.

This runs the file of the installed NumPy. Its classes become those of this module.
"""
import pathlib

import numpy
import pytest

import hugemap


def _find():
    for core in ("_core", "core"):
        file = pathlib.Path(numpy.__file__).parent / core / "tests" / "test_memmap.py"
        if file.exists():
            return file
    return None


def _run(file):
    names = {"__name__": __name__, "__file__": str(file)}
    theirs = numpy.memmap
    numpy.memmap = hugemap.memmap
    try:
        exec(compile(file.read_text(), str(file), "exec"), names)
    finally:
        numpy.memmap = theirs
    return names


FILE = _find()
NAMES = _run(FILE) if FILE else {}
if numpy.lib.NumpyVersion(numpy.__version__) < "2.2.0" and FILE:
    # It expects that an array without items cannot be made; since 2.2 it can.
    del NAMES["TestMemmap"].test_empty_array
globals().update((name, value) for name, value in NAMES.items() if name.startswith("Test"))


@pytest.mark.skipif(not FILE, reason="this NumPy comes without its tests")
def test_tests_of_numpy_use_hugemap():
    assert NAMES["memmap"] is hugemap.memmap
    assert numpy.memmap is not hugemap.memmap


@pytest.mark.skipif(not FILE, reason="this NumPy comes without its tests")
def test_files_of_tests_of_numpy_are_steered():
    test = NAMES["TestMemmap"]()
    test.setup_method()
    array = hugemap.memmap(test.tmpfp, dtype=test.dtype, mode="w+", shape=test.shape)
    assert array.stat().engine == "steer"
    del array
    test.teardown_method()
