# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A row of programs.py, and one run of its program: plain or under `hugemap run`."""
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
    """The machine lacks a requirement of the row."""


class Different(Exception):
    """Output, files or exit status differ from the run without HugeMap."""


def need(name, package=None):
    """Return the path of a program, in PATH or in the directories of Debian."""
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
    """Write all files to the disk, and remove them from the page cache if `forget` is set."""
    for top, _, names in os.walk(directory):
        for name in names:
            try:
                fd = os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK)
            except OSError:  # a socket, or already deleted
                continue
            os.fsync(fd)
            if forget:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def warm_memory(size=WARM):
    """
    The host may have taken memory that this virtual machine did not use for seconds, and the first
    access to it is slow. Touch as much as a run uses, so that both kinds of runs find it.
    """
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def make_data(path, size, seed=1):
    source = random.Random(seed)
    with open(path, "wb") as file:
        for _ in range(size // MB):
            file.write(source.randbytes(MB))


class MemoryGroup:
    """A memory control group for one run. Its limit includes the page cache."""
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
        raise Skip("cannot create a memory control group")

    def wrap(self, command):
        """Return a command that runs `command` in the group."""
        return ["sh", "-c", 'echo 0 >"$0" && exec "$@"', f"{self.path}/cgroup.procs", *command]

    def __exit__(self, *_):
        for _ in range(100):  # the kernel removes the last process a moment after its end
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)


class Program:
    """A program under test. Each run gets new files."""
    text = True  # its output must be the same
    options = []  # of hugemap run
    memory = None  # limit for the program and its page cache; None: no limit
    only_reads = False  # all turns can use the same files
    writes = False  # it only reads these files, but writes another one
    together = True  # two runs can use its files at the same time

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
    """A script for Python. Its argument is the path of its data."""
    modules = []
    script = ""
    make = None  # a script that creates the data

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
    """A script for sh that runs in the directory of the files: a server and its clients."""
    script = ""

    def command(self):
        return ["sh", "-euc", self.script]


@contextlib.contextmanager
def prepared(kind, args):
    """Create the files of a program in a separate directory, and yield the program."""
    with tempfile.TemporaryDirectory(prefix="hugemap-programs-", dir=args.dir,
                                     ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o755)  # the server of another user must reach its files
        program = kind(directory, args.python)
        program.prepare()
        yield program


def full_command(program, hugemap, under):
    command = program.command()
    if under:
        command = [hugemap, "run", "--summary", *program.options, "--", *command]
    return command


def run_once(program, hugemap, under):
    """Run a program to its end and return its Result. Raises Different if it failed."""
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
