# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Helpers for the tests of the command line."""
import contextlib
import fcntl
import glob
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

HUGEMAP = os.environ["HUGEMAP"]
ROOT = os.environ["SOURCE_ROOT"]
BUILD = os.environ["BUILD_ROOT"]
LONG = 600  # seconds that nothing here takes, on a busy machine either


def hugemap(*args, **kwargs):
    return subprocess.run([HUGEMAP, *args], capture_output=True, text=True, **kwargs)


def read_text(path):
    with open(path) as file:
        return file.read()


def cgroups(pid):
    """The control groups of a benchmark."""
    found = glob.glob(f"/sys/fs/cgroup/**/hugemap-bench.{pid}.*", recursive=True)
    return [p for p in found if os.path.isdir(p)]


def documented_keys(page):
    """The names in the section on JSON of a page."""
    with open(f"{ROOT}/man/{page}") as file:
        section = re.split(r"\n\.S[sh] ", file.read().split("\n.Ss JSON\n")[1])[0]
    found = set()
    for line in re.findall(r"(?m)^\.(?:It )?Va (.*)$", section):
        found |= set(re.findall(r"\w+", line))
    return found


def keys(value):
    """All keys of a JSON value, at any depth."""
    found = set()
    if isinstance(value, dict):
        found |= set(value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            found |= keys(item)
    return found


def is_sentence(text):
    """Return whether @text is one line: "hugemap", a command, a colon and a sentence."""
    return bool(re.fullmatch(r"hugemap[ a-z]*: .*\S \S+ \S.*\n", text))


def sysfs_files(part):
    """Return the files that hugemap(5) documents in a section: "Settings" or "Numbers"."""
    with open(f"{BUILD}/man/hugemap.5") as file:
        section = re.split(r"\n\.S[sh] ", file.read().split(f".Ss {part} in sysfs")[1])[0]
    return re.findall(r"(?m)^\.It Pa (\w+)$", section)


class FakeMount:
    """The files of a mount of the kernel engine in sysfs, made from the manual page.

    The commands find the mount by the device number of a directory.
    """

    def __init__(self, directory="/dev/shm"):
        self.tree = tempfile.TemporaryDirectory()
        self.directory = directory
        device = os.stat(directory).st_dev
        self.id = f"{os.major(device)}:{os.minor(device)}"
        self.root = os.path.join(self.tree.name, self.id)
        self.env = {**os.environ, "HUGEMAP_SYSFS": self.tree.name}
        os.makedirs(f"{self.root}/stats")
        for name in sysfs_files("Settings"):
            self.set(name, 7)
        for name, value in (("page", "2M"), ("node", "any"), ("priority", "low"),
                            ("pool_bytes", 64 << 20),
                            ("vfs_read_optimization", "on"), ("vfs_write_optimization", "off")):
            self.set(name, value)
        self.numbers = {}
        for at, name in enumerate(sysfs_files("Numbers")):
            self.put(name, "9 100 200 300 400 500" if name.endswith("_ns") else 1000 + at)

    def set(self, name, value):
        with open(f"{self.root}/{name}", "w") as file:
            file.write(f"{value}\n")

    def put(self, name, value):
        self.numbers[name] = value
        self.set(f"stats/{name}", value)

    def hugemap(self, *args, **kwargs):
        return hugemap(*args, env=self.env, **kwargs)

    def source(self):
        """The source of the mount, from mountinfo."""
        with open("/proc/self/mountinfo") as file:
            lines = [line.split() for line in file]
        return [line[line.index("-") + 2] for line in lines if line[4] == self.directory][-1]

    def remove(self):
        self.tree.cleanup()


class Screen:
    """A command of hugemap on a terminal of its own."""

    def __init__(self, *args, env=os.environ, rows=24, columns=80, term="xterm"):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = ""
        self.program = subprocess.Popen(
            [HUGEMAP, *args], env={**env, "TERM": term, "LC_ALL": "C.UTF-8"},
            stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def wait_for(self, pattern):
        """Wait until the output since the last call matches; return the match."""
        end = time.monotonic() + LONG
        while not (match := re.search(pattern, self.seen)):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern} did not come; seen: {self.seen!r}")
            self.read(0.1)
        self.seen = self.seen[match.end():]
        return match

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        """Return the exit status. Read the terminal until the command ends, so that it is not blocked."""
        stop = time.monotonic() + LONG
        while self.program.poll() is None and time.monotonic() < stop:
            self.read(0.05)
        self.program.kill()
        status = self.program.wait()
        self.read(0.05)
        self.after = termios.tcgetattr(self.slave)
        return status

    def close(self):
        self.program.kill()
        self.program.wait()
        os.close(self.master)
        os.close(self.slave)


# A program that maps a file, and ends at the end of its input.
MAPPER = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
assert mapped[0] == 1
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def mapped_file(directory, *words):
    """A file of 1 MB, and a process that maps it; words: the command that starts the process."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(b"\1" * (1 << 20))
        file.flush()
        with subprocess.Popen([*words, sys.executable, "-c", MAPPER, file.name], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            assert program.stdout.readline() == "ready\n"
            yield file.name, program.pid
            program.stdin.close()
