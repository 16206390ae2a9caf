# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the tests of the command line share."""
import json
import os
import re
import subprocess
import tempfile

HUGEMAP = os.environ["HUGEMAP"]
ROOT = os.environ["SOURCE_ROOT"]


def hugemap(*args, **kwargs):
    return subprocess.run([HUGEMAP, *args], capture_output=True, text=True, **kwargs)


def pools_work():
    return json.loads(hugemap("doctor", "--json").stdout)["engine"] == "pool"


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
    """Whether a complaint says what is wrong, in one line."""
    return bool(re.fullmatch(r"hugemap[ a-z]*: .*\S \S+ \S.*\n", text))


def sysfs_files(part):
    """The files that hugemap(5) tells about: "Settings" or "Numbers"."""
    with open(f"{ROOT}/man/hugemap.5") as file:
        section = re.split(r"\n\.S[sh] ", file.read().split(f".Ss {part} in sysfs")[1])[0]
    return re.findall(r"(?m)^\.It Pa (\w+)$", section)


class FakeMount:
    """What a mount of the kernel engine has in sysfs, made from its manual page.

    The directory stands for one on the mount: it is found by its device number.
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
        """What is mounted there, as mountinfo says."""
        with open("/proc/self/mountinfo") as file:
            lines = [line.split() for line in file]
        return [line[line.index("-") + 2] for line in lines if line[4] == self.directory][-1]

    def remove(self):
        self.tree.cleanup()


# A program that maps a file; stdin: when it shall end.
MAPPER = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
assert mapped[0] == 1
print("ready", flush=True)
sys.stdin.read()
"""
