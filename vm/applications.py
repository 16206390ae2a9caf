# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Count the guest's instructions for storage applications: HugeMap beside Linux's page cache.

Each application runs on ext4 on a RAM disk, and on a mount of hugemap above the same ext4. Its
answers are compared. applications_report.py makes a table of each application.

QEMU runs with -icount, so that a second is 10^9 instructions of all processes and of the kernel.
The RAM disk copies each page by the processor: its instructions, measured at the start, are
subtracted. The processor has no ERMS, so that a copy takes an instruction for 8 bytes, not for each.
"""
import argparse
import contextlib
import dataclasses
import functools
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator

import applications_report as report
import bench
import functions
import guest
import initramfs
import kernels
from applications_report import Row

CPU = ["-cpu", "max,-erms,-fsrm"]
DISK_MIB = 1024
MEMORY_MIB = 3072  # of the guest: it contains the RAM disk
READ_AHEAD_KB = 128
PAGES = ("auto", "2M", "4K")
LOWER = "/lower"
WORK = f"{LOWER}/work"
MOUNT = "/mnt/fast"
HELPERS = ("ycsb", "graph", "direct")
PROGRAMS = ("count-files", "count-store")
MIN_BESIDE = 4 << 20
LIMIT_S = 900  # of a command
MIB = 1 << 20

YCSB = {
    "records": 24000,
    "operations": 3000,
    "value": 1000,
    "buffer": 4 * MIB,
}
YCSB_FORM = (
    "store={store},workload={workload},threads=1,seed=1,uniform=0,pread={pread},random={random},warm=0,"
    "settle={settle},records={records},operations={operations},value={value},buffer={buffer},milliseconds=0"
)
STORES = {"LMDB": 0, "RocksDB": 1}
WORKLOADS = {"load": 0, "A": 1, "B": 2, "C": 3}
YCSB_CHECK = 7
GRAPH_SCALE, GRAPH_DEGREE = 17, 16
CHECKPOINT_MIB = 96
DIRECT_MIB, DIRECT_DEPTH, DIRECT_S = 64, 16, 0.2
FILES_MIB = (4, 32)
STORE_MIB = 64
STORE_GETS = {"all": 65536, "a third": 8192}


@dataclasses.dataclass(frozen=True)
class Way:
    """How an application uses its files."""

    page: str = ""  # the page size of the mount; "": ext4
    advice: str = "none"
    options: str = ""  # of the mount
    where: str = "ext4"

    @property
    def name(self) -> str:
        if self.page:
            return f"hugemap, page={self.page}{self.options.replace(',', ', ')}"
        return f"{self.where}, {'default' if self.advice == 'none' else self.advice}"


HUGEMAP = [Way(page) for page in PAGES]
PLAIN = Way()
RANDOM = Way(advice="random")
HUGEPAGE = Way(advice="hugepage")


@dataclasses.dataclass
class Run:
    """The output of a command, its I/O and its memory."""

    lines: list[str]
    read: int  # bytes, from the RAM disk
    written: int
    peak: int  # bytes, of the control group
    functions: dict[str, list[int]]


class Lab(bench.Counter):
    """Runs applications in one guest."""

    def __init__(self, vm: guest.Guest, profiler: functions.Profiler) -> None:
        super().__init__(vm, None, None, profiler)
        self.page_cost = 0.0  # instructions of the RAM disk for a page of 4 KB
        self.beside: dict[str, int] = {}  # memory of an application beside the cache

    def prepare(self) -> None:
        self.shell(f"modprobe brd rd_nr=1 rd_size={DISK_MIB << 10} && mkfs.ext4 -q /dev/ram0")
        self.shell(f"mkdir -p {LOWER} {MOUNT} && mount -t ext4 /dev/ram0 {LOWER} && mkdir {WORK}")
        self.shell(f"echo {READ_AHEAD_KB} >/sys/block/ram0/queue/read_ahead_kb")
        self.shell("mkdir -p /cg && mount -t cgroup2 cgroup2 /cg && echo +memory >/cg/cgroup.subtree_control")
        self.shell("insmod /hugemap.ko")
        assert self.profiler
        self.profiler.learn(self.shell("cat /proc/kallsyms"))
        self.page_cost = self.measure_disk()
        print(f"the RAM disk takes {self.page_cost:.0f} instructions for a page", file=sys.stderr)

    def measure_disk(self) -> float:
        """Read the disk by direct I/O. Only the driver and its memcpy() count."""
        assert self.profiler
        self.shell(f"dd if=/dev/zero of={LOWER}/disk bs=1M count=32 && sync")
        command = f"dd if={LOWER}/disk of=/dev/null bs=1M iflag=direct"
        used = self.profiler.functions(lambda: void(self.shell(command)))
        self.shell(f"rm {LOWER}/disk")
        mine = sum(n for name, (n, _) in used.items() if name.startswith(("brd_", "copy_from_brd", "memcpy")))
        return mine / (32 * MIB / 4096)

    def disk_bytes(self) -> tuple[int, int]:
        """The bytes that the disk has read and written so far."""
        lines = self.shell("sync; grep -E '^pgpg(in|out) ' /proc/vmstat")
        kib = dict(line.split() for line in lines)
        return int(kib["pgpgin"]) << 10, int(kib["pgpgout"]) << 10

    @contextlib.contextmanager
    def mounted(self, way: Way, pool: int) -> Iterator[str]:
        """Empty the caches, and yield the directory of the work."""
        self.shell("sync; echo 3 >/proc/sys/vm/drop_caches")
        if way.page:
            options = f"pool={pool >> 10}K,page={way.page}{way.options}"
            self.shell(f"mount -t hugemap -o {options} {WORK} {MOUNT}")
        # After a failure the guest ends, so nothing is undone.
        yield MOUNT if way.page else "/dev/shm" if way.where == "tmpfs" else WORK
        if way.page:
            self.shell(f"umount {MOUNT}")

    def run(self, way: Way, pool: int, command: str, key: str = "") -> Run:
        """Run a command with {dir} in it. Linux may cache as much as the pool, if @key is given.

        key: names runs that need the same memory beside the cache. That of the first one, on a mount,
        is added to the limit.
        """
        print(f"counting {way.name}: {command}", file=sys.stderr, flush=True)
        limit = "max"
        if key and not way.page:
            limit = str(pool + max(self.beside[key], MIN_BESIDE))
        with self.mounted(way, pool) as directory:
            self.shell(f"mkdir /cg/app && echo {limit} >/cg/app/memory.max && echo 0 >/cg/app/memory.swap.max")
            lines: list[str] = []
            before = self.disk_bytes()
            words = command.format(dir=directory, resident=report.RESIDENT if way.page else "")
            words = f"echo 0 >/cg/app/cgroup.procs && exec {words}"
            assert self.profiler
            used = self.profiler.functions(lambda: lines.extend(self.shell(f'sh -c "{words}"', LIMIT_S)))
            after = self.disk_bytes()
            peak = int(self.shell("cat /cg/app/memory.peak")[0])
            self.shell("rmdir /cg/app")
        if key and way.page:
            self.beside.setdefault(key, peak)
        return Run(lines, after[0] - before[0], after[1] - before[1], peak, used)

    def row(self, labels: list[str], way: Way, run: Run, insns: float, faults: int | None, answer: str) -> Row:
        """A row of a table. The disk's instructions are not part of it."""
        device = (run.read + run.written) / 4096 * self.page_cost
        return Row(labels, way.name, bool(way.page), insns - device, faults, run.read, run.written, answer,
                   run.functions)


def void(_: object) -> None:
    """For a call whose result is not needed."""


def answer_of(line: str) -> dict:
    """The JSON of a helper of `hugemap bench`."""
    try:
        return json.loads(line)
    except ValueError:
        raise bench.Failed(f"expected JSON: {line}") from None


# --- the applications ---


def count_ycsb(lab: Lab, store: str) -> report.Table:
    """A key-value store that is three times larger than the cache."""
    settings = YCSB | {"store": STORES[store], "pread": 0, "random": 0}
    master = f"{LOWER}/master"
    load = YCSB_FORM.format(**settings | {"workload": 0, "settle": 1, "operations": YCSB["records"]})
    lab.shell(f"mkdir {master} && {helper('ycsb')} {master} {load}", LIMIT_S)
    size = int(lab.shell(f"du -k {master} | cut -f1")[0]) << 10
    pool = max(report.round_up(size // 3, 2 * MIB), 8 * MIB)
    ways = [*HUGEMAP, PLAIN, RANDOM, *([Way(advice="pread")] if store == "RocksDB" else [])]
    rows = []
    for workload in WORKLOADS:
        for way in ways:
            if (store, workload, way.page) == ("LMDB", "load", "2M"):
                continue  # Each insert would read and write 2 MB: minutes.
            copy = "true" if workload == "load" else f"cp {master}/* {WORK}"
            lab.shell(f"rm -rf {WORK}/* && {copy}", LIMIT_S)
            rows.append(row_of_ycsb(lab, store, settings, workload, way, pool))
    left_out = "The load with page=2M is left out: each insert moves 2 MB." if store == "LMDB" else \
        "`pread` is RocksDB without mappings."
    return report.Table(
        f"FastMap and HugeMap: {store}, larger than memory",
        "Kreon, 80 GB of data and 16 GB of memory: pictures only; inserts in memory 1.895 x 4 KB pages",
        ["workload"], rows,
        f"{YCSB['records']} records of {YCSB['value']} bytes, {YCSB['operations']} operations, zipfian keys, one client. "
        f"The pool has {pool >> 20} MB for files of {size >> 20} MB; Linux may use as much, and the memory of the program "
        "beside it. Each answer was compared with the right one, and the stored records with those of plain mmap. "
        + left_out)


def row_of_ycsb(lab: Lab, store: str, settings: dict, workload: str, way: Way, pool: int) -> Row:
    more = {"workload": WORKLOADS[workload], "random": int(way.advice == "random")}
    more |= {"pread": int(way.advice == "pread"), "settle": 0}
    more |= {"operations": YCSB["records"], "settle": 1} if workload == "load" else {}
    run = lab.run(way, pool, f"{helper('ycsb')} {{dir}} {YCSB_FORM.format(**settings | more)}", "ycsb")
    answer = answer_of(run.lines[-1])
    if answer["digest"] != answer["expected"]:
        raise bench.Failed(f"{store}, {workload}, {way.name}: {run.lines[-1]}")
    # All records, read from ext4.
    stored = YCSB_FORM.format(**settings | {"workload": YCSB_CHECK, "settle": 0})
    check = answer_of(lab.shell(f"{helper('ycsb')} {WORK} {stored}", LIMIT_S)[-1])
    digest = f"{answer['digest']} {check['ops']} {check['digest']}"
    return lab.row([workload], way, run, answer["seconds"] * 1e9, answer["faults"], digest)


def count_graph(lab: Lab) -> report.Table:
    rows: list[Row] = []
    lab.shell(f"rm -rf {WORK}/* && {helper('graph')} make {WORK}/graph {GRAPH_SCALE} {GRAPH_DEGREE}", LIMIT_S)
    pool = max(report.round_up(int(lab.shell(f"stat -c %s {WORK}/graph")[0]) // 3, 2 * MIB), 8 * MIB)
    for algorithm in ("bfs", "pagerank"):
        for way in (*HUGEMAP, PLAIN, RANDOM, HUGEPAGE):
            run = lab.run(way, pool, f"{helper('graph')} {algorithm} {{dir}}/graph {way.advice} 1 100000", "graph")
            answer = answer_of(run.lines[-1])
            rows.append(lab.row([algorithm], way, run, answer["seconds"] * 1e9, answer["faults"], answer["digest"]))
    lab.shell(f"rm -rf {WORK}/*")
    return report.Table(
        "FastMap: algorithms on a graph larger than memory", "Ligra's breadth-first search: pictures only",
        ["algorithm"], rows,
        f"2^{GRAPH_SCALE} vertices, {GRAPH_DEGREE} edges each, one thread. The pool is a third of the graph; Linux "
        "may use as much, and the memory of the program beside it.")


def count_checkpoint(lab: Lab) -> report.Table:
    """Checkpoint and restore by `hugemap bench`, which checks the data and limits Linux's memory itself."""
    rows: list[Row] = []
    base = f"hugemap bench --size {CHECKPOINT_MIB}M --pool {CHECKPOINT_MIB // 3}M --runs 1 --threads 1 --dir {WORK}"
    for scenario in ("checkpoint", "restore"):
        for engine, page in (*(("hugemap-kernel", page) for page in PAGES), ("linux-mmap", ""), ("linux-rw", "")):
            words = f"{base} --scenario {scenario} --engine {engine} {f'--page {page}' if page else ''} --json /tmp/json"
            run = lab.run(PLAIN, 0, words)
            found = json.loads("\n".join(lab.shell("cat /tmp/json")))
            for each in found["rows"]:
                if each["error"]:
                    raise bench.Failed(f"{scenario}, {engine}: {each['error']}")
                way = Way(each["page"] or "", each["advice"] or engine)
                insns = each["seconds"] * 1e9 - CHECKPOINT_MIB * MIB / 4096 * lab.page_cost
                # A command has several rows of Linux: the bytes of each are unknown.
                rows.append(Row([scenario], way.name, bool(way.page), insns, int(each["faults"]), None, None,
                                "checked", run.functions))
    return report.Table(
        "HugeMap: IOR checkpoint and restore, one shared file",
        "checkpoint 0.96 and restore 1.006 of read/write; restore 1.44 x Linux mmap (speeds)",
        ["scenario"], rows,
        f"{CHECKPOINT_MIB} MB, one process, a pool of a third; Linux has as much and 64 MB. `hugemap bench` checks "
        "the data.")


def count_direct(lab: Lab) -> report.Table:
    rows: list[Row] = []
    source = f"{LOWER}/source"
    lab.shell(f"{helper('direct')} make {source} {DIRECT_MIB * MIB}", LIMIT_S)
    targets = [(way, "{dir}/target") for way in (*HUGEMAP, PLAIN)]
    targets += [(Way(where="memory", advice=advice), advice) for advice in ("small", "thp", "hugetlb")]
    lab.shell("echo 40 >/proc/sys/vm/nr_hugepages")
    for block in (64 << 10, MIB):
        for way, target in targets:
            words = f"{helper('direct')} read {source} {target} {block} {DIRECT_DEPTH} plain {DIRECT_S}"
            run = lab.run(way, 2 * DIRECT_MIB * MIB, words)
            answer = answer_of(run.lines[-1])
            if "refused" in answer:
                print(f"{way.name}: {answer['refused']}", file=sys.stderr)
                continue
            pages = answer["bytes"] / 4096
            # The memory is filled before, and a mapping may be written at the end: that is not a part of the reads.
            written = max(run.written - DIRECT_MIB * MIB, 0)
            each = answer["seconds"] * 1e9 / pages - lab.page_cost * (1 + written / answer["bytes"])
            rows.append(Row([f"{block >> 10} KB"], way.name, bool(way.page), each, answer["faults"], answer["bytes"],
                            written, "checked", run.functions, pages))
            lab.shell(f"rm -f {WORK}/target")
    lab.shell(f"echo 0 >/proc/sys/vm/nr_hugepages; rm -f {source}")
    return report.Table(
        "Oracle 2014: asynchronous direct reads into huge pages",
        "1 MB: 8384, 6501 and 8371 MB/s; 64 KB: 7867, 4251 and 6510 MB/s (2.6.32, 3.11-rc5, with the patch)",
        ["read"], rows,
        f"Direct reads of a file on ext4 into 64 MB of memory, {DIRECT_DEPTH} in flight. A row is instructions for a page "
        "of 4 KB, without those of the RAM disk. The program compares the data. A mount writes the pages of a stream of "
        "stores early; ext4 writes them after 30 s, so not in this run.",
        per="page", plain="ext4, default")


def count_files(lab: Lab) -> report.Table:
    rows: list[Row] = []
    off = ",vfs_read_optimization=off,vfs_write_optimization=off"
    ways = [Way(page, options=options) for page in PAGES for options in ("", off)]
    for mib in FILES_MIB:
        for way in (*ways, PLAIN, Way(where="tmpfs")):
            run = lab.run(way, 2 * max(FILES_MIB) * MIB, f"count-files {{dir}}/file {mib}")
            for line in run.lines:
                name, _, insns, read, written, digest = line.split()
                moved, pages = [int(read) << 10, int(written) << 10], mib * MIB / 4096
                each = (int(insns) - sum(moved) / 4096 * lab.page_cost) / pages
                rows.append(Row([f"{mib} MB", name], way.name.replace("vfs_read_optimization=off, vfs_write_", "no_"),
                                bool(way.page), each, None, *moved, digest, run.functions, pages))
    return report.Table(
        "Murty and Sudarsan: IOzone's write, rewrite, read and reread",
        "write about 2 x (tmpfs) and 2.3 x (ramfs), read 3.3 x and 3.8 x, with their changes",
        ["file", "step"], rows,
        "write() and read() in records of 4 MB; the file fits into the pool. A row is instructions for a page of 4 KB. "
        "`no_optimization=off` stands for both optimizations of the mount off. fsync() is counted in rows of its own. "
        "The functions are counted for all steps together.",
        per="page", plain="ext4, default")


def count_store(lab: Lab) -> report.Table:
    rows: list[Row] = []
    lab.shell(f"rm -rf {WORK}/* && count-store load {WORK}/store {STORE_MIB}", LIMIT_S)
    memories = {"all": 2 * STORE_MIB * MIB, "a third": report.round_up(STORE_MIB * MIB // 3, 2 * MIB)}
    for memory, pool in memories.items():
        gets = STORE_GETS[memory]
        for keys in ("uniform", "zipf"):
            for way in (*HUGEMAP, PLAIN, RANDOM, HUGEPAGE):
                if memory != "all" and way.page == "2M":
                    continue  # Most gets read 2 MB: minutes.
                words = f"count-store get {{dir}}/store {STORE_MIB} {gets} {keys} {way.advice} {{resident}}"
                run = lab.run(way, pool, words, "store" if memory != "all" else "")
                mean, median, p99, most, faults, cached, touched, live, digest = run.lines[-1].split()
                row = lab.row([memory, keys], way, run, float(mean) * gets, int(faults), digest)
                row.insns, row.units = row.insns / gets, gets
                row.more = [median, p99, most, *(f"{int(n) / MIB:.1f}" for n in (cached, touched, live))]
                rows.append(row)
    lab.shell(f"rm -rf {WORK}/*")
    return report.Table(
        "Ingens: memory and latency after 70 % of the values are deleted",
        "Redis: 12.2 GB with 4 KB pages, 20.7 GB with huge pages everywhere, 12.3 GB with Ingens",
        ["memory", "keys"], rows,
        f"A mapped file of {STORE_MIB} MB with values of 1 KB, 70 % of them deleted at random; {STORE_GETS['all']} gets of the "
        f"others ({STORE_GETS['a third']} if memory is a third, without page=2M), from an empty cache. Instructions of a "
        "get; the mean is without the RAM disk, the percentiles are with it. "
        "cached: the data of the file in the cache at the end; touched: pages of 4 KB that were read; live: all values "
        "that are left.", per="get",
        more=["median", "p99", "most", "MB cached", "MB touched", "MB live"])


APPLICATIONS: dict[str, Callable[[Lab], report.Table]] = {
    "checkpoint": count_checkpoint,
    "lmdb": functools.partial(count_ycsb, store="LMDB"),
    "rocksdb": functools.partial(count_ycsb, store="RocksDB"),
    "graph": count_graph,
    "direct": count_direct,
    "files": count_files,
    "store": count_store,
}


# --- the run ---


def helper(name: str) -> str:
    return f"/bin/bench/{name}/hugemap-{name}"


def fill(archive: initramfs.Archive, build: pathlib.Path) -> None:
    """Add the programs. The guest needs the build's command and its helpers."""
    archive.program(str(build / "hugemap"))
    for name in HELPERS:
        archive.program(str(build / f"bench/{name}/hugemap-{name}"), helper(name))
    archive.program("mkfs.ext4")


def command_of(args: argparse.Namespace, release: str, name: str) -> str:
    return f"vm/run.py bench --kernel {'.'.join(release.split('.')[:2])} --applications {name}"


def count(kernel: kernels.Kernel, initrd: pathlib.Path, args: argparse.Namespace) -> list[str]:
    """Count the applications whose table is not in the directory yet. Returns what failed."""
    failed: list[str] = []
    args.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in APPLICATIONS if not args.applications or name in args.applications]
    names = [name for name in names if not (args.out / f"kernel-{name}.json").exists()]
    for name in names:
        # A fresh guest for each, so that the counts do not depend on the others.
        try:
            table = count_in_guest(kernel, initrd, name)
        except (bench.Failed, guest.Died) as error:
            print(f"failed: {name}: {error}", file=sys.stderr)
            failed.append(name)
            continue
        failed += [f"{name}: {wrong}" for wrong in table.wrong_answers()]
        report.write(table, args.out / f"kernel-{name}.json", command_of(args, kernel.release, name), kernel.release)
        print(report.text(table), flush=True)
    return failed


def count_in_guest(kernel: kernels.Kernel, initrd: pathlib.Path, name: str) -> report.Table:
    with contextlib.ExitStack() as stack:
        profiler = functions.Profiler(pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())))
        words = [*CPU, *profiler.words()]
        vm = stack.enter_context(guest.Guest(kernel, initrd, MEMORY_MIB, {}, counted=True, more=words))
        lab = Lab(vm, profiler)
        lab.prepare()
        table = APPLICATIONS[name](lab)
        splats = [line for line in vm.console if guest.SPLAT.search(line)]
    if splats:
        raise bench.Failed(f"the kernel wrote: {splats[0].strip()}")
    return table
