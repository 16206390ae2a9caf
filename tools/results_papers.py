# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The experiments of `make results`: the papers' numbers, and the command of each experiment."""
import dataclasses

SHORT = 512 << 20  # smaller data has fewer rows, so that `make results SIZE=256M` takes less than 25 minutes


@dataclasses.dataclass
class Experiment:
    """
    An experiment of the page.

    kind: of its JSON; the tables and charts of results.py are by kind
    title: paper and subject
    theirs: the numbers of the paper, with their conditions
    compare: the ratio that can be compared, and what differs
    command: `hugemap`, or a script, and its arguments
    minutes: the experiment is stopped after this time
    """
    kind: str
    title: str
    theirs: str
    compare: str
    command: list[str]
    minutes: int


CONDITIONS = [
    "**Theirs**: HugeMap and FastMap: 32 hyper-threads (80 for FastMap's random faults), Intel Optane P4800X, Linux 4.14,",
    "where tmpfs was the only file system with huge pages. Oracle 2014: Linux 2.6.32 and 3.11. VFS: Intel Xeon Phi, file",
    "systems in memory. Absolute numbers cannot be compared: the machine, the device and the kernel differ. The ratio",
    "between two ways on one machine can.",
    "",
    "Runs go in turns, and a ratio compares two runs of the same turn. Speeds and ratios are medians over the turns. Each",
    "answer and all data were checked. A row with an asterisk was stopped, and its answer was not checked. Numbers from a",
    "loaded machine are no results: each section has the load.",
]

# The packages were looked up with apt-cache and pip on Debian 12 in November 2026.
NOT_REPRODUCED = [
    "- FastMap's Silo with TPC-C: Debian has no package of it. The mix of reads and updates of YCSB stands in its place.",
    "- FastMap's MonetDB with TPC-H: Debian has no package of it, and PyPI's embedded monetdbe was not tried. DuckDB and",
    "  polars run three queries of TPC-H in its place.",
    "- HugeMap's and FastMap's Kreon, and FastMap's Ligra: Debian has no packages of them. LMDB and RocksDB, and a driver",
    "  of our own with the same algorithms, stand in their place.",
    "- IOzone and IOR: Debian's main archive has no packages of them. `hugemap bench cached`, `checkpoint` and `restore`",
    "  make the same calls.",
    "- Ingens' Redis and MongoDB: the memory of Redis is anonymous and not mapped from a file, so HugeMap does not manage",
    "  it. Debian 12 has no package of MongoDB.",
    "- Ingens' Cloudstone: a web application of three servers; Debian has no package of it.",
    "- Scaling to 32 and 80 threads: this machine has too few processors. `make scale` models the locks of the cache.",
    "- Direct reads at 8 GB/s, and copies by the DMA engine and the vector unit of a Xeon Phi: this machine has no such",
    "  hardware.",
]


def words(option: str, values: str) -> list[str]:
    return [word for value in values.split() for word in (option, value)]


def bench(size: int, threads: str, scenarios: str) -> list[str]:
    return ["hugemap", "bench", "--size", f"{size >> 20}M", "--runs", "3", "--threads", threads,
            *words("--scenario", scenarios)]


def ycsb(size: int, short: bool, workloads: str) -> list[str]:
    """workloads: of a short run"""
    return ["hugemap", "bench", "ycsb", "--records", str(max(size // 1020, 1000)), "--threads", "2", "--runs", "3",
            "--seconds", "2" if short else "5", *(words("--workload", workloads) if short else []),
            *words("--mode", "plain random pread steered")]


def experiments(size: int) -> dict[str, Experiment]:
    """Name -> experiment, with this size of the data."""
    short = size < SHORT
    scale = (size // 144).bit_length() - 1  # a vertex has 16 edges, and 144 bytes with them
    workers = "8" if short else "1,2,4,8"
    data = f"{size >> 20}M"
    return {
        "sequential": Experiment(
            "bench", "HugeMap: sequential reads and writes of a mapping",
            "reads 1.54 x Linux with MADV_SEQUENTIAL with 1 thread, 1.12 x 4 KB pages with 32; writes 3.7 x 4 KB pages "
            "with 32",
            "HugeMap by the best Linux mmap. They map a device and read each page before they write it, as rewrite "
            "does here; Linux 4.14 had no large folios, so their baseline is slower",
            bench(size, "1" if short else "1,2,4", "seq-read seq-write rewrite"), 25),
        "checkpoint": Experiment(
            "bench", "HugeMap: IOR checkpoint and restore, one shared file",
            "8 processes, 160 GB, 50 GB of memory: checkpoint 0.96 and restore 1.006 of read/write; restore 1.44 x "
            "Linux mmap",
            "HugeMap by the best Linux mmap in restore. Each process syncs its own part here, and the data is 8 times "
            "the memory instead of 3.2 times",
            bench(size, workers, "checkpoint restore"), 25),
        "checkpoint-own": Experiment(
            "bench", "HugeMap: IOR checkpoint and restore, a file for each process",
            "no numbers; their figure is for one shared file",
            "nothing; it shows whether the shared file matters",
            bench(size, workers, "checkpoint-own restore-own"), 25),
        "ycsb-small": Experiment(
            "ycsb", "HugeMap: a key-value store in memory",
            "Kreon, inserts only: 1.895 x 4 KB pages",
            "steered by MADV_RANDOM in load. The stores are others, and ext4 caches files in large folios",
            [*ycsb(size, short, "load c"), "--pool", f"{3 * size >> 20}M"], 40),
        "ycsb-large": Experiment(
            "ycsb", "FastMap: a key-value store larger than memory",
            "Kreon, 80 GB of data and 16 GB of memory: pictures only",
            "steered by MADV_RANDOM; the stores are others, and the data is 3 times the memory",
            ycsb(size, short, "load a c"), 40),
        "random": Experiment(
            "bench", "FastMap: random faults",
            "80 hyper-threads on null_blk: up to 11.8 x the IOPS of Linux; 32 on Optane: up to 5.2 x",
            "the direction only: their gain is from locks that 32 threads contend for, and steering stays in Linux's "
            "page cache",
            bench(size, "1" if short else "1,2,4", "rand-4k"), 20),
        "graph": Experiment(
            "graph", "FastMap: algorithms on a graph larger than memory",
            "Ligra's breadth-first search: pictures only",
            "steered by the best Linux mmap; the driver is our own",
            ["hugemap", "bench", "graph", "--scale", str(scale), "--threads", "2", "--runs", "3", "--seconds",
             "6" if short else "20", *words("--mode", f"plain {'' if short else 'plain-128'} random hugepage steered")], 25),
        "analytics": Experiment(
            "analytics", "FastMap: queries of TPC-H larger than memory",
            "MonetDB: pictures only",
            "steered by plain, cold. DuckDB and polars stand in MonetDB's place; DuckDB reads Parquet by read(), which "
            "steering does not change",
            ["bench/analytics.py", "--size", data, "--runs", "3", "--seconds", "10" if short else "40"], 25),
        "direct": Experiment(
            "direct", "Oracle 2014: asynchronous direct reads into huge pages",
            "1 MB: 8384, 6501 and 8371 MB/s; 64 KB: 7867, 4251 and 6510 MB/s (2.6.32, 3.11-rc5, with the patch)",
            "huge pages by small pages. The device here is slower than theirs and hides the cost of a reference, so "
            "the system time of each MB says more",
            ["hugemap", "bench", "direct", "--size", data, "--runs", "3", "--seconds", "1" if short else "2"], 15),
        "cached": Experiment(
            "cached", "VFS on a many-core processor: IOzone on cached files",
            "write about 2 x (tmpfs) and 2.3 x (ramfs), read 3.3 x and 3.8 x, of 4 MB records, by pages in bulk and by "
            "DMA or vector copies",
            "nothing directly: these rows are Linux's, as a baseline for the same command on a mount of hugemap, whose "
            "options vfs_read_optimization and vfs_write_optimization are the paper's",
            ["hugemap", "bench", "cached", "--size", data, "--runs", "3"], 10),
        "curve": Experiment(
            "curve", "CIDR 2022: throughput before and after memory is full",
            "mmap falls by half or more when memory is full",
            "throughput after by before, for HugeMap and for plain mmap",
            ["hugemap", "bench", "curve", "--size", data, "--runs", "1", *(["--threads", "1"] if short else [])], 25),
    }
