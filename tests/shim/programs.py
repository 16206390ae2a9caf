#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Real programs, unmodified, under `hugemap run`: programs.py [--dir DIR] [NAME ...]

Each program runs plain and under `hugemap run`, in turns, on files that the page
cache does not hold at the start. What it prints and what is in its files must be
the same. Prints a table: medians of the time, of the ratio of the times of a turn, and
of the page faults, and what was advised; of programs that write, also the
ratio of the times until what they have written is on the disk. Exit status 1 if anything differed. What is not installed is
skipped, and said; tools/install-deps.sh programs installs what Debian has, and
--python names an interpreter that has lmdb, numpy and faiss.

    make programs
"""
import argparse
import collections
import contextlib
import hashlib
import mmap
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TURNS = 3
MB = 1 << 20
PATTERN = re.compile(r"^    (stream|streams|backward|strided|chunks|random|hinted|unknown) ", re.M)
ADVICE = re.compile(r"^      advised: ([^;\n]*)", re.M)

WARM = 1024 * MB
MADV_POPULATE_WRITE = 23

Result = collections.namedtuple("Result", "seconds synced faults output digest advice")


class Skip(Exception):
    pass


class Different(Exception):
    pass


def need(name):
    path = shutil.which(name)
    if not path:
        raise Skip(f"{name} is not installed")
    return path


def digest(paths):
    total = hashlib.sha256()
    for path in sorted(paths):
        with open(path, "rb") as file:
            while chunk := file.read(4 * MB):
                total.update(chunk)
    return total.hexdigest()


def sync(directory, forget=False):
    """To the disk, and out of the page cache, file by file."""
    for top, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(top, name), "rb") as file:
                os.fsync(file.fileno())
                if forget:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm_memory():
    """
    Memory that a virtual machine has not used for seconds may be the host's: whoever
    touches it first waits for that. Both sides find as much as they use warm.
    """
    with mmap.mmap(-1, WARM) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def make_data(path, size, seed=1):
    source = random.Random(seed)
    with open(path, "wb") as file:
        for _ in range(size // MB):
            file.write(source.randbytes(MB))


class MemoryGroup:
    """A memory control group of some bytes, for one run. Page cache counts, too."""

    def __init__(self, limit):
        self.limit = limit

    def __enter__(self):
        with open("/proc/self/cgroup") as file:
            lines = [line.strip().split(":", 2) for line in file]
        above = [("/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes")
                 for _, names, path in lines if "memory" in names.split(",")]
        above += [("/sys/fs/cgroup" + path, "memory.max") for _, names, path in lines if not names]
        for top, name in above:
            self.path = os.path.join(top, f"hugemap-programs.{os.getpid()}")
            try:
                os.mkdir(self.path)
                with open(os.path.join(self.path, name), "w") as file:
                    file.write(str(self.limit))
                return self
            except OSError:
                if os.path.isdir(self.path):
                    os.rmdir(self.path)
        raise Skip("no memory control group can be made here")

    def join(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write("0")

    def __exit__(self, *_):
        for _ in range(100):  # the last process leaves it a moment after its end
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)


class Program:
    """What a test of a program has: files are made anew for each run."""
    text = True  # what it prints must be the same
    options = []
    memory = None  # of the program and its page cache; None: no limit
    only_reads = False  # its files can be used for all turns

    def __init__(self, directory, python):
        self.dir = directory
        self.python = python

    def path(self, name):
        return os.path.join(self.dir, name)

    def prepare(self):
        pass

    def command(self):
        raise NotImplementedError

    def files(self):
        return []

    def clean(self, output):
        return output


class Fio(Program):
    text = False
    kind = "read"
    only_reads = True
    more = []
    size = 256 * MB

    def prepare(self):
        need("fio")
        make_data(self.path("data"), self.size)

    def command(self):
        return ["fio", "--name=job", "--ioengine=mmap", f"--rw={self.kind}", f"--size={self.size}",
                f"--filename={self.path('data')}", "--randseed=7", "--bs=64k", "--invalidate=0",
                "--thread", "--fallocate=none", "--overwrite=1", *self.more]

    def files(self):
        return [self.path("data")] if "write" in self.kind else []


class FioRandread(Fio):
    kind = "randread"
    more = ["--bs=4k", "--io_size=64M"]


class FioWrite(Fio):
    kind = "write"
    only_reads = False
    more = ["--buffer_pattern=0x5a"]


class FioRandwrite(Fio):
    kind = "randwrite"
    only_reads = False
    more = ["--bs=4k", "--io_size=64M", "--buffer_pattern=0x5a"]


class FioVerify(Fio):
    kind = "randwrite"
    only_reads = False
    more = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"]

    def files(self):
        return []  # verified by itself; blocks hold the time


class FioReadLarge(Fio):
    """Four times as much as there is memory for."""
    size = 1024 * MB
    memory = 256 * MB


class FioRandreadLarge(FioReadLarge):
    kind = "randread"
    more = ["--bs=4k", "--io_size=32M"]


class FioWriteLarge(FioReadLarge):
    kind = "write"
    only_reads = False
    more = ["--buffer_pattern=0x5a"]


class Python(Program):
    modules = []
    script = ""

    def prepare(self):
        test = subprocess.run([self.python, "-c", "import " + ", ".join(self.modules)],
                              capture_output=True)
        if test.returncode:
            raise Skip(f"{self.python} has no {', '.join(self.modules)}")

    def command(self):
        return [self.python, "-c", self.script, self.path("data")]


class Lmdb(Python):
    modules = ["lmdb"]
    writemap = False
    script = """
import lmdb, sys, hashlib, random
env = lmdb.open(sys.argv[1], map_size=256 << 20, subdir=False, sync=False, writemap=%s)
r = random.Random(3)
for part in range(20):
    with env.begin(write=True) as txn:
        for i in range(1000):
            txn.put(b"%%08d" %% r.randrange(10**7), r.randbytes(1500))
h = hashlib.sha256()
for _ in range(3):
    with env.begin() as txn:
        for k, v in txn.cursor():
            h.update(k); h.update(v)
print(h.hexdigest(), env.stat()["entries"])
env.sync(True)
env.close()
"""

    def prepare(self):
        super().prepare()
        self.script = Lmdb.script % self.writemap

    def files(self):
        return [self.path("data")] if not self.writemap else []


class LmdbWritemap(Lmdb):
    writemap = True


class Sqlite(Program):
    def prepare(self):
        need("sqlite3")
        subprocess.run(["sqlite3", self.path("data")], check=True, text=True, input="""
create table t(a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
insert into t select i, hex(i * 2654435761) || printf('%0500d', i), (i * 7919) % 1000 from n;
""", stdout=subprocess.DEVNULL)

    def command(self):
        return ["sqlite3", self.path("data"),
                "pragma mmap_size=1073741824; select count(*), sum(c), sum(length(b)) from t;"
                "update t set c = c + 1 where a % 1000 = 0; select sum(c) from t;"
                "select count(*) from t where b like '%777%'; pragma integrity_check;"]

    def files(self):
        return [self.path("data")]


class RocksDb(Program):
    only_reads = True
    num = 300000
    reads = 100000

    def prepare(self):
        need("db_bench")
        os.mkdir(self.path("db"))
        subprocess.run(["db_bench", f"--db={self.path('db')}", "--benchmarks=fillseq,compact",
                        f"--num={self.num}", "--value_size=800", "--compression_type=none",
                        "--seed=3"], check=True, capture_output=True)

    def command(self):
        return ["db_bench", f"--db={self.path('db')}", "--benchmarks=readseq,readrandom",
                "--use_existing_db=1", "--mmap_read=1", f"--num={self.num}",
                f"--reads={self.reads}", "--compression_type=none", "--value_size=800",
                "--seed=3", "--verify_checksum=1"]

    def clean(self, output):
        return re.findall(r"\((\d+ of \d+) found\)", output)


class RocksDbLarge(RocksDb):
    num = 900000
    reads = 10000
    memory = 320 * MB


class StressNg(Program):
    text = False
    stressor = ""
    more = []

    def prepare(self):
        need("stress-ng")

    def command(self):
        return ["stress-ng", f"--{self.stressor}", "1", "--verify", "--temp-path", self.dir,
                "--timeout", "100", *self.more]


class StressMmap(StressNg):
    """One operation is a minute's work with more than this."""
    stressor = "mmap"
    more = ["--mmap-file", "--mmap-bytes", "8M", "--mmap-ops", "1"]
    options = ["--min-size", "1M"]


class StressMsync(StressNg):
    stressor = "msync"
    more = ["--msync-bytes", "64M", "--msync-ops", "500"]


class StressMremap(StressNg):
    stressor = "mremap"
    more = ["--mremap-bytes", "64M", "--mremap-ops", "4"]


class Faiss(Python):
    modules = ["faiss", "numpy"]
    only_reads = True
    script = """
import faiss, numpy, sys, hashlib
index = faiss.read_index(sys.argv[1], faiss.IO_FLAG_MMAP)
index.nprobe = 64
queries = numpy.random.default_rng(5).random((200, 64), dtype=numpy.float32)
faiss.omp_set_num_threads(1)
d, i = index.search(queries, 10)
print(hashlib.sha256(d.tobytes() + i.tobytes()).hexdigest())
"""

    def prepare(self):
        super().prepare()
        subprocess.run([self.python, "-c", """
import faiss, numpy, sys
r = numpy.random.default_rng(4)
data = r.random((300000, 64), dtype=numpy.float32)
index = faiss.index_factory(64, "IVF256,Flat")
index.train(data[:20000])
index.add(data)
faiss.write_index(index, sys.argv[1])
""", self.path("data")], check=True)


class Grep(Program):
    name = "grep"
    only_reads = True

    def prepare(self):
        need(self.name)
        source = random.Random(6)
        with open(self.path("data"), "w") as file:
            for _ in range(128):
                file.write("\n".join("%x" % source.getrandbits(400) for _ in range(10000)) + "\n")

    def command(self):
        return ["grep", "-cE", "dead|beef", self.path("data")]


class Ripgrep(Grep):
    name = "rg"

    def command(self):
        return ["rg", "--mmap", "--no-config", "-c", "dead|beef", self.path("data")]


class Java(Program):
    source = """
import java.io.*; import java.nio.*; import java.nio.channels.*; import java.util.zip.*;
public class Mapped {
    public static void main(String[] args) throws Exception {
        try (RandomAccessFile file = new RandomAccessFile(args[0], "rw")) {
            FileChannel channel = file.getChannel();
            MappedByteBuffer map = channel.map(FileChannel.MapMode.READ_WRITE, 0, file.length());
            CRC32 sum = new CRC32();
            for (int at = 0; at + 8 <= map.limit(); at += 4096)
                map.putLong(at, map.getLong(at) ^ at);
            channel.write(ByteBuffer.wrap("written".getBytes()), 12345);
            sum.update(map.duplicate());
            map.force();
            System.out.println(sum.getValue() + " " + (char) map.get(12345));
        }
    }
}
"""

    def prepare(self):
        need("javac")
        make_data(self.path("data"), 128 * MB)
        with open(self.path("Mapped.java"), "w") as file:
            file.write(self.source)
        subprocess.run(["javac", "-d", self.dir, self.path("Mapped.java")], check=True)

    def command(self):
        return ["java", "-Xmx128m", "-cp", self.dir, "Mapped", self.path("data")]

    def files(self):
        return [self.path("data")]


class Rust(Program):
    source = """
use memmap2::{Mmap, MmapMut};
use std::fs::OpenOptions;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut map = unsafe { MmapMut::map_mut(&file).unwrap() };
    for at in (0..map.len()).step_by(4096) { map[at] = map[at].wrapping_add((at >> 12) as u8); }
    map.flush().unwrap();
    drop(map);
    drop(file);
    let file = std::fs::File::open(&path).unwrap();
    let map = unsafe { Mmap::map(&file).unwrap() };
    let sum: u64 = map.iter().fold(0u64, |s, b| s.wrapping_mul(31).wrapping_add(*b as u64));
    println!("{}", sum);
}
"""
    built = None

    def prepare(self):
        need("cargo")
        make_data(self.path("data"), 128 * MB)
        if not Rust.built:
            Rust.built = tempfile.TemporaryDirectory()
            top = Rust.built.name
            os.mkdir(f"{top}/src")
            with open(f"{top}/src/main.rs", "w") as file:
                file.write(self.source)
            with open(f"{top}/Cargo.toml", "w") as file:
                file.write('[package]\nname = "mapped"\nversion = "0.1.0"\nedition = "2021"\n'
                           '[dependencies]\nmemmap2 = "0.9"\n')
            done = subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=top,
                                  capture_output=True, text=True)
            if done.returncode:
                Rust.built = None
                raise Skip("cargo could not build it: " + done.stderr.strip().splitlines()[-1])

    def command(self):
        return [f"{Rust.built.name}/target/release/mapped", self.path("data")]

    def files(self):
        return [self.path("data")]


class BesideAWriter(Python):
    """cp and md5sum look at a file while a program stores to it."""
    modules = ["mmap"]
    script = """
import hashlib, mmap, os, subprocess, sys
path = sys.argv[1]
plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
fd = os.open(path, os.O_RDWR)
memory = mmap.mmap(fd, 0)
for turn in range(3):
    for at in range(0, len(memory), 4096):
        memory[at] = (at >> 12) + turn & 255
    expected = hashlib.md5(memory).hexdigest()
    found = subprocess.run(["md5sum", path], env=plain, capture_output=True, text=True).stdout
    assert found.split()[0] == expected, (turn, "md5sum")
    subprocess.run(["cp", path, path + ".copy"], env=plain, check=True)
    with open(path + ".copy", "rb") as copy:
        assert hashlib.md5(copy.read()).hexdigest() == expected, (turn, "cp")
    memory.close()
    memory = mmap.mmap(fd, 0)
print(expected)
"""

    def prepare(self):
        super().prepare()
        make_data(self.path("data"), 64 * MB)

    def files(self):
        return [self.path("data"), self.path("data.copy")]


PROGRAMS = {
    "fio read": Fio, "fio randread": FioRandread, "fio write": FioWrite,
    "fio randwrite": FioRandwrite, "fio verify": FioVerify,
    "fio read, 4 x memory": FioReadLarge, "fio randread, 4 x memory": FioRandreadLarge,
    "fio write, 4 x memory": FioWriteLarge, "rocksdb, 2.3 x memory": RocksDbLarge,
    "lmdb": Lmdb, "lmdb writemap": LmdbWritemap, "sqlite": Sqlite, "rocksdb": RocksDb,
    "stress-ng mmap": StressMmap, "stress-ng msync": StressMsync, "stress-ng mremap": StressMremap,
    "faiss": Faiss, "ripgrep": Ripgrep, "grep": Grep, "java": Java, "rust": Rust,
    "beside a writer": BesideAWriter,
}


def run_once(program, hugemap, under):
    command = program.command()
    if under:
        command = [hugemap, "run", "--summary", *program.options, "--", *command]
    group = MemoryGroup(program.memory) if program.memory else contextlib.nullcontext()
    with (tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, group):
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                 cwd=program.dir,
                                 preexec_fn=group.join if program.memory else None)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        sync(program.dir)
        synced = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        output, errors = out.read(), err.read()
    if child.returncode:
        raise Different(f"exit status {child.returncode} {'under' if under else 'plain'}: "
                        f"{errors[-400:]} {output[-200:]}")
    patterns = collections.Counter(PATTERN.findall(errors))
    kinds = collections.Counter(part.split()[0] for line in ADVICE.findall(errors)
                                for part in line.split(", "))
    return Result(seconds, synced, usage.ru_minflt + usage.ru_majflt,
                  program.clean(output) if program.text else None,
                  digest(program.files()), (patterns, kinds))


@contextlib.contextmanager
def prepared(kind, args):
    """The program, its files made in a directory of their own."""
    with tempfile.TemporaryDirectory(prefix="hugemap-programs-", dir=args.dir) as directory:
        program = kind(directory, args.python)
        program.prepare()
        yield program


def run_program(kind, args):
    results = {False: [], True: []}
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(prepared(kind, args)) if kind.only_reads else None
        for under in [False, True] * args.turns:
            with prepared(kind, args) if not program else contextlib.nullcontext(program) as it:
                sync(it.dir, forget=True)
                warm_memory()
                results[under].append(run_once(it, args.hugemap, under))
    expected = results[False][0]
    for result in results[False] + results[True]:
        if result.output != expected.output:
            raise Different(f"it printed {result.output!r}, not {expected.output!r}")
        if result.digest != expected.digest:
            raise Different("its files are not the same")
    return results


def ratio(results, field):
    """Of each plain run to the one after it: the disk is not as fast at all times."""
    return statistics.median(getattr(plain, field) / getattr(under, field)
                             for plain, under in zip(results[False], results[True]))


def advice_of(results):
    """How many mappings there were of which kind, and how many got which advice."""
    return "; ".join(", ".join(f"{name} {count}" for name, count in counter.most_common())
                     for counter in results[-1].advice if counter) or "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dir", default=os.environ.get("HM_TEST_DIR", "/var/tmp"))
    parser.add_argument("--hugemap", default=f"{ROOT}/build/hugemap")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    status = 0
    print("| program | plain, s | under, s | plain / under | ... on the disk | faults, plain "
          "| faults, under | advice |\n|---|---|---|---|---|---|---|---|", flush=True)
    for name, kind in PROGRAMS.items():
        if args.names and name not in args.names:
            continue
        try:
            results = run_program(kind, args)
        except Skip as why:
            print(f"| {name} | skipped: {why} | | | | | | |", flush=True)
            continue
        except (Different, subprocess.CalledProcessError) as why:
            print(f"| {name} | FAILED: {why} | | | | | | |", flush=True)
            status = 1
            continue
        plain, under = ({field: statistics.median(getattr(r, field) for r in results[u])
                         for field in ("seconds", "faults")} for u in (False, True))
        synced = "" if kind.only_reads else f"{ratio(results, 'synced'):.2f}"
        print(f"| {name} | {plain['seconds']:.2f} | {under['seconds']:.2f} "
              f"| {ratio(results, 'seconds'):.2f} | {synced} | {plain['faults']:.0f} "
              f"| {under['faults']:.0f} | {advice_of(results[True])} |", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
