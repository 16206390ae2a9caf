# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What a row of programs.py is, and one run of it: plain, or under `hugemap run`."""
import collections
import contextlib
import hashlib
import itertools
import mmap
import os
import random
import re
import shutil
import subprocess
import tempfile
import time

MB = 1 << 20
CACHE = os.path.expanduser("~/.cache/hugemap")
PATTERN = re.compile(r"^    (stream|streams|backward|strided|chunks|random|hinted|unknown) ", re.M)
ADVICE = re.compile(r"^      advised: ([^;\n]*)", re.M)

WARM = 1024 * MB
MADV_POPULATE_WRITE = 23

Result = collections.namedtuple("Result", "seconds synced processor faults output digest advice")


class Skip(Exception):
    """The row needs something that is not here."""


class Different(Exception):
    """What it printed, left in its files, or exited with is not what it is without."""


def need(name, package=None):
    """Where a program is, in PATH or where Debian has it."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if not path:
        raise Skip(f"{package or name} is not installed")
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
            try:
                fd = os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK)
            except OSError:  # a socket, or gone by now
                continue
            os.fsync(fd)
            if forget:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


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
    number = itertools.count()

    def __init__(self, limit):
        self.limit = limit
        self.path = None

    def __enter__(self):
        with open("/proc/self/cgroup") as file:
            lines = [line.strip().split(":", 2) for line in file]
        above = [("/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes")
                 for _, names, path in lines if "memory" in names.split(",")]
        above += [("/sys/fs/cgroup" + path, "memory.max") for _, names, path in lines if not names]
        name = f"hugemap-programs.{os.getpid()}.{next(self.number)}"
        for top, setting in above:
            self.path = os.path.join(top, name)
            try:
                os.mkdir(self.path)
                with open(os.path.join(self.path, setting), "w") as file:
                    file.write(str(self.limit))
                return self
            except OSError:
                if os.path.isdir(self.path):
                    os.rmdir(self.path)
        raise Skip("no memory control group can be made here")

    def wrap(self, command):
        """The command, started in the group."""
        return ["sh", "-c", 'echo 0 >"$0" && exec "$@"', f"{self.path}/cgroup.procs", *command]

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
    options = []  # of hugemap run
    memory = None  # of the program and its page cache; None: no limit
    only_reads = False  # its files can be used for all turns
    writes = False  # and yet it writes one anew
    together = True  # and by two at a time

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


class Python(Program):
    """A script for Python; what it is given is the path of its data."""
    modules = []
    script = ""
    make = None  # a script that makes the data

    def prepare(self):
        test = subprocess.run([self.python, "-c", "import " + ", ".join(self.modules)],
                              capture_output=True)
        if test.returncode:
            raise Skip(f"{self.python} has no {', '.join(self.modules)}")
        if self.make:
            subprocess.run([self.python, "-c", self.make, self.path("data")], check=True,
                           capture_output=True)

    def command(self):
        return [self.python, "-c", self.script, self.path("data")]


class Shell(Program):
    """A script for sh, run where the files are: servers and who uses them, together."""
    script = ""

    def command(self):
        return ["sh", "-euc", self.script]


@contextlib.contextmanager
def prepared(kind, args):
    """The program, its files made in a directory of their own."""
    with tempfile.TemporaryDirectory(prefix="hugemap-programs-", dir=args.dir,
                                     ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o755)  # a server of another user's may look at its own below
        program = kind(directory, args.python)
        program.prepare()
        yield program


def full_command(program, hugemap, under):
    command = program.command()
    if under:
        command = [hugemap, "run", "--summary", *program.options, "--", *command]
    return command


def run_once(program, hugemap, under):
    """Run it to its end: Result, or Different if it failed."""
    group = MemoryGroup(program.memory) if program.memory else contextlib.nullcontext()
    with (tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, group):
        start = time.monotonic()
        command = full_command(program, hugemap, under)
        child = subprocess.Popen(group.wrap(command) if program.memory else command, stdout=out,
                                 stderr=err, stdin=subprocess.DEVNULL, cwd=program.dir)
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
    return Result(seconds, synced, usage.ru_utime + usage.ru_stime, usage.ru_minflt +
                  usage.ru_majflt, program.clean(output) if program.text else None,
                  digest(program.files()), (patterns, kinds))
