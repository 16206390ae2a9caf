#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""HugeMap's kernel engine in a virtual machine; see vm/README.md.

    run.py test [--kernel K] [--quick] [--source DIR] [NAME...]   run the tests of tests/kernel/guest/
    run.py test --race SEED [NAME...]                             ... with delays at race points
    run.py shell [--kernel K]                                     start a shell in a guest
    run.py bench [--kernel K] [--json FILE]                       count instructions
    run.py bench --applications [NAME...] [--out DIR]             ... of storage applications
    run.py boot [--kernel K]                                      test mounts at boot by systemd
    run.py xfstests --xfstests DIR [--kernel K] [--below FS] [NAME...]   run xfstests on hugemap
    run.py module [--kernel K] [--out DIR]                        build hugemap.ko only
"""
import argparse
import contextlib
import dataclasses
import fcntl
import fnmatch
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import applications
import bench
import boot
import guest
import initramfs
import kernels
import xfstests

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
GIB = 1 << 30
ALWAYS = ["virtio_pci", "virtio_blk", "ext4", "xfs", "loop", "null_blk", "brd"]
KEYS = {
    "page": "2M,4K",
    "lower": "ext4",
    "pool": "64M",
    "opts": "",
    "timeout": "120",
    "args": "",
    "name": "",
    "set": "quick",
    "since": "",
    "modules": "",
    "programs": "",
}
CHOICES = {
    "page": {"2M", "4K", "auto"},
    "lower": {"ext4", "xfs", "tmpfs", "dev", "none"},
    "set": {"quick", "long"},
}
PASSED_ON = ("SEED", "OPS")
OUTPUT_LINES = 60  # of a test that failed
DMESG_LINES = 250


class Wrong(Exception):
    """The command line or a `vm:` line is invalid."""


@dataclasses.dataclass
class Run:
    """A test with one set of settings."""

    name: str
    program: pathlib.Path  # its source
    page: str
    lower: str
    keys: dict[str, str]
    missing: str = ""  # the reason to skip it


@dataclasses.dataclass
class Result:
    outcome: str  # OK, FAILED, SKIPPED
    why: str = ""
    output: list[str] = dataclasses.field(default_factory=list)
    dmesg: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    guest_lost: bool = False


def fields_of(line: str, where: pathlib.Path) -> dict[str, str]:
    keys = dict(KEYS)
    for word in line.replace("*/", "").split():
        key, equals, value = word.partition("=")
        if key not in KEYS or not equals:
            raise Wrong(f"{where}: there is no setting {word!r}")
        keys[key] = value
        for one in value.split(","):
            if key in CHOICES and one not in CHOICES[key]:
                raise Wrong(f"{where}: {key} must be {', '.join(sorted(CHOICES[key]))}")
    return keys


def runs_of(source: pathlib.Path) -> list[Run]:
    """The runs of the `vm:` lines near the top of a test."""
    runs = []
    head = source.read_text().splitlines()[:40]
    for line in head:
        match = re.match(r"^\s*(?:/\*|\*|//|#)\s*vm:(.*)$", line)
        if not match:
            continue
        keys = fields_of(match[1], source)
        pages, lowers = keys["page"].split(","), keys["lower"].split(",")
        for lower in lowers:
            for page in pages if lower != "none" or "page=" in line else [""]:
                name = source.stem
                name += f"_{keys['name']}" if keys["name"] else ""
                name += f"_{page}" if page and len(pages) > 1 else ""
                name += f"_{lower}" if len(lowers) > 1 else ""
                runs.append(Run(name.replace("-", "_"), source, page, lower, keys))
    return runs


def find_tests(directory: pathlib.Path) -> tuple[list[Run], list[pathlib.Path]]:
    """All runs, and the programs that are compiled only."""
    runs, helpers = [], []
    for source in sorted([*directory.glob("*.c"), *directory.glob("*.sh")]):
        found = runs_of(source)
        if found:
            runs += found
        elif source.suffix == ".c" and re.search(r"^\W*vm-program\b", source.read_text(), re.MULTILINE):
            helpers.append(source)
    names = [run.name for run in runs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Wrong(f"several runs have the name {', '.join(sorted(twice))}")
    return runs, helpers


def compile_program(source: pathlib.Path, program: pathlib.Path) -> None:
    """Compile unless the program is newer than its source and its headers."""
    depends = program.with_suffix(".d")
    if program.exists() and depends.exists():
        # The format of the file: program: file file \\ file
        files = depends.read_text().partition(":")[2].replace("\\\n", " ").split()
        made = program.stat().st_mtime
        if all(os.path.exists(file) and os.stat(file).st_mtime < made for file in files):
            return
    command = ["gcc", "-static", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-pthread", "-MMD", "-MF", depends]
    command += ["-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wno-unused-parameter"]
    command += ["-I", TOP / "include", "-I", source.parent, "-o", program, source]
    subprocess.run([os.fspath(word) for word in command], check=True)


def base_archive(work: pathlib.Path, kernel: kernels.Kernel, module: pathlib.Path) -> initramfs.Archive:
    archive = initramfs.Archive()
    try:
        archive.program("busybox")
    except initramfs.Missing as error:
        raise kernels.Unavailable(f"{error} (package busybox-static)") from error
    archive.copy(HERE / "init", "/init")
    archive.copy(module, "/hugemap.ko")
    compile_program(HERE / "run-test.c", work / "run-test")
    archive.copy(work / "run-test", "/bin/run-test")
    archive.data("/etc/passwd", b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    archive.data("/etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    return archive


def test_archive(
    path: pathlib.Path,
    work: pathlib.Path,
    kernel: kernels.Kernel,
    module: pathlib.Path,
    runs: list[Run],
    helpers: list[pathlib.Path],
) -> None:
    archive = base_archive(work, kernel, module)
    for source in {run.program for run in runs} | set(helpers):
        if source.suffix == ".c":
            compile_program(source, work / source.stem)
            archive.copy(work / source.stem, f"/tests/{source.stem}")
        else:
            archive.data(f"/tests/{source.name}", source.read_bytes(), 0o755)
    archive.copy(TOP / "include/hugemap_counters.def", "/tests/hugemap_counters.def")
    modules = list(ALWAYS)
    for run in runs:
        modules += [name for name in run.keys["modules"].split(",") if name]
        for program in filter(None, run.keys["programs"].split(",")):
            try:
                add_program(archive, program)
            except initramfs.Missing as error:
                run.missing = str(error)
    archive.modules(kernel.modules, modules)
    archive.write(path)


def add_program(archive: initramfs.Archive, name: str) -> None:
    """Add a program of this machine, or of the build: `hugemap` and its benchmarks are not installed."""
    if name == "hugemap" and command_built().exists():
        archive.program(os.fspath(command_built()))
    elif name.startswith("hugemap-"):
        path = f"bench/{name.removeprefix('hugemap-')}/{name}"
        archive.program(os.fspath(command_built().parent / path), f"/bin/{path}")
    else:
        archive.program(name)


def quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def splats_in(lines: list[str]) -> list[str]:
    return [line for line in lines if guest.SPLAT.search(line)]


class Session:
    """Runs tests in one guest after another."""

    def __init__(self, kernel: kernels.Kernel, initrd: pathlib.Path, args: argparse.Namespace, xfs: bool) -> None:
        self.kernel, self.initrd, self.memory_mb = kernel, initrd, args.memory
        # QUICK makes random tests shorter; PASSED_ON repeats a failure of one.
        self.exported = {"QUICK": "1"} if args.quick else {}
        self.exported |= {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        self.load_with = f"race={args.race}" if args.race else ""
        self.patience = (5 if kernel.slow else 1) * (4 if args.race else 1)
        self.disks = {"ext4": (2 * GIB, "ext4"), "scratch": (GIB, "")}
        if xfs:
            self.disks["xfs"] = (2 * GIB, "xfs")
        self.guest: guest.Guest | None = None
        self.boots: list[float] = []

    def have_guest(self) -> guest.Guest:
        if not self.guest:
            self.guest = guest.Guest(self.kernel, self.initrd, self.memory_mb, self.disks)
            self.boots.append(self.guest.boot_s)
            seconds = 120 if self.kernel.slow else 30
            self.guest.ask(f"echo {seconds} >/proc/sys/kernel/hung_task_timeout_secs; answer", 30)
            for name, value in self.exported.items():
                self.guest.ask(f"export {name}={quote(value)}; answer", 30)
        return self.guest

    def lose_guest(self) -> None:
        if self.guest:
            self.guest.close()
        self.guest = None

    def step(self, name: str, command: str, seconds: float) -> Result:
        """Run a command in the guest. The result has its output and the kernel's log."""
        begin = time.monotonic()
        lines: list[str] = []
        since, answer, died = 0, "", ""
        try:
            vm = self.have_guest()
            since = len(vm.console)
            answer = vm.ask(command, seconds, lines)
            if "hugemap-test" in command and answer == "ok":
                vm.wait_console(f"hugemap-test: end {name}", since, 10)
        except guest.Died as error:
            died = str(error)
        dmesg = [line for line in (self.guest.console[since:] if self.guest else []) if "hugemap-test: " not in line]
        result = Result("OK", seconds=time.monotonic() - begin, dmesg=dmesg)
        result.output = [line[2:] if line.startswith("| ") else line for line in lines]
        output = [line for line in result.output if not line.startswith(("= ", "# "))]
        splats = splats_in(dmesg)
        if died or splats:
            wrote = f"the kernel wrote: {splats[0].strip()}" if splats else ""
            result.outcome, result.why = "FAILED", "; ".join(filter(None, (wrote, died)))
            result.output = output
        elif answer.startswith("fail"):
            result.outcome, result.why = "FAILED", answer[5:]
        elif answer.startswith("skip"):
            result.outcome, result.why = "SKIPPED", answer[5:]
        elif answer.startswith("ok "):
            result.output.append(answer[3:])
        if died or splats:
            result.guest_lost = True
            self.lose_guest()
        return result

    def load(self) -> Result:
        return self.step("load", f"load {self.load_with}".rstrip(), 180 * self.patience)

    def unload(self) -> Result:
        # KASAN keeps freed memory in a quarantine.
        return self.step("unload", f"unload {262144 if self.kernel.slow else 16384}", 120)

    def test(self, run: Run) -> Result:
        if run.missing:
            return Result("SKIPPED", run.missing)
        timeout = int(run.keys["timeout"]) * self.patience
        program = f"/tests/{run.program.stem if run.program.suffix == '.c' else run.program.name}"
        words = [run.name, run.lower, run.page, run.keys["pool"], run.keys["opts"]]
        words += [run.keys["modules"].replace(",", " "), str(timeout), "1" if self.kernel.slow else "0", program]
        words += [run.keys["args"]] if run.keys["args"] else []
        command = "try " + " ".join(quote(word) for word in words) + " # hugemap-test"
        # run-test kills the test at its timeout. The longer limit here is for a hung guest.
        result = self.step(run.name, command, timeout + 90)
        if result.outcome != "OK":
            return result
        how = [line for line in result.output if line.startswith("= ")]
        left = [line[2:] for line in result.output if line.startswith("# ")]
        result.output = [line for line in result.output if not line.startswith(("= ", "# "))]
        status = how[-1][2:] if how else "nothing"
        if status == "exit 77":
            result.outcome = "SKIPPED"
            result.why = result.output[-1].strip() if result.output else "the test gives no reason"
            result.why = re.sub(r"^skip\w*:\s*", "", result.why)
        elif status != "exit 0":
            result.outcome = "FAILED"
            result.why = {
                "timeout": f"timeout after {timeout} s",
                "left": "the test left processes behind",
                "stuck": "the processes of the test cannot be killed",
                "nothing": "run-test reported no exit status",
            }.get(status, status)
        elif left:
            result.outcome, result.why = "FAILED", left[0]
        if result.outcome == "FAILED" and (left or status in ("stuck", "timeout")):
            self.lose_guest()
            result.guest_lost = True
        return result


class Tally:
    """Prints results as cmocka does, for tools/tally-tests.py, and counts them."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.passed = 0
        self.skipped = 0
        self.failed: list[tuple[str, str]] = []  # names and reasons
        self.times: dict[str, int] = {}
        self.lock = threading.Lock()

    def show_numbered(self, name: str, result: Result) -> None:
        """Show a result of each guest; number its name."""
        with self.lock:
            self.times[name] = self.times.get(name, 0) + 1
            name += f"_{self.times[name]}" if self.times[name] > 1 else ""
        self.show(name, result)

    def show(self, name: str, result: Result) -> None:
        with self.lock:
            self._show(name, result)

    def _show(self, name: str, result: Result) -> None:
        print(f"[ RUN      ] {name}")
        if result.outcome == "FAILED":
            self.failed.append((name, result.why))
            print(f"{name}: {result.why}")
            for title, lines, most in (("output", result.output, OUTPUT_LINES), ("dmesg", result.dmesg, DMESG_LINES)):
                if len(lines) > most:
                    # Show a report of the kernel from its start.
                    splat = next((i for i, line in enumerate(lines) if guest.SPLAT.search(line)), len(lines))
                    start = max(0, min(splat - 5, len(lines) - most))
                    lines = [f"({start} lines before)", *lines[start : start + most]]
                for line in lines:
                    print(f"  {title}: {line}")
            print(f"[  FAILED  ] {name}")
        elif result.outcome == "SKIPPED":
            self.skipped += 1
            print(f"skipped: {result.why}")
            print(f"[  SKIPPED ] {name}")
        else:
            self.passed += 1
            for line in result.output if self.verbose else []:
                print(f"  output: {line}")
            print(f"  {result.seconds:.1f} s")
            print(f"[       OK ] {name}", flush=True)
        sys.stdout.flush()

    def end(self, words: str) -> None:
        for name, why in self.failed:
            # The reason is far above, before the log of the kernel.
            print(f"failed: {name}: {why}")
        print(f"{words}: {self.passed} passed, {len(self.failed)} failed, {self.skipped} skipped", flush=True)


def is_quick(run: Run) -> bool:
    """Whether a run is in the quick set. Mounts with page=auto have pages of both sizes."""
    pages, lowers = run.keys["page"].split(","), run.keys["lower"].split(",")
    doubled = run.page == "4K" or (run.page == "2M" and run.lower != lowers[0])
    return run.keys["set"] == "quick" and not (doubled and "auto" in pages)


def chosen(runs: list[Run], patterns: list[str], quick: bool) -> list[Run]:
    if not patterns:
        return [run for run in runs if not quick or is_quick(run)]
    found = [run for run in runs if any(fnmatch.fnmatch(run.name, p) or run.program.stem == p for p in patterns)]
    if not found:
        raise Wrong(f"no test matches {' '.join(patterns)}; there are: {', '.join(run.name for run in runs)}")
    return found


def command_built() -> pathlib.Path:
    """The command `hugemap`. Guests get it if it has been built."""
    return pathlib.Path(os.environ.get("HM_BUILD") or TOP / "build") / "hugemap"


def work_directory(kernel: kernels.Kernel, source: pathlib.Path | None) -> pathlib.Path:
    """The build directory for a kernel and a source tree."""
    build = pathlib.Path(os.environ.get("HM_BUILD") or TOP / "build")
    name = kernel.release
    if source and source.resolve() != TOP:
        name += "-" + hashlib.sha256(os.fspath(source.resolve()).encode()).hexdigest()[:8]
    work = build / "vm" / name
    work.mkdir(parents=True, exist_ok=True)
    return work


@contextlib.contextmanager
def building(work: pathlib.Path) -> Iterator[pathlib.Path]:
    """Lock the build directory. Yield the path for the guest's archive."""
    archive = work / f"initramfs-{os.getpid()}.cpio"
    for old in work.glob("initramfs-*.cpio"):
        if not os.path.exists(f"/proc/{old.stem.split('-')[1]}"):
            old.unlink()
    with open(work / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield archive


def run_queue(session: Session, queue: list[Run], tally: Tally, stopping: threading.Event) -> None:
    """Run the tests of the queue, one after the other."""
    need_module, loaded = True, Result("OK")
    while not stopping.is_set():
        try:
            run = queue.pop()
        except IndexError:
            break
        if need_module and not run.missing:
            loaded = session.load()
            tally.show_numbered("module_load", loaded)
            if loaded.outcome != "OK":
                # All other tests would fail, too.
                queue.clear()
                return
            need_module = False
        result = session.test(run)
        if not stopping.is_set():
            tally.show(run.name, result)
        need_module = need_module or result.guest_lost
    if session.guest and not need_module and not stopping.is_set():
        tally.show_numbered("module_unload", session.unload())


def test_kernel(name: str, args: argparse.Namespace) -> bool | None:
    """Run the tests in one kernel. None: the kernel is not available."""
    runs, helpers = find_tests(args.tests)
    runs = chosen(runs, args.names, args.quick)
    try:
        kernel = kernels.get(name)
        runs = [run for run in runs if kernels.by_version(kernel.release) >= kernels.by_version(run.keys["since"])]
        guest.acceleration()
        work = work_directory(kernel, args.source)
        with building(work) as initrd:
            out = work / ("module-race" if args.race else "module")
            module = kernels.build_module(kernel, out, args.source, bool(args.race))
            test_archive(initrd, work, kernel, module, runs, helpers)
    except kernels.Unavailable as error:
        print(f"skipped: kernel {name}: {error}", flush=True)
        return None
    xfs = shutil.which("mkfs.xfs", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    for run in runs:
        if run.lower == "xfs" and not xfs:
            run.missing = "this machine has no mkfs.xfs (package xfsprogs)"
    print(f"kernel {kernel.release}, {len(runs)} tests", flush=True)
    tally, begin = Tally(args.verbose), time.monotonic()
    queue = list(reversed(runs))
    sessions: list[Session] = []
    stopping = threading.Event()

    def work_off() -> None:
        session = Session(kernel, initrd, args, bool(xfs))
        sessions.append(session)
        try:
            run_queue(session, queue, tally, stopping)
        except Exception as error:  # the main thread raises it again
            broken.append(error)
        finally:
            session.lose_guest()

    broken: list[Exception] = []
    workers = [threading.Thread(target=work_off, daemon=True) for _ in range(max(1, min(args.jobs, len(runs))))]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except BaseException:
        # The workers wait for their guests: kill these.
        stopping.set()
        queue.clear()
        for session in sessions:
            if session.guest:
                session.guest.kill()
        for worker in workers:
            worker.join(10)
        raise
    finally:
        initrd.unlink(missing_ok=True)
    if broken:
        raise broken[0]
    boots = ", ".join(f"{seconds:.0f}" for session in sessions for seconds in session.boots)
    tally.end(f"{kernel.release}: {time.monotonic() - begin:.0f} s, boots {boots} s")
    return not tally.failed and tally.passed > 0


def test(args: argparse.Namespace) -> int:
    names = list(kernels.SERIES) if args.kernel == "all" else args.kernel.split(",")
    results = [test_kernel(name, args) for name in names]
    if False in results:
        return 1
    return 77 if all(result is None for result in results) else 0


def shell(args: argparse.Namespace) -> int:
    kernel = kernels.get(args.kernel)
    work = work_directory(kernel, args.source)
    with building(work) as initrd:
        module = kernels.build_module(kernel, work / "module", args.source)
        archive = base_archive(work, kernel, module)
        archive.modules(kernel.modules, ALWAYS)
        archive.copy(HERE / "shell", "/shell")
        compile_program(HERE / "touch-pages.c", work / "touch-pages")
        archive.copy(work / "touch-pages", "/bin/touch-pages")
        for program in ("fio", os.fspath(command_built())):
            with contextlib.suppress(initramfs.Missing):
                archive.program(program)
        archive.write(initrd)
    scratch = guest.make_scratch()
    try:
        guest.make_disk(scratch / "ext4", 4 * GIB, "ext4")
        guest.make_disk(scratch / "spare", GIB)
        disks = {name: scratch / name for name in ("ext4", "spare")}
        command = guest.command_line(kernel, initrd, args.memory, disks, "hm_shell quiet")
        return subprocess.run([*command, "-serial", "mon:stdio"], check=False).returncode
    finally:
        initrd.unlink(missing_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)


def count(args: argparse.Namespace) -> int:
    if args.applications is not None:
        return count_applications(args)
    args.command_too |= args.command_only
    if args.command_too and not command_built().exists():
        raise Wrong(f"{command_built()} has not been built: make build")
    names = list(kernels.SERIES) if args.kernel == "all" else args.kernel.split(",")
    if args.by_function and (len(names) > 1 or args.command_only):
        raise Wrong("--by-function needs one kernel (--kernel 6.1), and excludes --command-only")
    results = []
    for name in names:
        try:
            kernel = kernels.get(name)
            guest.acceleration()
        except kernels.Unavailable as error:
            print(f"skipped: kernel {name}: {error}", file=sys.stderr)
            continue
        work = work_directory(kernel, args.source)
        with building(work) as initrd:
            module = kernels.build_module(kernel, work / "module", args.source)
            archive = base_archive(work, kernel, module)
            for program in ("count-insns", "count-grow"):
                compile_program(HERE / "bench" / f"{program}.c", work / program)
                archive.copy(work / program, f"/bin/{program}")
            archive.modules(kernel.modules, bench.MODULES)
            if args.command_too:
                archive.program(os.fspath(command_built()))
            if args.command_too or args.grow:
                archive.program("mkfs.ext4")
            archive.write(initrd)
        try:
            results.append(bench.count(kernel, initrd, args))
        finally:
            initrd.unlink(missing_ok=True)
    if args.json:
        bench.write_json(results, args.json)
    if not results:
        return 77
    return 1 if any(result["failed"] for result in results) else 0


def count_applications(args: argparse.Namespace) -> int:
    """Count applications in one kernel. Their tables are files of args.out."""
    build = command_built().parent
    kernel = kernels.get(args.kernel)
    guest.acceleration()
    unknown = set(args.applications) - set(applications.APPLICATIONS)
    if unknown:
        raise Wrong(f"no application {', '.join(unknown)}; there are: {', '.join(applications.APPLICATIONS)}")
    args.out = args.out or build / "results"
    work = work_directory(kernel, args.source)
    with building(work) as initrd:
        archive = base_archive(work, kernel, kernels.build_module(kernel, work / "module", args.source))
        for program in applications.PROGRAMS:
            compile_program(HERE / "bench" / f"{program}.c", work / program)
            archive.copy(work / program, f"/bin/{program}")
        archive.modules(kernel.modules, bench.MODULES)
        try:
            applications.fill(archive, build)
        except initramfs.Missing as error:
            raise Wrong(f"{error}: make build") from error
        archive.write(initrd)
    try:
        return 1 if applications.count(kernel, initrd, args) else 0
    finally:
        initrd.unlink(missing_ok=True)


def test_boot(args: argparse.Namespace) -> int:
    """Test mounts at boot by systemd. The first failed step ends the test."""
    if not command_built().exists():
        raise Wrong(f"{command_built()} has not been built: make build")
    kernel = kernels.get(args.kernel)
    guest.acceleration()
    work = work_directory(kernel, args.source)
    machine, tally, begin = None, Tally(False), time.monotonic()
    with building(work) as initrd:
        archive = initramfs.Archive()
        built = kernels.build_module(kernel, work / "module", args.source)
        compile_program(HERE / "boot" / "store.c", work / "store")
        try:
            boot.fill(archive, kernel, built, command_built(), work / "store")
        except initramfs.Missing as error:
            raise kernels.Unavailable(str(error)) from error
        archive.write(initrd)
    try:
        machine = boot.Machine(kernel, initrd)
        for name, step in machine.steps():
            result, since = Result("OK"), time.monotonic()
            try:
                step()
            except (boot.Failed, guest.Died) as error:
                result = Result("FAILED", str(error))
            dmesg = machine.console_now()
            if splats_in(dmesg):
                result = Result("FAILED", f"the kernel wrote: {splats_in(dmesg)[0].strip()}")
            result.seconds = time.monotonic() - since
            result.dmesg = dmesg if result.outcome == "FAILED" else []
            tally.show(name, result)
            if result.outcome == "FAILED":
                break
        boots = ", ".join(f"{seconds:.0f}" for seconds in machine.boots)
    finally:
        if machine:
            machine.close()
        initrd.unlink(missing_ok=True)
    tally.end(f"{kernel.release}: {time.monotonic() - begin:.0f} s, boots {boots} s")
    return 1 if tally.failed else 0


def run_xfstests(args: argparse.Namespace) -> int:
    kernel = kernels.get(args.kernel)
    guest.acceleration()
    work = work_directory(kernel, args.source)
    args.results = args.results or work.parent.parent / "xfstests" / f"{args.kernel}-{args.below}"
    with building(work) as initrd:
        archive = initramfs.Archive()
        try:
            xfstests.fill(archive, kernel, kernels.build_module(kernel, work / "module", args.source))
        except initramfs.Missing as error:
            raise kernels.Unavailable(str(error)) from error
        archive.write(initrd)
    try:
        return xfstests.run(kernel, initrd, args)
    except xfstests.Unusable as error:
        raise Wrong(str(error)) from error
    finally:
        initrd.unlink(missing_ok=True)


def module(args: argparse.Namespace) -> int:
    if args.kernel == "running":
        release = os.uname().release
        kdir = f"/lib/modules/{release}/build"
        if not os.path.exists(f"{kdir}/Makefile"):
            print(
                f"There are no headers of the running kernel {release}. Install linux-headers-{release}, or"
                " build for one of Debian's kernels: make module KERNEL=6.1 (6.12, 7)",
                file=sys.stderr,
            )
            return 1
        kernel = kernels.Kernel("running", release, pathlib.Path(), pathlib.Path(), None, kdir)
    else:
        kernel = kernels.get(args.kernel)
    work = work_directory(kernel, args.source)
    with building(work):
        print(kernels.build_module(kernel, args.out or work / "module", args.source))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("test", "shell", "bench", "boot", "xfstests", "module"):
        sub = commands.add_parser(name)
        sub.add_argument("--kernel", default="running" if name == "module" else "6.1")
        sub.add_argument("--source", type=pathlib.Path, help="build the module from this tree")
        sub.add_argument("--memory", type=int, default=2048, help="memory of the guest, MiB")
        if name == "module":
            sub.add_argument("--out", type=pathlib.Path)
        if name == "bench":
            sub.add_argument("--json", type=pathlib.Path, help="also write the counts to this file")
            sub.add_argument("--scenario", help="count only scenarios of count-insns.c with this in their name")
            sub.add_argument("--what", help="count these scenarios of count-insns.c, on 64 MB that fit into the pool")
            sub.add_argument("--grow", action="store_true", help="count only small steps of growth, with count-grow.c")
            sub.add_argument("--by-function", type=pathlib.Path, metavar="FILE", help="write counts for functions.py")
            names = ", ".join(applications.APPLICATIONS)
            sub.add_argument("--applications", nargs="*", metavar="NAME", help=f"count only applications: {names}")
            sub.add_argument("--out", type=pathlib.Path, help="directory of their tables, build/results by default")
            sub.add_argument("--command-too", action="store_true", help="also run hugemap bench")
            sub.add_argument("--command-only", action="store_true", help="run hugemap bench only")
        if name == "xfstests":
            sub.add_argument("--xfstests", type=pathlib.Path, required=True, help="a built xfstests")
            sub.add_argument("--below", choices=("ext4", "xfs"), default="ext4", help="the lower file system")
            sub.add_argument("--group", default="quick", help="run this group of tests, unless names are given")
            sub.add_argument("--pool", default="128M", help="the size of the pool of each of two mounts")
            sub.add_argument("--limit", type=int, default=600, help="seconds that a test may take")
            sub.add_argument("--results", type=pathlib.Path, help="the file with the results; tests in it do not run")
            sub.add_argument("names", nargs="*", help="tests: generic/001 ...")
        if name == "test":
            sub.add_argument("--tests", type=pathlib.Path, default=TOP / "tests" / "kernel" / "guest")
            sub.add_argument("--verbose", action="store_true", help="also print the output of tests that pass")
            sub.add_argument("--race", type=int, metavar="SEED", help="delay tasks at race points")
            sub.add_argument("--jobs", type=int, default=1, help="number of guests that run at the same time")
            sub.add_argument("--quick", action="store_true", help="skip long tests, and shorten random ones")
            sub.add_argument("names", nargs="*", help="names of runs or tests, or patterns")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    try:
        todo = {"test": test, "shell": shell, "bench": count, "boot": test_boot}
        todo |= {"xfstests": run_xfstests, "module": module}
        return todo[args.command](args)
    except kernels.Unavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77
    except Wrong as error:
        print(error, file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"failed: {' '.join(str(word) for word in error.cmd)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
