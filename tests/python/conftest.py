# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the tests of the Python package share."""
import errno
import os

import pytest

import hugemap

POOL_BYTES = 32 << 20


@pytest.fixture(scope="session")
def pool():
    """A small pool for everything; None where none can be made."""
    try:
        return hugemap.Pool(POOL_BYTES)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        return None


@pytest.fixture(autouse=True, params=["steer", "pool"])
def served(request, pool):
    """Every test runs twice: who serves its mappings, as Map.stat().engine says. Those
    that make sense with one alone are marked, by @steered_only or @pool_only."""
    only = request.node.get_closest_marker("served_by")
    if only and only.args[0] != request.param:
        pytest.skip(f"a test of mappings that are served by {only.args[0]}")
    if request.param == "steer":
        yield "steer"
        return
    if pool is None:
        pytest.skip("no pool can be made here: see hugemap doctor")
    with hugemap.defaults(pool=pool):
        yield "pool"


def pytest_configure(config):
    config.addinivalue_line("markers", "served_by(engine): with it alone")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        item.has_failed = True


@pytest.fixture(autouse=True)
def nothing_is_left(pool, request):
    """Every mapping of a test is gone with its objects: the pool has none."""
    yield
    # A failure holds on to what the test had.
    if pool is not None and not any(getattr(item, "has_failed", False)
                                    for item in request.session.items):
        import gc

        gc.collect()
        probe = os.memfd_create("probe")
        os.truncate(probe, 2 << 20)
        with hugemap.map(probe, pool=pool) as mapping:
            left = mapping.stat().huge_pages
        os.close(probe)
        assert left == 0, "a test has left a mapping"


@pytest.fixture
def path(tmp_path):
    """Where a test may have a file."""
    return tmp_path / "file"


@pytest.fixture
def make(path):
    """make(bytes): the file with known contents, which are returned."""

    def make(size, seed=1):
        import numpy

        data = numpy.random.default_rng(seed).bytes(size)
        path.write_bytes(data)
        return data

    return make
