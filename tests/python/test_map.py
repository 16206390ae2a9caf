# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap.map: bytes, buffers, tensors, closing, errors."""
import dataclasses
import errno
import fcntl
import gc
import mmap
import os
import random
import re
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import hugemap
from hugemap import _hugemap

MB = 1 << 20
pool_only = pytest.mark.served_by("pool")
steered_only = pytest.mark.served_by("steer")


@pytest.fixture
def opened(make, path):
    """A file of 3 MB + 5 bytes, open for both, and what is in it."""
    data = make(3 * MB + 5)
    with open(path, "r+b") as file:
        yield file, data


def raises(code):
    """OSError with this errno, and with a sentence."""

    class Raises:
        def __enter__(self):
            pass

        def __exit__(self, kind, error, traceback):
            assert kind is not None, "nothing was raised"
            if not isinstance(error, OSError):
                return False
            assert error.errno == code and len(error.strerror) > 10, error
            return True

    return Raises()


# --- bytes -------------------------------------------------------------------------


def test_items_beside_mmap(opened):
    """The same indices and slices on mmap and on a mapping, thousands of them."""
    file, data = opened
    dice = random.Random(3)
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as model, \
            hugemap.map(file, mode="r+") as ours:
        assert len(ours) == len(model) == ours.size()

        def number():
            return dice.choice([None, 0, 1, -1, 2 * MB, dice.randrange(-4 * MB, 4 * MB)])

        for _ in range(400):
            at = slice(number(), number(), dice.choice([None, 1, 2, 511, -1, -4096, 70001]))
            assert ours[at] == model[at]
            if dice.random() < 0.4:
                value = dice.randbytes(len(range(*at.indices(len(model)))))
                ours[at] = model[at] = value
            index = dice.randrange(-len(model), len(model))
            ours[index] = model[index] = dice.randrange(256)
            assert ours[index] == model[index]
        assert ours[:] == model[:]
        last = model[:]
    file.seek(0)
    assert file.read() == last


def test_bad_items(opened):
    file, _ = opened
    with hugemap.map(file, mode="r+") as m:
        for index in (len(m), -len(m) - 1, 1 << 80):
            with pytest.raises(IndexError):
                m[index]
        for value in (256, -1):
            with pytest.raises(ValueError):
                m[0] = value
        with pytest.raises(IndexError):
            m[0:3] = b"four"
        for key, value in (("a", 1), (0, b"x"), (0, 1.5)):
            with pytest.raises(TypeError):
                m[key] = value
        with pytest.raises(TypeError):
            del m[0]
    with hugemap.map(file) as m, pytest.raises(TypeError):
        m[0] = 1


def test_the_buffer(opened):
    file, data = opened
    with hugemap.map(file) as m:
        with memoryview(m) as view:
            assert (view.format, view.itemsize, view.shape, view.strides, view.readonly) == (
                "B", 1, (len(data),), (1,), True)
            assert view == data
    rest = len(data) - 2 * MB
    with hugemap.map(file, length=rest, offset=2 * MB, mode="r+") as m:
        assert (m.offset, len(m), m.readonly, m.mode) == (2 * MB, rest, False, "r+")
        assert m.address % (2 * MB) == 0
        with memoryview(m) as view:
            assert not view.readonly
            view[3:5] = b"ab"
    assert hugemap.pread(file, 2, 2 * MB + 3) == b"ab"


def test_calls_on_the_file(opened):
    file, data = opened
    with hugemap.map(file, mode="r+") as m:
        m[7] = 1
        assert hugemap.pread(file, 3, 6) == data[6:7] + b"\1" + data[8:9]
        assert hugemap.pwrite(file, b"xyz", 2 * MB - 1) == 3
        assert m[2 * MB - 1:2 * MB + 2] == b"xyz"
        hugemap.punch(file, 0, 4096)
        assert m[:4097] == bytes(4096) + data[4096:4097]
        hugemap.truncate(file, 4 * MB)
        assert hugemap.pread(file, 1 << 30, 3 * MB) == data[3 * MB:] + bytes(MB - 5)
        with raises(errno.EINVAL):
            hugemap.pread(file, -1, 0)
        with raises(errno.EINVAL):
            hugemap.pwrite(file, b"a", -1)
    assert os.path.getsize(file.name) == 4 * MB


# --- closing -----------------------------------------------------------------------


def test_closing_with_buffers(opened):
    file, data = opened
    m = hugemap.map(file)
    view = memoryview(m)
    array = np.frombuffer(m, "u1")
    for _ in range(2):
        with pytest.raises(BufferError):
            m.close()
        assert not m.closed
    del array
    gc.collect()
    with pytest.raises(BufferError):
        m.close()
    assert view[MB] == data[MB]
    view.release()
    m.close()
    assert m.closed
    m.close()  # twice is no error


def test_a_buffer_outlives_its_maker(opened):
    file, data = opened
    array = np.frombuffer(hugemap.map(file), "u1")
    gc.collect()
    assert array.tobytes() == data


def test_closed(opened):
    file, _ = opened
    with hugemap.map(file, mode="r+") as m:
        pass
    assert m.closed and "closed" in repr(m)
    calls = [lambda: m[0], lambda: m.__setitem__(0, 1), lambda: len(m), lambda: memoryview(m),
             m.sync, m.flush, m.prefetch, m.stat, lambda: m.advise("random"), m.__dlpack__,
             lambda: m.address]
    for call in calls:
        with pytest.raises(ValueError):
            call()


def test_an_exporter_that_is_closed_meanwhile(opened):
    """An index whose __index__ closes the mapping; a buffer that does so."""
    file, _ = opened
    m = hugemap.map(file, mode="r+")

    class Index:
        def __index__(self):
            m.close()
            return 5

    with pytest.raises(ValueError):
        m[Index()]
    m = hugemap.map(file, mode="r+")
    with pytest.raises(ValueError):
        m[0:Index()]
    m = hugemap.map(file, mode="r+")
    with pytest.raises(ValueError):
        m[0] = Index()


@pool_only
def test_pools(opened):
    file, data = opened
    with hugemap.Pool(8 * MB, readahead=False, queue_depth=8) as pool:
        m = hugemap.map(file, pool=pool)
        with raises(errno.EBUSY):
            pool.close()
        assert m.stat().pool_bytes == 8 * MB
        with raises(errno.EBUSY):  # through another pool of this process
            hugemap.map(file)
        m.close()
    assert pool.closed
    pool.close()
    with pytest.raises(ValueError):
        hugemap.map(file, pool=pool)
    with pytest.raises(TypeError):
        hugemap.map(file, pool=3)
    # A mapping keeps its pool.
    m = hugemap.map(file, pool=hugemap.Pool(8 * MB))
    gc.collect()
    assert m[:] == data
    m.close()
    with raises(errno.EINVAL):
        hugemap.Pool(8 * MB, queue_depth=1)
    with raises(errno.ENOMEM):
        hugemap.Pool(1 << 60)
    for bad in ({"io": "tape"}, {"bytes": -1}, {"queue_depth": 1 << 32}):
        with pytest.raises(ValueError):
            hugemap.Pool(**bad)


# --- calls on a mapping ------------------------------------------------------------


def test_sync(opened):
    file, data = opened
    with hugemap.map(file, mode="r+") as m:
        m[MB:MB + 3] = b"abc"
        m.sync(MB + 1, 1)  # not the start of a page
        with open(file.name, "rb") as plain:
            plain.seek(MB)
            assert plain.read(3) == b"abc"
        m[0] = 1
        m.flush()
        with open(file.name, "rb") as plain:
            assert plain.read(1) == b"\1"
        m.sync(wait=False)
        m.sync(len(m), 0)
        for offset, length in ((-1, 1), (0, len(m) + 1), (len(m) + 1, None), (5, -1), (5, -2)):
            for call in (m.sync, m.flush, m.prefetch, lambda *args: m.advise("willneed", *args)):
                with raises(errno.EINVAL):
                    call(offset, length)


@pool_only
def test_prefetch(opened):
    file, _ = opened
    with hugemap.map(file) as m:
        m.prefetch(0, 2 * MB)
        before = m.stat()
        assert before.resident_bytes >= 2 * MB
        assert m[0] == m[0] and m[2 * MB - 1] >= 0
        assert m.stat().fills == before.fills
        m.advise("dontneed")
        assert m.stat().resident_bytes < 2 * MB
        for advice in ("normal", "sequential", "random", "willneed", "priority-high",
                       "priority-normal", "priority-low"):
            m.advise(advice)
        with pytest.raises(ValueError):
            m.advise("never")


@pool_only
def test_stat(opened):
    file, _ = opened
    with hugemap.map(file) as m:
        m[0]
        stat = m.stat()
    assert (stat.engine, stat.reason) == ("pool", "")
    assert stat.mapped_bytes == 3 * MB + 4096
    assert stat.faults == stat.hits + stat.fills + stat.zeros > 0
    assert stat.fault_ns.count > 0
    assert 0 < stat.fault_ns.p50 <= stat.fault_ns.p99 <= stat.fault_ns.max
    with pytest.raises(dataclasses.FrozenInstanceError):
        stat.faults = 0


@steered_only
def test_calls_without_a_pool(opened):
    """Prefetch, advice and numbers, and what the kernel promises."""
    file, data = opened
    with hugemap.map(file, mode="r+") as m:
        assert m.stat().engine == "steer" and m.stat().pool_bytes == 0
        m.prefetch()
        stat = m.stat()
        assert stat.mapped_bytes == stat.resident_bytes == 3 * MB + 4096
        for advice in ("normal", "sequential", "random", "willneed", "dontneed",
                       "priority-high", "priority-normal", "priority-low"):
            m.advise(advice)
        with pytest.raises(ValueError):
            m.advise("never")
        os.pwrite(file.fileno(), b"plain", MB)
        assert m[MB:MB + 5] == b"plain"
        m[5] = 66
        assert os.pread(file.fileno(), 1, 5) == b"B"
        with hugemap.map(file, offset=4096, length=5) as part:
            assert part[:] == data[4096:4101]


def test_stat_has_every_number_of_the_header():
    root = os.environ.get("SOURCE_ROOT")
    if not root:
        pytest.skip("SOURCE_ROOT is not set: no header to compare with")
    with open(f"{root}/include/hugemap.h") as header:
        text = header.read()
    body = re.search(r"struct hugemap_stat \{(.*?)\n\};", text, re.S).group(1)
    names = [name.split("[")[0] for name in re.findall(r"(\w+(?:\[\d+\])?);", body)]
    assert [field.name for field in dataclasses.fields(hugemap.Stat)] == names[1:]
    with open(f"{root}/meson.build") as build:
        version = re.search(r"version: '(.*?)'", build.read()).group(1)
    assert hugemap.__version__ == hugemap.version() == version


def test_errors(opened, tmp_path):
    file, data = opened
    with raises(errno.EINVAL):
        hugemap.map(file, offset=100)
    with raises(errno.EINVAL):
        hugemap.map(file, offset=-4096)
    with raises(errno.EINVAL):
        hugemap.map(file, len(data) + 1)
    with raises(errno.EINVAL):
        hugemap.map(file, offset=4 * MB)
    with open(file.name, "rb") as reading:
        with raises(errno.EACCES):
            hugemap.map(reading, mode="r+")
    with open(file.name, "ab") as writing, raises(errno.EACCES):
        hugemap.map(writing)
    with raises(errno.EBADF):
        hugemap.map(999999)
    (tmp_path / "empty").touch()
    with open(tmp_path / "empty") as empty:
        for length in (0, 4096):
            with raises(errno.EINVAL):
                hugemap.map(empty, length)
    with open("/dev/null", "rb") as null, raises(errno.ENODEV):
        hugemap.map(null, 4096)
    for bad in ({"mode": "w+"}, {"priority": 7}):
        with pytest.raises(ValueError):
            hugemap.map(file, **bad)
    with pytest.raises(TypeError):
        hugemap.map("a name")
    with hugemap.map(file) as m, pytest.raises(ValueError):
        m.__init__(file)  # it is there already
    with pytest.raises(ValueError):
        m.__init__(file)  # or was: a store may be under way by its length


# --- DLPack --------------------------------------------------------------------------


def test_a_tensor(opened):
    file, data = opened
    m = hugemap.map(file, mode="r+")
    assert m.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(m)
    assert array.dtype == np.uint8 and array.shape == (len(data),)
    assert array.tobytes() == data
    with pytest.raises(BufferError):
        m.close()
    m[MB] = 77
    assert array[MB] == 77
    del array
    gc.collect()
    m.close()
    # A tensor outlives the object.
    array = np.from_dlpack(hugemap.map(file, mode="c"))
    gc.collect()
    assert array[5] == data[5]


def test_tensors_that_nobody_takes(opened):
    file, _ = opened
    m = hugemap.map(file, mode="r+")
    old, new = m.__dlpack__(), m.__dlpack__(max_version=(1, 1), dl_device=(1, 0), copy=False)
    assert '"dltensor"' in repr(old) and '"dltensor_versioned"' in repr(new)
    del old
    with pytest.raises(BufferError):
        m.close()
    del new
    m.close()


def test_tensors_that_cannot_be(opened):
    file, _ = opened
    with hugemap.map(file) as m:
        with pytest.raises(BufferError):
            m.__dlpack__()  # read-only, and no way to say so
        assert '"dltensor_versioned"' in repr(m.__dlpack__(max_version=(1, 0)))
        for bad in ({"stream": 1}, {"copy": True}, {"dl_device": (2, 0)}):
            with pytest.raises(BufferError):
                m.__dlpack__(max_version=(1, 0), **bad)
        for bad in ({"max_version": 1}, {"dl_device": "cpu"}):
            with pytest.raises(TypeError):
                m.__dlpack__(**bad)
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            assert not np.from_dlpack(m).flags.writeable


# --- threads -------------------------------------------------------------------------


@pool_only
def test_the_interpreter_goes_on_while_a_call_waits(opened):
    """hugemap.map() of a pool opens the file a second time, which waits until a lease on it
    is given back: by a thread of this interpreter."""
    file, _ = opened
    file.close()
    fd = os.open(file.name, os.O_RDONLY)
    given_back = threading.Event()
    broken = threading.Event()

    def give_back():
        while fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_WRLCK and not broken.is_set():
            time.sleep(0.01)
        given_back.set()
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    interval = sys.getswitchinterval()
    thread = threading.Thread(target=give_back)
    try:
        # The other thread gets its turn when this one waits, and not before.
        sys.setswitchinterval(1000)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        thread.start()
        with hugemap.map(fd):
            assert given_back.is_set(), "the interpreter stood still"
    finally:
        sys.setswitchinterval(interval)
        broken.set()
        thread.join()
        signal.signal(signal.SIGIO, before)
        os.close(fd)


def test_closing_beside_calls(opened):
    """A thread closes while others are in calls: refused, or they find it closed."""
    file, _ = opened
    odd = []

    def work(m):
        try:
            for _ in range(20):
                m[MB:MB + 5000] = bytes(5000)
                m.prefetch(0, MB)
                m[0:MB]
            m.sync()
        except ValueError:
            pass
        except BaseException as error:
            odd.append(error)

    for _ in range(8):
        m = hugemap.map(file, mode="r+")
        threads = [threading.Thread(target=work, args=(m,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        while not m.closed:
            try:
                m.close()
            except BufferError:
                time.sleep(0)
        for thread in threads:
            thread.join()
        assert not odd


def test_references(opened):
    """No call keeps, or loses, a reference to a mapping."""
    file, _ = opened
    m = hugemap.map(file, mode="r+")
    before = sys.getrefcount(m)
    for _ in range(50):
        memoryview(m).release()
        del [np.from_dlpack(m)][0]
        m.__dlpack__()
        m.stat(), m[0], m[0:5]
        m[0:5] = b"12345"
        try:
            m.sync(-1)
        except OSError:
            pass
    gc.collect()
    assert sys.getrefcount(m) == before
    m.close()


def test_references_to_types(opened):
    """Every object lets go of its type, also one of a subclass."""
    file, _ = opened

    class Sub(_hugemap.Map):
        pass

    types = (_hugemap.Map, _hugemap.Pool, hugemap.Map, Sub)
    before = [sys.getrefcount(kind) for kind in types]
    for _ in range(50):
        for kind in types:
            kind.__new__(kind)
        del kind
        hugemap.map(file).close()
        _hugemap.Map(file, 0, 0, 1, 0, 0, None).close()
    gc.collect()
    assert [sys.getrefcount(kind) for kind in types] == before


def test_the_module_is_for_the_stable_abi():
    assert os.path.basename(_hugemap.__file__) == "_hugemap.abi3.so"


def test_types_cannot_be_changed():
    for kind in (_hugemap.Map, _hugemap.Pool):
        with pytest.raises(TypeError):
            kind.close = None
        assert kind.__module__ == "hugemap._hugemap"


@pool_only
def test_a_pool_that_knows_its_mappings(opened):
    """A cycle through a mapping's pool is found when nobody has either."""
    file, _ = opened
    pool = hugemap.Pool(8 * MB)
    pool.mapping = hugemap.map(file, pool=pool)
    assert pool.mapping[0] == pool.mapping[:1][0]
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None


def test_the_c_part_takes_no_nonsense(opened):
    file, _ = opened
    with pytest.raises(TypeError):
        _hugemap.Map(file)
    with pytest.raises(ValueError):
        _hugemap.Map.__new__(_hugemap.Map)._sync(0, 1, True)
    with raises(errno.EINVAL):
        _hugemap.Map(file, 0, 0, 1, 0, 9, None)
    assert _hugemap.Pool.__new__(_hugemap.Pool).closed
