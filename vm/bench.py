# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Count the guest's instructions: HugeMap beside Linux mmap at each of its settings.

Times in an emulated machine are meaningless, but instruction counts repeat exactly: QEMU
runs with -icount, and count-insns.c reads the counter. Both engines map a null_blk device,
which completes I/O at once. The instructions of the loop over the memory are subtracted.
"""
import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
import tempfile

import functions
import guest
import kernels

MODULES = ["virtio_pci", "virtio_blk", "ext4", "null_blk", "brd", "loop"]
SEQUENTIAL_MIB = 256
SINGLE_MIB = 64
RANDOM_MIB = 512
POOL_MIB = 64
COMMAND_MIB = 64
COMMAND_SCENARIOS = ("seq-read", "rewrite", "rand-4k", "backward", "four-streams", "scan-random-scan", "log-read", "cost")
MIB = 1 << 20
# read() of cached pages, twice, as Linux marks them as accessed; then write() to pages that are not cached.
CALLS = "warm-pages read-call read-again read-page-call forget write-call"
# The same reads, of a file that read() has brought in, in order.
CALLS_IN_ORDER = "warm-calls read-call read-page-call"
SINGLE = "warm read-fault upgrade first-write sync rewrite drop"
# Faults on base pages, each counted alone, with and without promotion.
SPREAD = ("spread-read", "spread-write")
# The loop of a scenario, which is subtracted.
LOOPS = {"seq-read": "copy", "seq-write": "fill"}
# Ways in which a file grows in small steps.
GROW = ("fallocate", "truncate", "append-100", "append-512")
GROW_STEPS = 16384
# Scenarios that use the whole file: their totals compare, whatever the page size.
WHOLE = {*LOOPS, "read-call", "read-again", "read-page-call", "write-call", *GROW, *(f"{name}-sync" for name in GROW)}
# Settings of the block device for Linux.
READ_AHEAD_KB = (128, 4096)


@dataclasses.dataclass
class Row:
    scenario: str
    engine: str  # hugemap-kernel, linux-mmap
    page: str  # 2M, 4K: hugemap's page size; for Linux, the unit of an operation
    setting: str  # pool; advice and read-ahead
    ops: int  # units of 2 MB or 4 KB
    insns: int  # without the loop
    faults: int

    @property
    def per_op(self) -> float:
        return self.insns / self.ops


class Failed(Exception):
    """A command in the guest failed."""


class Counter:
    """Runs count-insns, or count-grow, in a guest."""

    program = "count-insns"

    def __init__(
        self, vm: guest.Guest, scenario: str | None, what: str | None = None, profiler: functions.Profiler | None = None
    ) -> None:
        self.vm = vm
        self.scenario = scenario
        self.what = what
        self.profiler = profiler
        self.profiles: list[dict] = []
        self.loops: dict[tuple[str, int], int] = {}

    def shell(self, command: str, seconds: float = 600) -> list[str]:
        lines: list[str] = []
        answer = self.vm.ask(f"if ( {command} ) 2>&1; then answer ok; else answer fail; fi", seconds, lines)
        if answer != "ok":
            raise Failed(f"{command}: {'; '.join(lines) or 'it failed without output'}")
        return lines

    def wanted(self, what: str) -> bool:
        return not self.scenario or self.scenario in what

    def count(self, words: str, prefix: str = "") -> list[tuple[str, int, int, int]]:
        results = []
        for line in self.shell(f"{prefix}{self.program} {words}"):
            fields = line.split()
            if len(fields) != 4 or not all(field.isdigit() for field in fields[1:]):
                raise Failed(f"{self.program} {words}: {line}")
            results.append((fields[0], *(int(field) for field in fields[1:])))
        return results

    def rows(
        self, engine: str, page: str, setting: str, file: str, mib: int, what: str, advice: str, prefix: str = ""
    ) -> list[Row]:
        if not self.wanted(what):
            return []
        step = 4096 if page == "4K" else 2 * MIB
        print(f"counting {engine}, {page}, {setting}: {what}", file=sys.stderr, flush=True)
        rows = []
        counts = self.profile(engine, page, setting, f"-s {step} -a {advice} {file} {mib} ", what, prefix)
        for name, ops, insns, faults in counts:
            loop = LOOPS.get(name)
            if loop:
                insns -= self.loop(loop, file, mib)
            rows.append(Row(name, engine, page, setting, ops, insns, faults))
        return rows

    def profile(
        self, engine: str, page: str, setting: str, words: str, what: str, prefix: str
    ) -> list[tuple[str, int, int, int]]:
        """Count. With --by-function, also record the counts of each function."""
        counts: list[tuple[str, int, int, int]] = []
        if not self.profiler:
            return self.count(words + what, prefix)
        if not self.profiler.names:
            self.profiler.learn(self.shell("cat /proc/kallsyms"))
        by_function = self.profiler.functions(lambda: counts.extend(self.count(words + what, prefix)))
        row = {"engine": engine, "page": page, "setting": setting, "what": what, "ops": counts[-1][1]}
        self.profiles.append(row | {"functions": by_function})
        return counts

    def loop(self, name: str, file: str, mib: int) -> int:
        if (name, mib) not in self.loops:
            # The minimum of three: background work of the kernel is not part of the loop.
            self.loops[name, mib] = min(insns for _, _, insns, _ in self.count(f"{file} {mib} {name} {name} {name}"))
        return self.loops[name, mib]


def count_hugemap(counter: Counter) -> list[Row]:
    rows = []

    def with_mount(page: str, pool: int, mib: int, what: str, more: str = "", note: str = "") -> None:
        if not counter.wanted(what):
            return
        counter.shell(f"mount -t hugemap -o pool={pool}M,page={page}{more} /dev/nullb0 /mnt/fast")
        file = "/mnt/fast/" + counter.shell("ls /mnt/fast")[0].strip()
        setting = f"pool {pool} MB{note}"
        try:
            rows.extend(counter.rows("hugemap-kernel", page, setting, file, mib, what, "none"))
        finally:
            counter.shell("umount /mnt/fast")

    if counter.what:
        for page in ("2M", "4K", "auto"):
            with_mount(page, 2 * SINGLE_MIB, SINGLE_MIB, counter.what)
        return rows
    for page in ("2M", "4K", "auto"):
        for pool in (POOL_MIB, SEQUENTIAL_MIB + POOL_MIB):
            with_mount(page, pool, SEQUENTIAL_MIB, "seq-read")
            with_mount(page, pool, SEQUENTIAL_MIB, "seq-write")
        with_mount(page, 2 * SINGLE_MIB, SINGLE_MIB, SINGLE)
        with_mount(page, 2 * SINGLE_MIB, SINGLE_MIB, CALLS)
        plain = ",vfs_read_optimization=off,vfs_write_optimization=off"
        with_mount(page, 2 * SINGLE_MIB, SINGLE_MIB, CALLS, plain, ", not optimized")
    with_mount("auto", 2 * SINGLE_MIB, SINGLE_MIB, CALLS, ",util_threshold=0", ", base pages")
    with_mount("auto", 2 * SINGLE_MIB, SINGLE_MIB, CALLS_IN_ORDER, note=", brought in by read()")
    for page, more in (("4K", ""), ("auto", ",util_threshold=0"), ("auto", ",util_threshold=90")):
        for what in SPREAD:
            with_mount(page, 2 * SINGLE_MIB, SINGLE_MIB, what, more, more.replace(",", ", "))
    for page in ("4K", "auto"):
        with_mount(page, POOL_MIB, RANDOM_MIB, "random-read")
        with_mount(page, POOL_MIB, RANDOM_MIB, "random-write")
    return rows


def count_linux(counter: Counter) -> list[Row]:
    rows = []
    device = "/dev/nullb1"

    def fresh(read_ahead: int) -> None:
        counter.shell(
            f"echo {read_ahead} >/sys/block/nullb1/queue/read_ahead_kb; sync; echo 3 >/proc/sys/vm/drop_caches"
        )

    def one(page: str, mib: int, what: str, advice: str, read_ahead: int, prefix: str = "", more: str = "") -> None:
        fresh(read_ahead)
        setting = f"{advice}, read-ahead {read_ahead} KB{more}"
        try:
            rows.extend(counter.rows("linux-mmap", page, setting, device, mib, what, advice, prefix))
        except Failed as error:
            # Some kernels do not support some advice.
            if "madvise" not in str(error):
                raise

    for read_ahead in READ_AHEAD_KB:
        for advice in ("none", "sequential", "hugepage", "populate-read"):
            one("2M", SEQUENTIAL_MIB, "seq-read", advice, read_ahead)
        for advice in ("none", "sequential", "hugepage", "populate-write"):
            one("2M", SEQUENTIAL_MIB, "seq-write", advice, read_ahead)
    one("4K", SINGLE_MIB, SINGLE, "none", 128)
    one("4K", SINGLE_MIB, CALLS, "none", 128)
    for what in SPREAD:
        one("4K", SINGLE_MIB, what, "random", 128)
    # A memory control group limits the page cache to the size of the pool.
    limited = f"echo {POOL_MIB}M >/cg/limited/memory.max && echo 0 >/cg/limited/memory.swap.max 2>/dev/null;"
    limited += " sh -c 'echo $$ >/cg/limited/cgroup.procs && exec \"$@\"' sh "
    counter.shell("mkdir -p /cg && mount -t cgroup2 cgroup2 /cg && echo +memory >/cg/cgroup.subtree_control")
    counter.shell("mkdir -p /cg/limited")
    for what in ("random-read", "random-write"):
        for advice in ("none", "random"):
            one("4K", RANDOM_MIB, what, advice, 128, limited, f", {POOL_MIB} MB")
    return rows


def count_grow(counter: Counter) -> list[Row]:
    """Count small steps of growth: on ext4 itself, and on mounts above it."""
    rows = []
    what = " ".join(name + sync for sync in ("", "-sync") for name in GROW)
    counter.shell("modprobe brd rd_nr=1 rd_size=524288 && mkfs.ext4 -q /dev/ram0 && mkdir -p /lower")
    counter.shell("mount -t ext4 /dev/ram0 /lower")

    def one(engine: str, page: str, directory: str) -> None:
        for name in what.split():
            # Each of them also has a profile of its own.
            if counter.wanted(name):
                print(f"counting {engine}, {page}: {name}", file=sys.stderr, flush=True)
                counts = counter.profile(engine, page, "grow", f"{directory}/grown {GROW_STEPS} ", name, "")
                rows.extend(Row(n, engine, page, "grow", ops, insns, faults) for n, ops, insns, faults in counts)

    one("linux-mmap", "4K", "/lower")
    for page in ("auto", "2M", "4K"):
        counter.shell(f"mount -t hugemap -o pool=64M,page={page} /lower /mnt/fast")
        try:
            one("hugemap-kernel", page, "/mnt/fast")
        finally:
            counter.shell("umount /mnt/fast")
    counter.shell("umount /lower")
    return rows


def run_command(counter: Counter, size_mib: int, seconds: float) -> list[dict]:
    """Run `hugemap bench` in the guest, on a file system on a RAM disk.

    A second there is 10^9 instructions. It does not include the time of a device.
    """
    print(f"hugemap bench --quick --size {size_mib}M", file=sys.stderr, flush=True)
    counter.shell("modprobe brd rd_nr=1 rd_size=524288 && mkfs.ext4 -q /dev/ram0 && mkdir -p /bench /tmp/out")
    counter.shell("mount -t ext4 /dev/ram0 /bench")
    results = []
    try:
        for scenario in COMMAND_SCENARIOS:
            counter.shell(
                f"hugemap bench --quick --scenario {scenario} --size {size_mib}M --pool {size_mib // 4}M"
                f" --dir /bench --json /tmp/out/{scenario}",
                seconds,
            )
            results.append(json.loads("\n".join(counter.shell(f"cat /tmp/out/{scenario}"))))
    finally:
        counter.shell("umount /bench")
    return results


def best_of_linux(rows: list[Row], row: Row) -> Row | None:
    same = [r for r in rows if r.engine == "linux-mmap" and r.scenario == row.scenario]
    if row.scenario not in WHOLE:
        if row.page == "2M":
            # Linux maps 4 KB pages here: the units differ.
            return None
        same = [r for r in same if r.page == row.page]
    return min(same, key=lambda r: r.insns, default=None)


def table(release: str, rows: list[Row]) -> str:
    lines = [f"Linux {release}: instructions in the guest, without the loop"]
    lines.append(f"{'scenario':16}{'page':6}{'setting':36}{'total':>15}{'each':>12}{'faults':>9}  of Linux's best")
    for row in rows:
        best = best_of_linux(rows, row)
        share = f"{row.insns / best.insns:.3f}" if best and row.engine != "linux-mmap" and best.insns > 0 else ""
        name = row.setting if row.engine != "linux-mmap" else f"Linux: {row.setting}"
        lines.append(
            f"{row.scenario:16}{row.page:6}{name:36}{row.insns:15,}{row.per_op:12,.0f}{row.faults:9,}  {share}".rstrip()
        )
    return "\n".join(lines)


def print_command(result: dict) -> None:
    print(f"\nhugemap bench in the guest: {COMMAND_MIB} MB, a pool of a quarter; 1 s is 10^9 instructions")
    for row in result.get("rows", []):
        words = [row.get("scenario"), row.get("engine"), row.get("page"), row.get("advice"), row.get("read_ahead_kb")]
        name = " ".join(str(word) for word in words if word not in (None, ""))
        speed, time = row.get("mb_s"), row.get("ns_op")
        result_text = f"{speed:8.0f} MB/s" if speed else f"{time:8.0f} ns" if time else f"{row.get('error')}"
        print(f"  {name:56}{result_text}")
    for cost in result.get("verdicts", {}).get("cost", []):
        print(f"  programs without a gain: {cost['time']:.4f} x the instructions and {cost['faults']:.4f} x the faults")


def count(kernel: kernels.Kernel, initrd: pathlib.Path, args: argparse.Namespace) -> dict:
    """All counts in one kernel, in the form of the JSON."""
    rows: list[Row] = []
    failed = []
    with contextlib.ExitStack() as stack:
        profiler = None
        if args.by_function:
            profiler = functions.Profiler(pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())))
        words = profiler.words() if profiler else []
        disks = {"ext4": (1 << 30, "ext4")}
        vm = stack.enter_context(guest.Guest(kernel, initrd, args.memory, disks, counted=True, more=words))
        counter = Counter(vm, args.scenario, args.what, profiler)
        counter.shell("modprobe null_blk nr_devices=2 gb=2 bs=4096 irqmode=0 && mkdir -p /mnt/fast")
        counter.shell("insmod /hugemap.ko")
        # Do not count the work of the kernel in its first seconds.
        counter.shell("sleep 5")
        parts = [("linux-mmap", count_linux), ("hugemap-kernel", count_hugemap)]
        if args.grow:
            counter.program = "count-grow"
            parts = [("grow", count_grow)]
        elif args.command_only:
            parts = []
        elif args.by_function or args.what:
            del parts[0]
        for name, part in parts:
            try:
                rows += part(counter)
            except Failed as error:
                failed.append(str(error))
                print(f"failed: {name}: {error}", file=sys.stderr)
        command: list[dict] = []
        if args.command_too:
            try:
                command = run_command(counter, COMMAND_MIB, 1200)
            except Failed as error:
                failed.append(str(error))
                print(f"failed: {error}", file=sys.stderr)
        splats = [line for line in vm.console if guest.SPLAT.search(line)]
    failed += splats
    if args.by_function:
        args.by_function.write_text(json.dumps({"kernel": kernel.release, "rows": counter.profiles}, indent=1) + "\n")
    for line in splats:
        print(f"the kernel wrote: {line}", file=sys.stderr)
    rows.sort(key=lambda row: (row.scenario, row.page, row.engine != "hugemap-kernel", row.insns))
    print(table(kernel.release, rows), flush=True)
    for result in command:
        print_command(result)
    described = []
    for row in rows:
        best = best_of_linux(rows, row)
        described.append(
            dataclasses.asdict(row)
            | {"insns_per_op": round(row.per_op, 1), "of_linux_best": round(row.insns / best.insns, 4) if best else None}
        )
    return {"kernel": kernel.release, "failed": failed, "rows": described, "hugemap_bench": command}


def write_json(results: list[dict], path: pathlib.Path) -> None:
    path.write_text(json.dumps({"schema": "hugemap-vm-bench-1", "kernels": results}, indent=1) + "\n")
