# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`hugemap run`: settings from all sources, exit statuses, reports, other allocators."""
import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

HUGEMAP = os.environ["HUGEMAP"]
LIBRARY = os.environ["LIBRARY"]
SHOW = ["sh", "-c", "env | grep -E '^(HUGEMAP_RUN_|LD_PRELOAD)' | sort"]
MB = 1 << 20
PATIENCE = 60  # seconds; a hanging program hangs for ever

# Maps a file, reads all of it in order, and waits.
READER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
for turn in range(int(sys.argv[2])):
    sum(m[at] for at in range(0, len(m), 4096))
print("ready", flush=True)
sys.stdin.read()
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(dir=os.environ.get("HM_TEST_DIR", "/var/tmp"))
        self.addCleanup(shutil.rmtree, self.home)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("HUGEMAP_RUN_") and k != "LD_PRELOAD"}
        self.env["XDG_CONFIG_HOME"] = self.home

    def run_it(self, *args, stdin=None, **env):
        return subprocess.run([HUGEMAP, "run", *args], capture_output=True, text=True,
                              timeout=PATIENCE, stdin=stdin, env={**self.env, **env})

    def make_file(self, name, size):
        path = f"{self.home}/{name}"
        with open(path, "wb") as file:
            for _ in range(size // MB):
                file.write(os.urandom(MB))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def start(self, *args):
        child = subprocess.Popen([HUGEMAP, "run", "--min-size", "1M", *args],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=self.env)
        self.addCleanup(self.end, child)
        self.assertEqual(child.stdout.readline(), "ready\n")
        return child

    @staticmethod
    def end(child):
        child.kill()
        child.communicate()


class Settings(Case):
    def settings(self, *args, **env):
        done = self.run_it(*args, *SHOW, **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    def configure(self, text):
        os.makedirs(f"{self.home}/hugemap", exist_ok=True)
        with open(f"{self.home}/hugemap/run.conf", "w") as file:
            file.write(text)

    def test_options_come_after_environment_after_files(self):
        self.configure("# mine\ninclude = *.a\nmin-size=2M # small\nsummary = no\n")
        found = self.settings("--include", "*.b", HUGEMAP_RUN_MIN_SIZE="5M")
        self.assertEqual(found["HUGEMAP_RUN_INCLUDE"], "*.b")
        self.assertEqual(found["HUGEMAP_RUN_MIN_SIZE"], str(5 * MB))
        self.assertEqual(found["HUGEMAP_RUN_SUMMARY"], "no")
        self.assertNotIn("HUGEMAP_RUN_VERBOSE", found)
        self.assertNotIn("HUGEMAP_RUN_OVERRIDE_HINTS", found)
        self.assertEqual(self.settings("--override-hints")["HUGEMAP_RUN_OVERRIDE_HINTS"], "1")

    def test_globs_add_up(self):
        found = self.settings("--include", "*.a", "--include", "/b/*", HUGEMAP_RUN_INCLUDE="*.c")
        self.assertEqual(found["HUGEMAP_RUN_INCLUDE"], "*.a:/b/*")

    def test_an_empty_ld_preload(self):
        found = self.settings(LD_PRELOAD="")
        self.assertEqual(os.path.realpath(found["LD_PRELOAD"]), os.path.realpath(LIBRARY))

    def test_options_of_the_program_are_its_own(self):
        self.assertEqual(self.run_it("printf", "%s", "--pool").stdout, "--pool")
        self.assertEqual(self.run_it("--", "printf", "%s", "-v").stdout, "-v")

    def test_exit_statuses(self):
        self.assertEqual(self.run_it("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_it("/nowhere/at/all").returncode, 127)
        self.assertEqual(self.run_it("/etc/passwd").returncode, 126)
        for wrong in ([], ["--min-size", "much", "true"], ["--no", "true"]):
            done = self.run_it(*wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertRegex(done.stderr, r"^hugemap run: .*\n$")
        self.configure("min-sice = 1G\n")
        done = self.run_it("true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1", done.stderr)


class Reports(Case):
    def stat(self, pid, *args):
        done = subprocess.run([HUGEMAP, "stat", str(pid), *args], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def mappings(self, child):
        return json.loads(self.stat(child.pid, "--json"))["steer"]["mappings"]

    def start_advised(self, option):
        """Start a reader of a file that gets advice. A busy machine may run the monitor too late."""
        for _ in range(20):
            path = self.make_file("data", 64 * MB)
            child = self.start(option, "python3", "-c", READER, path, "2")
            maps = self.mappings(child)
            # The monitor counts the advice before it records the reason.
            if any(m["reason"] and a["calls"] for m in maps for a in m["advice"].values()):
                return path, child, maps
        return self.fail("the monitor gave no advice to 20 readers")

    def test_stat_and_summary(self):
        path, child, maps = self.start_advised("--summary")
        self.assertEqual([m["file"] for m in maps], [path])
        self.assertEqual(maps[0]["bytes"], 64 * MB)
        self.assertIn(maps[0]["pattern"], ("stream", "streams"))
        self.assertTrue(maps[0]["reason"])
        text = self.stat(child.pid)
        self.assertRegex(text, r"steered +\d+ scans? took \d+ \w+ of CPU time, advice took \d+ ")
        self.assertRegex(text, rf"streams? +64 MB, .* {re.escape(path)}\n +advised: \S")
        listed = subprocess.run([HUGEMAP, "stat"], capture_output=True, text=True).stdout
        self.assertRegex(listed, rf"(?m)^ *{child.pid}  python\S* +64 MB ")
        errors = child.communicate("")[1]
        self.assertEqual(child.returncode, 0)
        self.assertRegex(errors, rf"^hugemap run: {child.pid}: python3\n")
        self.assertRegex(errors, r"faults +\d+, of them \d+ that waited")
        self.assertIn(path, errors)

    def test_verbose(self):
        path, child, _ = self.start_advised("-v")
        # The monitor counts the advice before it writes the line.
        self.assertTrue(select.select([child.stderr], [], [], PATIENCE)[0], "no line of -v")
        self.assertIn(f"{path}: ", child.communicate("")[1])

    def test_nothing_to_sum_up(self):
        path = self.make_file("data", 2 * MB)
        nothing = r"^hugemap run: \d+: nothing was steered: %s\n$"
        for options, reason in (([], "there was no mapping of a file of 16 MB or more"),
                                (["--min-size", "4M"],
                                 "there was no mapping of a file of 4.0 MB or more"),
                                (["--min-size", "1M", "--exclude", "data"],
                                 "--include or --exclude leaves out the files")):
            done = self.run_it("--summary", *options, "python3", "-c", READER, path, "1",
                               stdin=subprocess.DEVNULL)
            self.assertRegex(done.stderr, nothing % re.escape(reason))
        # A mapping of a child counts as well.
        done = self.run_it("--summary", "--min-size", "1M", "sh", "-c",
                           'python3 -c "$0" "$1" 1; true', READER,
                           path, stdin=subprocess.DEVNULL)
        self.assertNotIn("nothing was steered", done.stderr)
        self.assertNotIn("nothing was steered", self.run_it("--summary", "/nowhere/at/all").stderr)

    def test_a_program_that_closes_standard_error(self):
        """As coreutils do before they exit. The library must not write to a file that reuses fd 2."""
        path = self.make_file("data", 16 * MB)
        program = ("import ctypes, mmap, os, sys\n"
                   "page = ctypes.CDLL(None).hugemap_run_page\npage.restype = ctypes.c_void_p\n"
                   "f = os.open(sys.argv[1], os.O_RDWR)\nm = mmap.mmap(f, 0)\nm[::4096]\n"
                   "while not page(): pass\n"  # The monitor begins it.
                   "os.close(2)\nassert os.dup(f) == 2\n")
        with open(path, "rb") as file:
            before = file.read()
        done = self.run_it("--summary", "python3", "-c", program, path)
        self.assertIn("mappings", done.stderr)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_a_child_of_a_raw_fork_ends_as_usual(self):
        """No handler of pthread_atfork(3) runs in it. It does not have the monitor's page."""
        path = self.make_file("data", 16 * MB)
        program = ("import ctypes, mmap, os, sys\n"
                   "libc = ctypes.CDLL(None)\n"
                   "f = os.open(sys.argv[1], os.O_RDONLY)\n"
                   "m = mmap.mmap(f, 0, prot=mmap.PROT_READ)\nm[::4096]\n"
                   "while len(os.listdir('/proc/self/task')) < 2: pass\n"
                   "child = libc._Fork()\n"
                   "if not child: libc.exit(0)\n"
                   "sys.exit(os.waitpid(child, 0)[1])\n")
        done = self.run_it("--summary", "--min-size", "1M", "python3", "-c", program, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("mappings"), 1)

    def test_include_and_exclude(self):
        path = self.make_file("data.mdb", 16 * MB)
        for options, watched in (([], True), (["--include", "*.mdb"], True),
                                 (["--include", "*.txt:*.md?"], True),
                                 (["--include", "*.txt"], False), (["--exclude", "*.mdb"], False),
                                 (["--exclude", "/nowhere/*.mdb"], True),
                                 (["--exclude", f"{self.home}/*"], False),
                                 (["--min-size", "17M"], False)):
            child = self.start(*options, "python3", "-c", READER, path, "1")
            # The monitor thread starts concurrently with the program.
            end = time.monotonic() + (PATIENCE if watched else 0)
            while (status := subprocess.run([HUGEMAP, "stat", str(child.pid)],
                                            capture_output=True).returncode):
                if time.monotonic() > end:
                    break
            self.assertEqual(status == 0, watched, options)
            self.assertEqual(child.communicate("")[1], "")

    def test_off(self):
        path = self.make_file("data", 16 * MB)
        self.env["HUGEMAP_RUN_OFF"] = "1"
        child = self.start("--summary", "python3", "-c", READER, path, "1")
        with open(f"/proc/{child.pid}/maps") as maps:
            self.assertIn("libhugemap-run", maps.read())
        self.assertEqual(len(os.listdir(f"/proc/{child.pid}/task")), 1)
        self.assertEqual(child.communicate("")[1], "")


class Allocators(Case):
    """Programs whose allocator maps memory before the library is initialized."""

    def libraries(self):
        found = [path for name in ("jemalloc", "mimalloc")
                 for path in glob.glob(f"/usr/lib/*/lib{name}.so*")]
        if not found:
            self.skipTest("neither jemalloc nor mimalloc is installed")
        return found

    def test_loaded_before_a_program(self):
        path = self.make_file("data", 16 * MB)
        for library in self.libraries():
            for program in (["ls", self.home], ["python3", "-c", READER, path, "1"],
                            ["sh", "-c", f"sort {path} | tail -n 1 | wc -l"]):
                done = subprocess.run([HUGEMAP, "run", "--min-size", "1M", *program],
                                      capture_output=True, timeout=PATIENCE,
                                      stdin=subprocess.DEVNULL,
                                      env={**self.env, "LD_PRELOAD": library})
                self.assertEqual((done.returncode, done.stderr), (0, b""), (library, program))
                self.assertTrue(done.stdout)

    def test_switched_off(self):
        for library in self.libraries():
            done = self.run_it("ls", self.home, LD_PRELOAD=library, HUGEMAP_RUN_OFF="1")
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_linked_into_a_program(self):
        if not shutil.which("mold"):
            self.skipTest("mold is not installed")
        done = self.run_it("mold", "--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mold", done.stdout)


class Others(Case):
    """Several programs use one file under `hugemap run`. None waits for another."""
    # Writes to a mapping, unmaps and closes it, and maps the file often for reading.
    BOTH = """
import mmap, os, sys
def meet():
    print("here", flush=True)
    sys.stdin.readline()
path = sys.argv[1]
fd = os.open(path, os.O_RDWR)
meet()
m = mmap.mmap(fd, 0)
m[0] = 1
meet()
m.close()
os.close(fd)
meet()
fd = os.open(path, os.O_RDONLY)
meet()
for turn in range(200):
    m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    assert m[0] == 1 and m[turn * 4096] is not None
    m.close()
    os.close(fd)
    fd = os.open(path, os.O_RDONLY)
print("done", flush=True)
"""

    def start(self, *args):
        child = subprocess.Popen([HUGEMAP, "run", *args], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True, env=self.env)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        child.kill()
        child.stdin.close()
        child.stdout.close()
        # A child that waits in the kernel for another process may not be killable.
        for _ in range(100):
            if child.poll() is not None:
                break
            time.sleep(0.05)

    def test_two_at_the_same_moment(self):
        path = self.make_file("data", 64 * MB)
        children = [self.start("python3", "-c", self.BOTH, path) for _ in range(2)]
        for _ in range(4):
            for child in children:
                self.assertEqual(child.stdout.readline(), "here\n")
            for child in children:
                child.stdin.write("\n")
                child.stdin.flush()
        for child in children:
            try:
                self.assertEqual(child.wait(PATIENCE / 3), 0)
            except subprocess.TimeoutExpired:
                self.fail("the programs wait for each other")
            self.assertEqual(child.stdout.read(), "done\n")

    def test_stopped_program_blocks_no_other(self):
        path = self.make_file("data", 64 * MB)
        program = ("import mmap, os, sys\nfd = os.open(sys.argv[1], os.O_RDWR)\n"
                   "m = mmap.mmap(fd, 0)\nm[0] = 1\n"
                   "if sys.argv[2] == 'unmap': m.close(); os.close(fd)\n"
                   "print('ready', flush=True)\nsys.stdin.read()\n")
        for what in ("unmap", "keep"):
            child = self.start("python3", "-c", program, path, what)
            self.assertEqual(child.stdout.readline(), "ready\n")
            child.send_signal(signal.SIGSTOP)
            try:
                done = subprocess.run(["head", "-c", "1", path], capture_output=True,
                                      timeout=PATIENCE / 6)
                self.assertEqual(done.stdout, b"\1")
            except subprocess.TimeoutExpired:
                self.fail(f"the file cannot be read while a program is stopped ({what})")
            finally:
                child.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    unittest.main()
