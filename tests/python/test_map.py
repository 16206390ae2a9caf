# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap.map: bytes, buffers, tensors, closing, errors."""
import contextlib
import dataclasses
import errno
import gc
import mmap
import os
import random
import re
import sys
import threading
import time

import numpy as np
import pytest

import hugemap
from hugemap import _hugemap

MB = 1 << 20


@pytest.fixture
def opened(make, path):
    """A file of 3 MB + 5 bytes, open for reading and writing, and its contents."""
    data = make(3 * MB + 5)
    with open(path, "r+b") as file:
        yield file, data


@contextlib.contextmanager
def raises(code):
    """Expect OSError with this errno and a sentence."""
    with pytest.raises(OSError) as info:
        yield
    assert info.value.errno == code and len(info.value.strerror) > 10, info.value


# --- bytes -------------------------------------------------------------------------


def test_items_are_those_of_mmap(opened):
    """Random indices and slices give the same as with mmap."""
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


def test_bad_indices_and_values_are_refused(opened):
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


def test_the_buffer_shows_the_file(opened):
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
    assert os.pread(file.fileno(), 2, 2 * MB + 3) == b"ab"


# --- closing -----------------------------------------------------------------------


def test_a_mapping_with_buffers_cannot_be_closed(opened):
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


def test_a_buffer_keeps_the_mapping(opened):
    file, data = opened
    array = np.frombuffer(hugemap.map(file), "u1")
    gc.collect()
    assert array.tobytes() == data


def test_a_closed_mapping_refuses_all_calls(opened):
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


def test_an_index_that_closes_the_mapping_is_an_error(opened):
    """The __index__() of an index closes the mapping."""
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


# --- calls on a mapping ------------------------------------------------------------


def test_sync_writes_stores_to_the_file(opened):
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


def test_calls_agree_with_other_accesses_to_the_file(opened):
    """Prefetch, advice and statistics; other accesses to the file."""
    file, data = opened
    with hugemap.map(file, mode="r+") as m:
        assert m.stat().resident_bytes == 0
        m.prefetch()
        stat = m.stat()
        assert stat.mapped_bytes == stat.resident_bytes == 3 * MB + 4096
        assert (stat.engine, stat.pattern, stat.reason) == ("steer", "unknown", "")
        with pytest.raises(dataclasses.FrozenInstanceError):
            stat.dirty_bytes = 1
        for advice in ("normal", "sequential", "random", "willneed", "dontneed"):
            m.advise(advice)
        with pytest.raises(ValueError):
            m.advise("never")
        os.pwrite(file.fileno(), b"plain", MB)
        assert m[MB:MB + 5] == b"plain"
        m[5] = 66
        assert m.stat().dirty_bytes >= 4096
        assert os.pread(file.fileno(), 1, 5) == b"B"
        with hugemap.map(file, offset=4096, length=5) as part:
            assert part[:] == data[4096:4101]


def test_the_advice_reaches_the_kernel(opened):
    """The flags of the area in smaps: rr and sr are random and sequential."""
    file, _ = opened

    def flags(m):
        with open("/proc/self/smaps") as smaps:
            area = smaps.read().split(f"{m.address:x}-")[1]
        return re.search("VmFlags: (.*)", area).group(1).split()

    with hugemap.map(file) as m:
        for advice, expected in (("random", {"rr"}), ("sequential", {"sr"}), ("normal", set())):
            m.advise(advice)
            assert {"rr", "sr"} & set(flags(m)) == expected


def test_the_decisions_of_steering_are_in_stat(path):
    """A sequential reader is recognised, in the first turn or in a later one."""
    path.write_bytes(bytes(64 * MB))
    deadline = time.monotonic() + 60
    with open(path, "rb") as file:
        while time.monotonic() < deadline:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with hugemap.map(file) as m:
                for at in range(0, 64 * MB, MB):
                    m[at:at + MB]
                stat = m.stat()
            if stat.pattern != "unknown" and stat.reason and stat.accessed_bytes:
                break
        else:
            pytest.fail(str(stat))


def test_stat_has_every_field_of_the_header():
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


def test_errors_have_the_errno(opened, tmp_path):
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
    with pytest.raises(ValueError):
        hugemap.map(file, mode="w+")
    with pytest.raises(TypeError):
        hugemap.map("a name")


# --- DLPack --------------------------------------------------------------------------


def test_a_tensor_shows_the_file(opened):
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
    # A tensor keeps the mapping.
    array = np.from_dlpack(hugemap.map(file, mode="c"))
    gc.collect()
    assert array[5] == data[5]


def test_unused_tensors_are_released(opened):
    file, _ = opened
    m = hugemap.map(file, mode="r+")
    old, new = m.__dlpack__(), m.__dlpack__(max_version=(1, 1), dl_device=(1, 0), copy=False)
    assert '"dltensor"' in repr(old) and '"dltensor_versioned"' in repr(new)
    del old
    with pytest.raises(BufferError):
        m.close()
    del new
    m.close()


def test_unsupported_tensors_are_refused(opened):
    file, _ = opened
    with hugemap.map(file) as m:
        with pytest.raises(BufferError):
            m.__dlpack__()  # the older tensor has no flag for read-only data
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


def call_sync(m):
    m[0] = 1
    m.sync()


@pytest.mark.parametrize("call", [
    lambda m: m[:],
    lambda m: m.__setitem__(slice(None), bytes(len(m))),
    call_sync,
    lambda m: m.prefetch(),
    lambda m: m.advise("dontneed"),
    lambda m: m.stat(),
], ids=["load", "store", "sync", "prefetch", "advise", "stat"])
def test_the_interpreter_runs_during_a_call(make, path, call):
    """Another thread gets the interpreter's lock, which only @call releases here."""
    make(16 * MB)
    interval = sys.getswitchinterval()
    ran = threading.Event()

    def other():
        time.sleep(0.01)  # the lock is released now, and has to be acquired
        ran.set()

    thread = threading.Thread(target=other)
    with open(path, "r+b") as file, hugemap.map(file, mode="r+") as m:
        deadline = time.monotonic() + 60
        try:
            sys.setswitchinterval(1000)
            thread.start()
            while not ran.is_set() and time.monotonic() < deadline:
                call(m)
            assert ran.is_set()
        finally:
            sys.setswitchinterval(interval)
            thread.join()


def test_closing_beside_calls_of_other_threads_is_safe(opened):
    """A thread closes the mapping while others are in calls. It gets BufferError, or they get
    ValueError later."""
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


def test_calls_leak_no_reference_to_the_mapping(opened):
    """No call leaks, or drops, a reference to a mapping."""
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


def test_objects_leak_no_reference_to_their_type(opened):
    """Every object drops its reference to its type, also one of a subclass."""
    file, _ = opened

    class Sub(_hugemap.Map):
        pass

    types = (_hugemap.Map, hugemap.Map, Sub)
    before = [sys.getrefcount(kind) for kind in types]
    for _ in range(50):
        hugemap.map(file).close()
        for kind in (_hugemap.Map, Sub):
            kind(file, 0, 0, 1, 0).close()
            with raises(errno.EACCES), open(os.devnull, "w") as null:
                kind(null, 0, 1, 1, 0)
        del kind
    gc.collect()
    assert [sys.getrefcount(kind) for kind in types] == before


def test_the_module_is_for_the_stable_abi():
    assert os.path.basename(_hugemap.__file__) == "_hugemap.abi3.so"


def test_the_type_cannot_be_changed():
    with pytest.raises(TypeError):
        _hugemap.Map.close = None
    assert _hugemap.Map.__module__ == "hugemap._hugemap"


def test_the_c_part_checks_its_arguments(opened):
    file, _ = opened
    for arguments in ((file,), (file, 0, 0, 1), ("a", 0, 0, 1, 0)):
        with pytest.raises(TypeError):
            _hugemap.Map(*arguments)
    with pytest.raises(TypeError):
        _hugemap.Map(file, 0, 0, prot=1, flags=0)
    for arguments in ((file, 0, 0, 7, 0), (file, 0, 0, 1, 8)):
        with raises(errno.EINVAL):
            _hugemap.Map(*arguments)
    with hugemap.map(file) as m, raises(errno.EINVAL):
        m._advise(9, 0, None)
