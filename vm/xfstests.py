# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Run the user's xfstests on hugemap in guests; see vm/README.md.

The results go to a file, one line for each test. A test with a line there does not run again.
A test that hangs or ends the guest has failed; the other tests go on in a new guest.
"""
import dataclasses
import datetime
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import guest
import initramfs
import kernels

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, os.fspath(HERE.parent / "tools"))
import debian_root  # noqa: E402  pylint: disable=wrong-import-position

GIB = 1 << 30
SUITE = "bookworm"
PACKAGES = ("acl", "attr", "bc", "dbench", "dmsetup", "e2fsprogs", "fio", "gawk", "iproute2", "kmod", "libaio1",
            "libcap2-bin", "libgdbm-compat4", "libgdbm6", "liburing2", "mount", "perl", "procps", "psmisc",
            "python3-minimal", "quota", "uuid-runtime", "xfsprogs")
MODULES = ["virtio_pci", "virtio_blk", "ext4", "xfs", "loop", "overlay", "dm_mod", "dm_flakey", "fuse"]
PASSED, NOT_RUN, FAILED, FAILS_BELOW = "passed", "not run", "failed", "fails below"
LINE = re.compile(rf"^(generic/\d+) ({PASSED}|{NOT_RUN}|{FAILED}|{FAILS_BELOW})(?:: (.*))?$")
BEGIN = re.compile(r"^\| (generic/\d+) +(.*)$")
BOOT_S = 300  # from the start of ./check to the end of its first test, in addition
BATCH = 20  # tests of one call of ./check
DETAILS = 40  # lines of a test that failed


class Unusable(Exception):
    """The directory is no built xfstests, or ./check does not start."""


@dataclasses.dataclass
class Outcome:
    test: str
    status: str
    why: str = ""
    details: list[str] = dataclasses.field(default_factory=list)
    reported: bool = False  # by ./check; otherwise the test hung, or the guest ended

    def __str__(self) -> str:
        return f"{self.test} {self.status}" + (f": {self.why}" if self.why else "")


def find_tests(xfstests: pathlib.Path, names: list[str], group: str) -> list[str]:
    """The tests of generic/ by name, or those of a group, in order."""
    if not (xfstests / "check").exists() or not (xfstests / "ltp" / "fsstress").exists():
        raise Unusable(f"{xfstests} is no built xfstests: it needs ./check and ltp/fsstress")
    found = []
    for path in sorted((xfstests / "tests" / "generic").iterdir()):
        if not path.name.isdigit():
            continue
        groups = re.search(r"^_begin_fstest (.*)$", path.read_text(errors="replace"), re.MULTILINE)
        name = f"generic/{path.name}"
        if name in names if names else groups and group in groups[1].split():
            found.append(name)
    missing = set(names) - set(found)
    if missing or not found:
        raise Unusable(f"{xfstests} has no test {', '.join(sorted(missing)) or f'of the group {group}'}")
    return found


def version_of(xfstests: pathlib.Path) -> str:
    command = ["git", "-C", xfstests, "log", "-1", "--format=%h of %cs"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or "unknown"


def fill(archive: initramfs.Archive, kernel: kernels.Kernel, module: pathlib.Path) -> None:
    """Fill an archive with the boot programs and with the files to install on the disk."""
    archive.program("busybox")
    archive.copy(HERE / "boot" / "init", "/init")
    archive.modules(kernel.modules, MODULES)
    tree = f"/payload/usr/lib/modules/{kernel.release}"
    archive.copy(module, f"{tree}/updates/hugemap.ko")
    for name in ("modules.order", "modules.builtin.modinfo"):  # for depmod
        archive.copy(kernel.modules / name, f"{tree}/{name}")
    archive.copy(HERE / "xfstests" / "init", "/payload/usr/sbin/init")
    archive.copy(HERE / "xfstests" / "mount.fuse.hugemap", "/payload/usr/sbin/mount.fuse.hugemap")
    archive.copy(HERE / "xfstests" / "df", "/payload/usr/local/bin/df")
    for directory in ("/opt/hugemap", "/below", "/mnt"):
        archive.directory("/payload" + directory)


def make_disks(scratch: pathlib.Path, xfstests: pathlib.Path) -> dict[str, pathlib.Path]:
    """A disk with Debian 12, without a kernel, and one with xfstests."""
    disks = {name: scratch / name for name in ("root", "xfstests")}
    try:
        root = debian_root.base(SUITE, PACKAGES)
    except debian_root.Unavailable as error:
        raise kernels.Unavailable(str(error)) from error
    with debian_root.locked(debian_root.lock_of(root), fcntl.LOCK_SH):
        guest.make_disk(disks["root"], 4 * GIB, "ext4", root)
    guest.make_disk(disks["xfstests"], 4 * GIB, "ext4", xfstests)
    return disks


def outcome_of(test: str, rest: str) -> Outcome:
    """The outcome that a line of ./check reports."""
    rest = re.sub(r"^\d+s \.\.\. *", "", rest).strip()
    if rest.startswith("[not run]"):
        return Outcome(test, NOT_RUN, rest.removeprefix("[not run]").strip(), reported=True)
    if re.fullmatch(r"\d+s", rest):
        return Outcome(test, PASSED, reported=True)
    why = re.sub(r" *\(see [^)]*\)", "", rest.lstrip("- ")) or "no reason given"
    return Outcome(test, FAILED, re.sub(r" \d+s$", "", why), reported=True)


class Runner:
    """Runs tests in one guest after another."""

    def __init__(
        self, kernel: kernels.Kernel, initrd: pathlib.Path, disks: dict, below: str, pool: str, limit: int, memory: int
    ) -> None:
        self.kernel, self.initrd, self.disks, self.memory_mb = kernel, initrd, disks, memory
        self.below, self.pool, self.limit = below, pool, limit
        self.works = False  # ./check has run a test

    def boot(self, plain: bool) -> guest.Guest:
        # plain: ./check makes the file systems.
        disks = self.disks | {name: (6 * GIB, self.below) for name in ("test", "scratch")}
        vm = guest.Guest(self.kernel, self.initrd, self.memory_mb, disks)
        output: list[str] = []
        try:
            words = self.below if plain else f"{self.below} {self.pool}"
            if vm.ask(f"prepare {words}; answer $?", 120, output) != "0":
                raise Unusable("the guest could not be prepared:\n" + "\n".join(output))
        except guest.Died as error:
            vm.close()
            raise Unusable(f"the guest ended before the first test: {error}") from error
        except BaseException:
            vm.close()
            raise
        return vm

    def run(self, tests: list[str], plain: bool = False) -> Iterator[Outcome]:
        """Yield the outcome of each test."""
        waiting = list(tests)
        while waiting:
            with self.boot(plain) as vm:
                # ./check takes long to start with many arguments.
                while waiting and vm.process:
                    yield from self.follow(vm, waiting, waiting[:BATCH])

    def follow(self, vm: guest.Guest, waiting: list[str], batch: list[str]) -> Iterator[Outcome]:
        """Yield outcomes until ./check or the guest ends, and remove these tests from `waiting`."""
        failed, output = None, []
        since = len(vm.console)
        seconds = self.limit + BOOT_S
        try:
            vm.send("run " + " ".join(batch))
        except guest.Died:
            vm.close()
            return  # between two batches: no test has failed
        deadline = time.monotonic() + seconds
        why = "./check ended before this test"
        try:
            while True:
                line = vm.read_answer(deadline)
                begin = BEGIN.match(line)
                if (begin or line.startswith("@@")) and failed:
                    yield failed
                    failed = None
                if line.startswith("@@"):
                    if not self.works:
                        raise Unusable("./check runs no test:\n" + "\n".join(output[-DETAILS:]))
                    break
                output.append(line)
                if begin and begin[1] in waiting:
                    outcome = outcome_of(begin[1], begin[2])
                    waiting.remove(outcome.test)
                    self.works = True
                    since, seconds = len(vm.console), self.limit
                    deadline = time.monotonic() + seconds
                    if outcome.status == FAILED:
                        failed = outcome  # its details follow
                    else:
                        yield outcome
                elif re.match(r"\| (Ran|Not run|Failures|Failed|Passed)\b", line):
                    continue
                elif failed and line[2:].strip():
                    failed.details.append(line[2:])
        except guest.Died as error:
            if failed:
                yield failed
            why = f"no end after {seconds} s" if "in time" in str(error) else str(error)
        lost = [test for test in batch if test in waiting][:1]
        for test in lost:
            waiting.remove(test)
            yield Outcome(test, FAILED, why, vm.console[since:][-DETAILS:])


class Results:
    """The file with the results."""

    def __init__(self, path: pathlib.Path, title: str) -> None:
        self.path = path
        self.by_test: dict[str, Outcome] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(f"# {title}\n")
        old = path.read_text().partition("\n")[0].removeprefix("# ")
        if old.rpartition(", ")[0] != title.rpartition(", ")[0]:  # without the date
            raise Unusable(f"{path} has results of another kind: {old}")
        for line in path.read_text().splitlines():
            match = LINE.match(line)
            if match:
                self.by_test[match[1]] = Outcome(match[1], match[2], match[3] or "")

    def add(self, outcome: Outcome) -> None:
        print(outcome, flush=True)
        for line in outcome.details[:DETAILS]:
            print(f"  {line}", flush=True)
        self.by_test[outcome.test] = outcome
        head = [line for line in self.path.read_text().splitlines() if line.startswith("#")]
        lines = head + [str(self.by_test[test]) for test in sorted(self.by_test)]
        new = self.path.with_name(self.path.name + ".new")
        new.write_text("\n".join(lines) + "\n")
        new.rename(self.path)

    def count(self, tests: list[str], status: str) -> int:
        return sum(self.by_test[test].status == status for test in tests if test in self.by_test)


def run(kernel: kernels.Kernel, initrd: pathlib.Path, args) -> int:
    tests = find_tests(args.xfstests, args.names, args.group)
    today = datetime.date.today().isoformat()
    title = f"kernel {kernel.release}, {args.below} below, pool={args.pool}, "
    title += f"xfstests {version_of(args.xfstests)}, {today}"
    results = Results(args.results, title)
    scratch = guest.make_scratch()
    try:
        disks = make_disks(scratch, args.xfstests)
        runner = Runner(kernel, initrd, disks, args.below, args.pool, args.limit, args.memory)
        for outcome in runner.run([test for test in tests if test not in results.by_test]):
            results.add(outcome)
        # A test that fails without hugemap as well shows no defect of hugemap.
        failed = [test for test in tests if results.by_test[test].status == FAILED]
        runner.works = False  # ./check has other settings there
        for outcome in runner.run(failed, plain=True):
            if outcome.status == FAILED and outcome.reported:
                results.add(Outcome(outcome.test, FAILS_BELOW, results.by_test[outcome.test].why))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    counts = [f"{results.count(tests, status)} {status}" for status in (PASSED, NOT_RUN, FAILED, FAILS_BELOW)]
    print(f"{kernel.release}, {args.below}: {', '.join(counts)}; {args.results}", flush=True)
    return 1 if results.count(tests, FAILED) else 0
