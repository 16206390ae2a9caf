# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""install() and steered(): mappings that other libraries make.

Each program runs in a process of its own. It reads in the reports of the monitor threads which
mappings are steered: see steer/page.h.
"""
import glob
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
RUN_LIBRARY = os.path.join(os.environ.get("BUILD_ROOT", HERE.parent.parent / "build"),
                           "libhugemap-run.so")
PROGRAMS = os.path.expanduser("~/.cache/hugemap/programs/bin/python")
COMMON = """
import ctypes, glob, mmap, os, struct, subprocess, sys, time
path = sys.argv[1]
SIZE = 64 << 20

def read(name):
    "The bytes of a file; none if the thread has ended"
    try:
        return open(name, "rb").read()
    except OSError:
        return b""

def is_report(link):
    try:
        return "hugemap-steer" in os.readlink(link)
    except OSError:
        return False

def monitors():
    return [name.rsplit("/", 1)[0] for name in glob.glob("/proc/self/task/*/comm")
            if read(name) == b"hugemap\\n"]

def alone():
    "The thread is there, perhaps without a name yet, when mmap() returns"
    return len(os.listdir("/proc/self/task")) == 1

def steered(name=path):
    "(pattern, address) of each steered mapping of the file, in all monitors"
    found = []
    for monitor in monitors():
        for link in filter(is_report, glob.glob(monitor + "/fd/*")):
            page = read(link)
            for at in range(72, len(page) - 431, 432):
                id, start = struct.unpack_from("2Q", page, at)
                ended, _, _, pattern = struct.unpack_from("4I", page, at + 32)
                end = page[at + 152:at + 312].split(b"\\0")[0]
                if id and not ended and end.endswith(os.path.basename(name).encode()):
                    found.append((pattern, start))
    return found

def is_steered(name=path):
    return len(steered(name)) == 1

def wait(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)

def map_it(name=path):
    with open(name, "rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

def flags(address):
    "The flags of the area that begins at an address"
    areas = open("/proc/self/smaps").read().split("\\n%x-" % address)
    return areas[1].split("VmFlags:")[1].split("\\n")[0].split()

def settle():
    "Wait until the monitor has taken the reports of all mappings up to now"
    other = path + "-settle"
    open(other, "wb").truncate(SIZE)
    try:
        with hugemap.steered():
            mapping = map_it(other)
            wait(lambda: is_steered(other))
            mapping.close()
    finally:
        os.unlink(other)

class Mapper:
    "The functions of tests/python/mapper.c"
    def __init__(self, name):
        self.library = ctypes.CDLL(name)
    def __getattr__(self, name):
        function = self.library["mapper_" + name]
        function.restype = ctypes.c_void_p
        return function
    def map(self, name=path, function="map"):
        return self.__getattr__(function)(name.encode(), ctypes.c_size_t(SIZE))
    def unmap(self, at):
        assert not self.__getattr__("unmap")(ctypes.c_void_p(at), ctypes.c_size_t(SIZE))

import hugemap
assert alone()
"""


def run(program, path, *args, python=sys.executable, **env):
    done = subprocess.run([python, "-c", COMMON + program, path, *args], capture_output=True,
                          text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **env})
    assert done.returncode == 0, done.stderr


def build(place, name, *options):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", *options, "-o", place / name,
                    HERE / "mapper.c"], check=True)
    return str(place / name)


LINKS = {
    "relro": ["-Wl,-z,relro,-z,now"],
    "lazy": ["-Wl,-z,lazy,-z,norelro"],
    "lazy_relro": ["-Wl,-z,lazy,-z,relro"],
    "no_plt": ["-fno-plt", "-Wl,-z,relro,-z,now"],
    "sysv_hash": ["-Wl,--hash-style=sysv"],
}


@pytest.fixture(params=LINKS)
def mapper(request, tmp_path):
    """The name of a library that maps files."""
    return build(tmp_path, "mapper.so", *LINKS[request.param])


@pytest.fixture
def large(path):
    """The name of a file that is large enough."""
    with open(path, "wb") as file:
        file.truncate(64 << 20)
    return str(path)


@pytest.fixture
def library(tmp_path):
    return build(tmp_path, "mapper.so")


def test_install_steers_mappings_of_the_mmap_module(large):
    run("""
assert hugemap.install() is None
assert alone()
mapping = map_it()
wait(is_steered)
mapping.close()
wait(lambda: not is_steered())
""", large)


def test_install_steers_a_memmap_of_numpy_that_is_imported_later(large):
    run("""
hugemap.install()
assert "numpy" not in sys.modules
import numpy
array = numpy.memmap(path, mode="r")
wait(is_steered)
""", large)


def test_install_steers_functions_that_ctypes_looks_up(large):
    run("""
hugemap.install()
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
with open(path, "rb") as file:
    at = libc.mmap(None, ctypes.c_size_t(SIZE), 1, 1, file.fileno(), 0)
wait(is_steered)
assert not libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(SIZE))
wait(lambda: not is_steered())
""", large)


@pytest.mark.parametrize("function", ["map", "map_by_table"])
def test_install_steers_a_library_that_is_loaded_later(large, mapper, function):
    run("""
hugemap.install()
library = Mapper(sys.argv[2])
at = library.map(path, sys.argv[3])
wait(is_steered)
library.unmap(at)
wait(lambda: not is_steered())
""", large, mapper, function)


@pytest.mark.parametrize("used", ["used", "new"])
def test_install_steers_a_library_that_is_loaded_before(large, mapper, used):
    run("""
ctypes.CDLL(None).dlopen(sys.argv[2].encode(), 1)  # RTLD_LAZY: ctypes binds all pointers at once
library = Mapper(sys.argv[2])
if sys.argv[3] == "used":
    library.unmap(library.map())
hugemap.install()
at = library.map()
wait(is_steered)
library.unmap(at)
wait(lambda: not is_steered())
""", large, mapper, used)


def test_install_steers_a_library_after_another_one_was_unloaded(large, library):
    run("""
import _ctypes
copy = path + ".so"
open(copy, "wb").write(open(sys.argv[2], "rb").read())
try:
    handle = _ctypes.dlopen(copy, 0)
    hugemap.install()
    _ctypes.dlclose(handle)
    at = Mapper(sys.argv[2]).map()
    wait(is_steered)
finally:
    os.unlink(copy)
""", large, library)


def test_other_memory_at_the_place_of_a_mapping_gets_no_advice(large, library):
    run("""
hugemap.install()
library = Mapper(sys.argv[2])
at = library.map()
wait(is_steered)
library.unmap(at)
wait(lambda: not steered())
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
assert libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(SIZE), 3, 0x32, -1, 0) == at
assert not {"rr", "sr", "hg", "nh"} & set(flags(at))
""", large, library)


def test_advice_of_the_program_is_left_in_force(large, library):
    run("""
hugemap.install()
library = Mapper(sys.argv[2])
at = library.map()
wait(is_steered)
assert not library.advise(ctypes.c_void_p(at), ctypes.c_size_t(SIZE), 1)
wait(lambda: steered()[0][0] == 7)
assert "rr" in flags(at)
""", large, library)


def test_a_steered_mapping_can_be_moved(large, library):
    run("""
hugemap.install()
os.truncate(path, 4 * SIZE)
library = Mapper(sys.argv[2])
at = library.map()
wait(is_steered)
moved = library.remap(ctypes.c_void_p(at), ctypes.c_size_t(SIZE), ctypes.c_size_t(4 * SIZE))
assert moved != ctypes.c_void_p(-1).value
wait(lambda: [start for _, start in steered("")] == [moved])  # without a name since the move
""", large, library)


# --- mappings that exist

def test_install_steers_mappings_that_exist(large):
    run("""
other = path + "-2"
open(other, "wb").truncate(SIZE)
try:
    hinted, plain = map_it(), map_it(other)
    hinted.madvise(mmap.MADV_RANDOM)
    hugemap.install()
    wait(lambda: is_steered(other))
    assert not steered()
    plain.close()
    wait(lambda: not monitors())
finally:
    os.unlink(other)
""", large)


def test_a_second_install_changes_nothing(large):
    run("""
mapping = map_it()
hugemap.install()
wait(is_steered)
hugemap._install._adopt = None  # it is not called
hugemap.install()
again = map_it()
wait(lambda: len(steered()) == 2)
assert len(monitors()) == 1
""", large)


# --- hugemap.memmap

def test_a_memmap_is_steered_once(large):
    run("""
before = hugemap.memmap(path, mode="r")
wait(is_steered)
hugemap.install()
wait(is_steered)
assert len(monitors()) == 1
after = hugemap.memmap(path, mode="r")
wait(lambda: len(steered()) == 2)
assert len(monitors()) == 1 and before.stat().pattern == "unknown"
at = before.ctypes.data
del before
wait(lambda: at not in [start for _, start in steered()] and is_steered())
del after
wait(lambda: not monitors())
""", large)


def test_advice_for_a_memmap_is_left_in_force(large):
    run("""
hugemap.install()
array = hugemap.memmap(path, mode="r")
wait(is_steered)
array.advise("random")
wait(lambda: array.stat().pattern == "hinted")
""", large)


# --- calls before which the monitor must end

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="it needs root")


@AS_ROOT
def test_no_thread_keeps_the_user_after_setuid(large):
    run("""
hugemap.install()
mapping = map_it()
wait(is_steered)
os.setuid(65534)
for name in glob.glob("/proc/self/task/*/status"):
    assert "Uid:\\t65534\\t65534\\t65534" in open(name).read(), name
""", large)


@AS_ROOT
def test_a_process_with_a_monitor_can_unshare(large):
    run("""
hugemap.install()
mapping = map_it()
wait(is_steered)
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.unshare(0x10000000), ctypes.get_errno()
""", large)


@pytest.mark.parametrize("function", ["prctl", "syscall"])
def test_a_process_that_limits_itself_has_no_monitor(large, function):
    run("""
hugemap.install()
mapping = map_it()
wait(is_steered)
libc = ctypes.CDLL(None)
number = 157 if os.uname().machine == "x86_64" else 167
call = {"prctl": [38], "syscall": [number, 38]}[sys.argv[2]]
assert not getattr(libc, sys.argv[2])(*call, 1, 0, 0, 0)
assert alone()
again = map_it()
assert alone()
""", large, function)


# --- processes

def test_children_of_fork_steer_their_mappings(large, library):
    run("""
import multiprocessing

def work(queue):
    at = Mapper(sys.argv[2]).map()
    wait(is_steered)
    queue.put(len(monitors()))

hugemap.install()
mapping = map_it()
wait(is_steered)
context = multiprocessing.get_context("fork")
queue = context.Queue()
child = context.Process(target=work, args=(queue,))
child.start()
assert queue.get(timeout=60) == 1
child.join()
assert child.exitcode == 0 and is_steered()
""", large, library)


@AS_ROOT
def test_preexec_fn_may_unshare(large):
    run("""
hugemap.install()
mapping = map_it()
wait(is_steered)
libc = ctypes.CDLL(None)
def unshare():
    assert not libc.unshare(0x10000000)
assert subprocess.run(["true"], preexec_fn=unshare).returncode == 0
assert is_steered()
""", large)


def test_other_programs_are_plain(large):
    run("""
hugemap.install()
mapping = map_it()
for how in {}, {"close_fds": False}:
    assert "libhugemap" not in subprocess.run(["cat", "/proc/self/maps"], stdout=subprocess.PIPE,
                                              text=True, check=True, **how).stdout
assert os.system("exit 3") >> 8 == 3
""", large)


# --- other libraries that replace functions

def test_rtld_next_is_the_same_as_without(large, library):
    run("""
library = Mapper(sys.argv[2])
names = b"mmap", b"dlsym", b"mapper_map", b"hugemap_run_page"
before = [library.next(name) for name in names]
others = [library.function(name) for name in names[2:]]
plain = library.function(b"mmap")
hugemap.install()
assert before == [library.next(name) for name in names]
assert others == [library.function(name) for name in names[2:]]
assert before[0] and before[1] and not before[2] and others[0]
assert library.function(b"mmap") != plain
""", large, library)


def test_install_refuses_if_another_library_replaces_a_function(large, tmp_path):
    other = tmp_path / "other.c"
    other.write_text("int munmap(void *at, unsigned long n);\n#include <unistd.h>\n"
                     "#include <sys/syscall.h>\n"
                     "int munmap(void *at, unsigned long n) { return syscall(SYS_munmap, at, n); }")
    subprocess.run(["cc", "-fPIC", "-shared", "-o", tmp_path / "other.so", other], check=True)
    run("""
try:
    hugemap.install()
except OSError as error:
    assert error.errno == 16 and "/other.so: munmap()" in str(error), error
else:
    raise AssertionError
mapping = map_it()
assert alone()
mapping.close()
""", large, LD_PRELOAD=str(tmp_path / "other.so"))


def test_a_pointer_that_another_library_has_set_is_left_alone(large, library):
    """As UCX does, a library overwrites the pointer of another one."""
    run("""
import re
library = Mapper(sys.argv[2])
name = os.path.realpath(sys.argv[2])
base = next(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if name in line)
table = subprocess.run(["readelf", "-rW", name], capture_output=True, text=True).stdout
offset = int(re.search(r"(?m)^([0-9a-f]+) .*(?:JUMP|GLOB).* munmap", table)[1], 16)
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
def replacement(at, length):
    return 7
slot = ctypes.c_void_p.from_address(base + offset)
slot.value = ctypes.cast(replacement, ctypes.c_void_p).value
hugemap.install()
assert library.library.mapper_unmap(None, 0) == 7
""", large, build(pathlib.Path(library).parent, "norelro.so", "-Wl,-z,norelro"))


# --- contexts

def test_a_context_ends(large):
    run("""
with hugemap.steered():
    with hugemap.steered():
        pass
    inside = map_it()
    wait(is_steered)
assert is_steered()
outside = map_it()
settle()
assert len(steered()) == 1
inside.close()
wait(lambda: not monitors())
""", large)


def test_a_context_that_raises_ends(large):
    run("""
try:
    with hugemap.steered():
        raise ValueError
except ValueError:
    pass
mapping = map_it()
assert alone()
""", large)


def test_contexts_of_threads_are_counted(large):
    run("""
import threading
inside, over = threading.Event(), threading.Event()
def work():
    with hugemap.steered():
        inside.set()
        over.wait()
thread = threading.Thread(target=work)
thread.start()
inside.wait()
with hugemap.steered():
    pass
mapping = map_it()
wait(is_steered)
over.set()
thread.join()
again = map_it()
settle()
assert len(steered()) == 1
""", large)


def test_install_outlives_a_context(large):
    run("""
with hugemap.steered():
    hugemap.install()
mapping = map_it()
wait(is_steered)
""", large)


# --- settings

def test_both_do_nothing_under_hugemap_run(large):
    run("""
hugemap.install()
with hugemap.steered():
    inside = map_it()
mapping = map_it()
wait(lambda: len(steered()) == 2)
assert len(monitors()) == 1
assert open("/proc/self/maps").read().count("r-xp") and "site/hugemap/libhugemap" not in \\
    open("/proc/self/maps").read()
""", large, LD_PRELOAD=RUN_LIBRARY)


def test_the_environment_of_hugemap_run_counts(large):
    run("""
hugemap.install()
mapping = map_it()
assert alone()
""", large, HUGEMAP_RUN_OFF="1")
    run("""
mapping = map_it()
hugemap.install()
again = map_it()
assert alone()
""", large, HUGEMAP_RUN_MIN_SIZE="65M")
    run("""
mapping = map_it()
hugemap.install()
again = map_it()
assert alone()
""", large, HUGEMAP_RUN_EXCLUDE=os.path.basename(large))


def test_numpy_is_not_needed(large):
    run("""
sys.modules["numpy"] = None
hugemap.install()
mapping = map_it()
wait(is_steered)
with open(path, "rb") as file, hugemap.map(file) as m:
    assert m[:1] == b"\\0"
try:
    hugemap.memmap
except ImportError:
    pass
else:
    raise AssertionError
""", large)


LIBRARIES = {
    "pyarrow": """
import pyarrow
mapping = pyarrow.memory_map(path)
wait(is_steered)
""",
    "polars": """
import polars
import threading
polars.DataFrame({"a": range(1 << 22)}).write_ipc(path)
found = threading.Event()
def scan():
    while not found.is_set():
        assert polars.scan_ipc(path).sum().collect()["a"][0] == sum(range(1 << 22))
reader = threading.Thread(target=scan)
reader.start()
try:
    wait(is_steered)
finally:
    found.set()
    reader.join()
""",
    "safetensors": """
import numpy
from safetensors import numpy as tensors, safe_open
tensors.save_file({"w": numpy.zeros((1 << 22,), "f8")}, path)
file = safe_open(path, "numpy")
wait(is_steered)
""",
    "gguf": """
import gguf, numpy
writer = gguf.GGUFWriter(path, "llama")
writer.add_tensor("w", numpy.zeros((1 << 12, 1 << 12), "f4"))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
reader = gguf.GGUFReader(path)
wait(is_steered)
""",
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_install_steers_the_mappings_of(large, library):
    """The library is imported before, and after install()."""
    if not glob.glob(f"{os.path.dirname(PROGRAMS)}/../lib/python*/site-packages/{library}"):
        pytest.skip(f"{library} is not in ~/.cache/hugemap/programs: make programs")
    install = "hugemap.install()\n"
    run(install + LIBRARIES[library], large, python=PROGRAMS)
    imports, rest = LIBRARIES[library].strip().split("\n", 1)
    run(f"{imports}\n{install}\n{rest}", large, python=PROGRAMS)
