# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""fork, multiprocessing and programs that are started."""
import errno
import multiprocessing
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import hugemap

MB = 1 << 20
SIZE = 5 * MB + 7
FORK = multiprocessing.get_context("fork")


def in_child(work, *args):
    """Run in a forked child, while the parent waits for it."""
    child = FORK.Process(target=work, args=args)
    child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0


def test_fork_with_an_array_to_write(path):
    """Both see each other's stores, at once; the kernel serves both from then on."""
    array = hugemap.memmap(path, mode="w+", shape=SIZE)
    array[:] = 1
    here, there = FORK.Pipe()

    def work():
        assert (array == 1).all()
        array[7] = 2
        there.send("stored")
        there.recv()
        assert array[3 * MB] == 3
        assert array.stat().engine == "mmap"
        array.flush()

    child = FORK.Process(target=work)
    child.start()
    assert here.poll(60) and here.recv() == "stored"
    assert array[7] == 2
    array[3 * MB] = 3
    here.send("go on")
    child.join(60)
    assert child.exitcode == 0
    assert array.stat().engine == "mmap"
    del array
    content = path.read_bytes()
    assert (content[7], content[3 * MB], content[-1]) == (2, 3, 1)


def test_fork_with_an_array_to_read(engine, make, path):
    """The child reads the same; the parent loses nothing."""
    data = make(SIZE)
    array = hugemap.memmap(path, mode="r")
    assert array[0] == data[0]

    def work():
        assert array.tobytes() == data
        assert array.stat().engine == "mmap"

    in_child(work)
    assert array.stat().engine == "user"
    assert array.tobytes() == data


def test_fork_and_map_again(path):
    """What a child maps anew is the same bytes as what it has from its parent."""
    array = hugemap.memmap(path, mode="w+", shape=SIZE)

    def work():
        with hugemap.defaults(pool=small_pool()):
            again = hugemap.memmap(path, mode="r+")
            again[5] = 6
            assert array[5] == 6
            array[4 * MB] = 7
            assert again[4 * MB] == 7

    in_child(work)
    assert (array[5], array[4 * MB]) == (6, 7)
    again = hugemap.memmap(path, mode="r+")
    array[6] = 8
    assert again[6] == 8


def small_pool(size=8 * MB):
    try:
        return hugemap.Pool(size)
    except OSError:
        return None


def test_the_pool_of_a_parent(engine, make, path):
    """A child is not given it by default, and an order for it is refused."""
    data = make(SIZE)

    def work():
        with open(path, "rb") as file:
            try:
                hugemap.map(file, pool=engine)
                raise AssertionError("a pool without threads was taken")
            except OSError as error:
                assert error.errno == errno.EINVAL
            with hugemap.Pool(8 * MB) as own, hugemap.map(file, pool=own) as m:
                assert m[:] == data
                assert m.stat().engine == "user"
            with hugemap.map(file, engine="mmap") as m:
                assert m[:] == data

    in_child(work)


def test_not_for_children(engine, make, path):
    """With nofork the parent keeps the engine, and a child does not crash."""
    data = make(SIZE)
    with open(path, "r+b") as file:
        m = hugemap.map(file, mode="r+", nofork=True)
    m[0] = 1

    def work():
        for call in (lambda: m[0], lambda: memoryview(m), m.sync, m.stat):
            with pytest.raises(ValueError):
                call()
        m.close()

    in_child(work)
    assert m.stat().engine == "user"
    assert m[:] == b"\1" + data[1:]
    m.close()


def test_starting_a_program(engine, make, path):
    """subprocess does not fork as far as mappings are concerned."""
    make(SIZE)
    array = hugemap.memmap(path, mode="r+")
    array[0] = 9
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout == b"1\n"
    assert array.stat().engine == "user"
    assert array[0] == 9


kept = []


def test_a_child_that_does_not_clean_up(path):
    """multiprocessing ends its children by _exit(); a parent that has joined one
    sees what it stored, though the array is still there."""
    size = 40 * MB
    path.write_bytes(bytes(size))

    def work():
        with hugemap.defaults(pool=small_pool(64 * MB)):
            kept.append(hugemap.memmap(path, mode="r+"))
        for block in range(20):  # all over the place: nothing is written behind it
            kept[0][block * 7 % 20 * 2 * MB] = 5

    child = FORK.Process(target=work)
    child.start()
    child.join()  # a timeout would make it wait for the keeper, too
    assert child.exitcode == 0
    with open(path, "rb", buffering=0) as file:
        for at in range(size - 2 * MB, -1, -2 * MB):
            assert os.pread(file.fileno(), 1, at) == b"\5"


def square(at):
    array = hugemap.memmap(square.path, dtype="i8", mode="r")
    return int(array[at]) ** 2


def test_a_pool_of_processes(path):
    np.arange(MB, dtype="i8").tofile(path)
    square.path = str(path)
    with hugemap.defaults(engine="mmap"), FORK.Pool(2) as workers:
        assert workers.map(square, range(0, MB, 99999)) == [n * n for n in range(0, MB, 99999)]


KILLED = """
import sys
import hugemap
hugemap.defaults(pool=hugemap.Pool(8 << 20))
array = hugemap.memmap(sys.argv[1], mode="r+")
array[:] = 3
print("stored", flush=True)
sys.stdin.read()
"""


def test_killed(engine, path):
    """What was stored by a program that is killed is written by the keeper."""
    path.write_bytes(bytes(SIZE))
    with subprocess.Popen([sys.executable, "-c", KILLED, path], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"stored\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
        # The keeper holds the pipes as long as it works.
        assert child.stdout.read() == b""
    assert path.read_bytes() == b"\3" * SIZE


def test_a_program_that_ends_as_usual(path):
    """With mappings, pools and tensors of every kind still alive."""
    done = subprocess.run([sys.executable, "-c", """if 1:
        import sys
        import hugemap, numpy
        a = hugemap.memmap(sys.argv[1], mode="w+", shape=3 << 20)
        a[:] = 4
        m = hugemap.map(open(sys.argv[1], "r+b"), mode="r+")
        t = numpy.from_dlpack(m)
        c = m.__dlpack__()
        sys.kept = [a, m, t, c]
        """, path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_bytes() == b"\4" * (3 * MB)
