# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the tests of the Python package share."""
import errno
import os

import pytest

import hugemap

POOL_BYTES = 32 << 20


@pytest.fixture(scope="session", autouse=True)
def pool():
    """A small pool for everything; None where there is no engine."""
    try:
        made = hugemap.Pool(POOL_BYTES)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        yield None
        return
    with hugemap.defaults(pool=made):
        yield made


@pytest.fixture
def engine(pool):
    """For tests that need the user-space engine."""
    if pool is None:
        pytest.skip("the user-space engine cannot be used here: see hugemap doctor")
    return pool


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
        os.truncate(probe, 4096)
        with hugemap.map(probe) as mapping:
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
