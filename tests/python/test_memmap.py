# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap.memmap beside numpy.memmap, and its own methods."""
import copy
import inspect
import io
import os
import pathlib
import pickle
import threading

import numpy as np
import pytest

import hugemap

MB = 1 << 20


def test_the_signature_is_numpys():
    theirs = inspect.signature(np.memmap.__new__).parameters
    ours = inspect.signature(hugemap.memmap.__new__).parameters
    assert list(ours)[1:] == list(theirs)[1:]
    for name in list(theirs)[1:]:
        assert ours[name].kind == theirs[name].kind
        if name != "dtype":
            assert ours[name].default == theirs[name].default
    assert np.dtype(ours["dtype"].default) == np.dtype(theirs["dtype"].default)


@pytest.mark.parametrize("shape", [0, (0, 4)])
@pytest.mark.parametrize("offset", [0, 5, 4096])
def test_an_empty_array_can_be_mapped(path, offset, shape):
    array = hugemap.memmap(path, mode="w+", shape=shape, offset=offset)
    assert array.size == 0 and array.shape == np.empty(shape).shape
    assert path.stat().st_size == max(offset, 1)
    array.prefetch()
    array.flush()
    assert hugemap.memmap(path, mode="r", shape=shape, offset=offset).size == 0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("offset", [0, 1, 4096, 2 * MB + 12, 2 * MB - 8])
@pytest.mark.parametrize("mode", ["r", "r+", "c", "w+", "readonly", "copyonwrite"])
def test_results_are_those_of_numpy(make, path, tmp_path, mode, offset, order):
    data = make(5 * MB + 24)
    other = tmp_path / "other"
    other.write_bytes(data)
    shape = (300, 500)
    pair = [kind(name, dtype="<f8", mode=mode, offset=offset, shape=shape, order=order)
            for kind, name in ((np.memmap, other), (hugemap.memmap, path))]
    theirs, ours = pair
    assert ours.tobytes("A") == theirs.tobytes("A")
    for name in ("mode", "offset", "shape", "strides", "dtype"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.filename == path
    assert str(ours.flags) == str(theirs.flags)
    if ours.flags.writeable:
        for array in pair:
            array[7, 11:400] = np.arange(389)
            array.flush()
        del array
    assert ours.tobytes("A") == theirs.tobytes("A")
    del theirs, ours, pair
    assert path.read_bytes() == other.read_bytes()


def test_without_a_shape_all_of_the_file_is_mapped(make, path):
    data = make(3 * MB)
    array = hugemap.memmap(path, dtype="u2", mode="r")
    assert array.shape == (3 * MB // 2,)
    assert array.tobytes() == data
    assert not array.flags.writeable
    with pytest.raises(ValueError):
        array[0] = 1


def test_stores_reach_the_file(path):
    array = hugemap.memmap(path, dtype="i4", mode="w+", shape=(1000, 1000))
    array[:] = np.arange(10**6).reshape(1000, 1000)
    array.flush()
    assert np.array_equal(np.fromfile(path, "i4"), np.arange(10**6))
    array[5, 5] = -1
    del array  # without a flush
    assert np.fromfile(path, "i4")[5005] == -1


def test_a_mapped_file_can_be_written_anew(path):
    """The old array still exists when the new one is made."""
    array = hugemap.memmap(path, dtype="u1", mode="w+", shape=(5 * MB,))
    array[:] = 7
    array = hugemap.memmap(path, dtype="u1", mode="w+", shape=(5 * MB,))
    assert not array.any()
    array[:] = 8
    array = hugemap.memmap(path, dtype="u1", mode="w+", shape=(MB,))
    assert not array.any()
    del array
    assert path.stat().st_size == MB


def test_a_file_grows_beside_an_appender(path, monkeypatch):
    path.write_bytes(bytes(4096))
    real = os.posix_fallocate

    def beaten(fd, offset, length):
        path.write_bytes(b"x" * 12288)
        real(fd, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", beaten)
    a = hugemap.memmap(path, mode="r+", shape=(8192,))
    assert path.read_bytes() == b"x" * 12288 and a.tobytes() == b"x" * 8192


def test_a_mapped_file_can_grow(make, path):
    make(MB + 5)
    short = hugemap.memmap(path, mode="r+")
    long = hugemap.memmap(path, mode="r+", shape=(6 * MB,))
    assert not long[MB + 5:].any()
    long[5 * MB] = 9
    short[3] = 10
    assert long[3] == 10
    del long, short
    assert path.stat().st_size == 6 * MB
    assert path.read_bytes()[5 * MB] == 9


def test_copy_on_write_does_not_change_the_file(make, path):
    data = make(5 * MB + 1)
    shared = hugemap.memmap(path, mode="r+")
    shared[100] = shared[100] ^ 255
    private = hugemap.memmap(path, mode="c")
    assert private[100] == shared[100], "the copy lacks an earlier store"
    private[3 * MB] = private[3 * MB] ^ 255
    assert shared[3 * MB] == data[3 * MB]
    shared[200] = 1
    private[200] = 2
    assert shared[200] == 1
    private.flush()
    del private, shared
    after = path.read_bytes()
    assert after[3 * MB] == data[3 * MB] and after[100] == data[100] ^ 255 and after[200] == 1


def test_copy_on_write_needs_no_right_to_write(make, path):
    make(MB)
    with open(path, "rb") as file:
        array = hugemap.memmap(file, mode="c")
    array[:] = 0
    assert any(path.read_bytes())


def test_views_are_memmaps_of_the_same_mapping(make, path):
    make(4 * MB)
    array = hugemap.memmap(path, dtype="f4", mode="r+", shape=(1024, 1024), offset=0)
    for view in (array[3:9], array.T, array.reshape(-1), array[::2, ::-3], array.view("u4"),
                 array[5]):
        assert type(view) is hugemap.memmap
        assert view._mmap is array._mmap
        assert (view.filename, view.mode, view.offset) == (path, "r+", 0)
    array[:] = 2
    for computed in (array + 1, array[[1, 2]], np.sort(array[0]), array.sum(axis=0),
                     array.view("u4") * 2):
        assert type(computed) is np.ndarray or computed._mmap is None
    assert type(array[3, 4]) is np.float32
    array[0] = 1
    for name in ("sum", "max", "mean", "prod", "argmax"):
        assert np.isscalar(getattr(np, name)(array[0]))
    copied = array.copy()
    assert copied._mmap is None and copied.filename is None and copied.stat() is None
    copied.flush()  # nothing to do, and no error
    array[7][:] = 1
    array[7:8].flush()
    assert np.fromfile(path, "f4").reshape(1024, 1024)[7].tolist() == [1] * 1024


def test_it_is_a_numpy_memmap(make, path):
    """Programs that look for numpy.memmap find its type and its attributes."""
    make(MB)
    array = hugemap.memmap(path, dtype="u4", mode="r+", offset=8, shape=(100, 50))
    assert isinstance(array, np.memmap)
    view = array[3:5, 7:]
    again = np.memmap(view.filename, view.dtype, view.mode, view.offset, array.shape)
    assert np.array_equal(again, array)
    again[0, 0] += 1
    assert array[0, 0] == again[0, 0]
    view.base.base.flush()  # as of an mmap.mmap


def test_it_can_replace_numpy_memmap(path, monkeypatch):
    monkeypatch.setattr(np, "memmap", hugemap.memmap)
    array = np.lib.format.open_memmap(path, "w+", "u2", (1000, 3))
    array[:] = 5
    array.flush()
    again = np.load(path, mmap_mode="r")
    assert type(again) is type(array) is hugemap.memmap
    assert again.shape == (1000, 3) and (again == 5).all() and again.stat().engine == "steer"


def test_joblib_hashes_and_passes_the_data(make, path):
    """It hashes the array as the data, and its processes get the data."""
    joblib = pytest.importorskip("joblib")
    make(3 * MB)
    array = hugemap.memmap(path, mode="r")
    plain = np.fromfile(path, "u1")
    assert joblib.hash(array, coerce_mmap=True) == joblib.hash(plain)
    views = [array, array[::2], array.reshape(3, MB).T, np.asarray(array)]
    sums = joblib.Parallel(n_jobs=2)(joblib.delayed(np.sum)(view) for view in views)
    assert sums == [view.sum() for view in views]


def test_a_view_keeps_the_mapping(make, path):
    data = make(3 * MB)
    view = hugemap.memmap(path, mode="r")[MB:]
    plain = np.asarray(view)
    del view
    assert plain.tobytes() == data[MB:]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_has_the_data(make, path, protocol):
    """As with numpy.memmap, a pickle has the data and does not refer to the file."""
    data = make(MB)
    array = hugemap.memmap(path, dtype="u4", mode="r")
    back = pickle.loads(pickle.dumps(array, protocol))
    theirs = pickle.loads(pickle.dumps(np.memmap(path, dtype="u4", mode="r"), protocol))
    assert type(back) is hugemap.memmap and type(theirs) is np.memmap
    assert back.tobytes() == data
    assert back._mmap is None is theirs._mmap and back.filename is None
    assert copy.deepcopy(array).tobytes() == data
    back[0] = 1
    assert path.read_bytes() == data


def test_the_file_name_is_that_of_numpy(make, path, monkeypatch):
    make(MB)
    monkeypatch.chdir(path.parent)
    assert hugemap.memmap("file", mode="r").filename == str(path)
    assert hugemap.memmap(pathlib.Path("file"), mode="r").filename == path
    with open("file", "rb") as file:
        assert hugemap.memmap(file, mode="r").filename == str(path)
    with open(os.open("file", os.O_RDWR), "r+b") as file:
        assert hugemap.memmap(file).filename is None
    with pytest.raises(io.UnsupportedOperation):
        hugemap.memmap(io.BytesIO(b"abcd"), mode="r")


def test_wrong_arguments_are_refused(make, path, tmp_path):
    data = make(MB)
    for error, arguments in [
        (ValueError, {"mode": "rw"}),
        (ValueError, {"mode": "w+"}),
        (ValueError, {"mode": "w+", "shape": -1}),
        (TypeError, {"mode": "w+", "shape": 2.5}),
        (TypeError, {"mode": "w+", "shape": 2, "dtype": "nonsense"}),
        (ValueError, {"mode": "w+", "shape": 2, "offset": -8}),
        (TypeError, {"mode": "w+", "shape": 2, "offset": 1.5}),
        (ValueError, {"mode": "r+", "offset": 5 * MB}),
        (ValueError, {"mode": "r", "shape": MB + 1}),
        (ValueError, {"mode": "c", "shape": MB + 1}),
        (ValueError, {"mode": "r", "offset": 5 * MB}),
        (ValueError, {"mode": "r", "offset": 5 * MB, "shape": 1}),
        (ValueError, {"mode": "r", "dtype": "u8", "offset": 3}),
    ]:
        with pytest.raises(error):
            hugemap.memmap(path, **arguments)
    assert path.read_bytes() == data
    with pytest.raises(FileNotFoundError):
        hugemap.memmap(tmp_path / "none", mode="r")
    with pytest.raises(IsADirectoryError):
        hugemap.memmap(tmp_path, mode="r")
    with open(path, "rb") as file:
        with pytest.raises(PermissionError):
            hugemap.memmap(file, mode="r+")
        with pytest.raises(io.UnsupportedOperation):
            hugemap.memmap(file, mode="r+", shape=2 * MB)


def test_system_calls_can_fill_an_array(make, path, tmp_path):
    """System calls write to pages that are not mapped yet."""
    data = make(8 * MB)
    array = hugemap.memmap(tmp_path / "to", mode="w+", shape=8 * MB)
    with open(path, "rb", buffering=0) as file:
        while (done := file.tell()) < 8 * MB:
            assert file.readinto(array[done:done + 3 * MB])
    assert array.tobytes() == data


def test_threads_can_fault_at_the_same_time(make, path):
    """Several threads fault, with and without the interpreter's lock."""
    data = np.frombuffer(make(48 * MB), "u8")
    array = hugemap.memmap(path, dtype="u8", mode="r+")
    wrong = []

    def work(number):
        for at in range(number, 48, 4):
            part = array[at * MB // 8:(at + 1) * MB // 8]
            if not np.array_equal(part, data[at * MB // 8:(at + 1) * MB // 8]):
                wrong.append(at)
            part += number

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    expected = data.reshape(48, -1) + (np.arange(48, dtype="u8") % 4)[:, None]
    assert np.array_equal(array.reshape(48, -1), expected)


def test_calls_on_views_concern_their_pages(make, path):
    make(16 * MB)
    array = hugemap.memmap(path, dtype="u4", mode="r", offset=12, shape=(3 * MB,))
    array.advise("random")
    array[MB:2 * MB].prefetch()
    assert array.stat().resident_bytes >= 4 * MB
    assert array.stat().engine == "steer"
    # It maps whole pages, at an address that suits huge pages.
    tail = hugemap.memmap(path, mode="r", offset=14 * MB - 1)
    assert tail.stat().mapped_bytes == 2 * MB + 4096
    assert tail._mmap.address % (2 * MB) == 2 * MB - 4096
    assert array[::-1]._span(array._mmap) == (12, 12 * MB)
    assert array[5:9]._span(array._mmap) == (12 + 20, 16)
    with pytest.raises(ValueError):
        array.advise("nonsense")


