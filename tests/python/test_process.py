# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""fork, multiprocessing, and programs that are started or end."""
import multiprocessing
import subprocess
import sys

import numpy as np

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


def test_parent_and_child_share_stores(path):
    """Parent and child see each other's stores."""
    array = hugemap.memmap(path, mode="w+", shape=SIZE)
    array[:] = 1
    here, there = FORK.Pipe()

    def work():
        assert (array == 1).all()
        array[7] = 2
        there.send("stored")
        there.recv()
        assert array[3 * MB] == 3
        assert array.stat().engine == "steer"
        array.flush()

    child = FORK.Process(target=work)
    child.start()
    assert here.poll(60) and here.recv() == "stored"
    assert array[7] == 2
    array[3 * MB] = 3
    here.send("go on")
    child.join(60)
    assert child.exitcode == 0
    array.flush()
    content = path.read_bytes()
    assert (content[7], content[3 * MB], content[-1]) == (2, 3, 1)


def test_a_child_can_map_the_file_again(path):
    """A mapping that a child makes shows the same bytes as the inherited one."""
    array = hugemap.memmap(path, mode="w+", shape=SIZE)

    def work():
        again = hugemap.memmap(path, mode="r+")
        again[5] = 6
        assert array[5] == 6
        array[4 * MB] = 7
        assert again[4 * MB] == 7

    in_child(work)
    assert (array[5], array[4 * MB]) == (6, 7)


def test_starting_a_program_keeps_the_mapping(make, path):
    """The mapping stays as it is in the parent."""
    make(SIZE)
    array = hugemap.memmap(path, mode="r+")
    array[0] = 9
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout == b"1\n"
    assert array.stat().engine == "steer"
    assert array[0] == 9


kept = []


def test_stores_of_a_child_that_calls_exit_are_kept(path):
    """multiprocessing ends its children by _exit(). The file has their stores."""
    path.write_bytes(bytes(SIZE))

    def work():
        kept.append(hugemap.memmap(path, mode="r+"))
        kept[0][:] = 5

    in_child(work)
    assert path.read_bytes() == b"\5" * SIZE


def square(at):
    array = hugemap.memmap(square.path, dtype="i8", mode="r")
    return int(array[at]) ** 2


def test_a_pool_of_processes_can_use_an_array(path):
    np.arange(MB, dtype="i8").tofile(path)
    square.path = str(path)
    with FORK.Pool(2) as workers:
        assert workers.map(square, range(0, MB, 99999)) == [n * n for n in range(0, MB, 99999)]


KILLED = """
import os, signal, sys
import hugemap
array = hugemap.memmap(sys.argv[1], mode="r+")
array[:2 << 20] = 3
array.flush()
array[2 << 20:3 << 20] = 4
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_stores_of_a_killed_program_are_kept(path):
    """The file has all stores of a program that was killed."""
    path.write_bytes(bytes(4 * MB))
    subprocess.run([sys.executable, "-c", KILLED, path])
    assert path.read_bytes() == b"\3" * (2 * MB) + b"\4" * MB + bytes(MB)


def test_a_child_can_close_the_mapping_of_its_parent(make, path):
    data = make(SIZE)
    with open(path, "r+b") as file:
        m = hugemap.map(file, mode="r+")

    def work():
        m[0] = 1
        m.sync()
        m.close()

    in_child(work)
    assert m[:] == b"\1" + data[1:] == path.read_bytes()
    m.close()


def test_a_program_can_end_with_open_mappings(path):
    """Mappings, arrays and tensors still exist."""
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
