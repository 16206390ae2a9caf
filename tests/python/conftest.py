# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Fixtures that the tests of the Python package share."""
import gc

import numpy
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        item.has_failed = True


@pytest.fixture(autouse=True)
def no_mapping_is_left(request, tmp_path):
    """A mapping ends with the objects that use it."""
    yield
    # The traceback of a failed test refers to its objects.
    if not any(getattr(item, "has_failed", False) for item in request.session.items):
        gc.collect()
        with open("/proc/self/maps") as maps:
            left = [line for line in maps if str(tmp_path) in line]
        assert not left, "the test has left a mapping"


@pytest.fixture
def path(tmp_path):
    """The name of a file that a test may make."""
    return tmp_path / "file"


@pytest.fixture
def make(path):
    """make(bytes): write random data to the file, and return it."""

    def make(size, seed=1):
        data = numpy.random.default_rng(seed).bytes(size)
        path.write_bytes(data)
        return data

    return make
