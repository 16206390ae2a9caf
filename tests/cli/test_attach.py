# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap attach reports the accesses of a running program to its files, and advises it."""
import fcntl
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from common import HUGEMAP, LONG, Screen, documented_keys, hugemap, is_sentence, keys

PAGE = 4096
MB = 1 << 20
NOBODY = 65534

# Maps a file. After a line on standard input it touches the pages. If the file has data, each page
# begins with its number. The line has the number of the watching process. After each batch of pages
# the program waits until that process has scanned them: it has gone to sleep twice since, so one
# whole scan lies in between. So each scan sees one batch or a few, however busy the machine is. The
# pause only makes the work long enough for the rows of the picture.
PROGRAM = """
import mmap, os, random, re, sys, time
path, how, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(path, "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
if "--hint" in sys.argv:
    mapped.madvise(mmap.MADV_RANDOM)
n = len(mapped) // 4096
draw = random.Random(1)
order = {
    "stream": lambda: range(n),
    "streams": lambda: (k * (n // 4) + i for i in range(n // 4) for k in range(4)),
    "backward": lambda: range(n - 1, -1, -1),
    "strided": lambda: range(0, n, 1024),  # more than a huge folio
    "chunks": lambda: (p + i for p in draw.sample(range(0, n, 512), n // 2048)
                       for i in range(256)),
    "random": lambda: (draw.randrange(n) for i in range(n // 64)),
    "nothing": lambda: (),
}[how]()
batch = {"strided": 4, "random": 16, "chunks": 256}.get(how, 512)
def sleeps(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            found = re.search(r"\\nvoluntary_ctxt_switches:\\s+(\\d+)", file.read())
    except OSError:
        found = None
    return int(found[1]) if found else float("inf")
print("ready", flush=True)
watcher = sys.stdin.readline().strip()
for i, page in enumerate(order):
    number = int.from_bytes(mapped[page * 4096:page * 4096 + 8], "little")
    assert number in (0, page + 1), (number, page)
    if "--data" in sys.argv:
        assert number == page + 1, (number, page)
    if i % batch == batch - 1:
        until = sleeps(watcher) + 2
        time.sleep(pause)
        while sleeps(watcher) < until:
            time.sleep(0.0005)
if how == "nothing":
    sys.stdin.read()
"""


class Attach(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A benchmark on the same device changes its read-ahead, but not while this lock is held."""
        device = os.stat("/var/tmp").st_dev
        setting = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/bdi/read_ahead_kb"
        if os.path.exists(setting):
            file = open(setting)
            cls.addClassCleanup(file.close)
            fcntl.flock(file, fcntl.LOCK_SH)

    def setUp(self):
        # /tmp may be in memory, but the file must be on a disk.
        self.directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(self.directory.cleanup)
        os.chmod(self.directory.name, 0o755)

    def file(self, size, data=False, cold=True):
        path = os.path.join(self.directory.name, "file")
        with open(path, "wb") as file:
            file.truncate(size)
            if data:
                for page in range(size // PAGE):
                    file.write((page + 1).to_bytes(8, "little") * (PAGE // 8))
                file.flush()
                os.fsync(file.fileno())
                if cold:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.chmod(path, 0o644)
        return path

    def program(self, *args, code=PROGRAM, python=sys.executable, **kwargs):
        """Start a program that is ready and waits for a line."""
        program = subprocess.Popen([python, "-c", code, *map(str, args)], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kwargs)
        self.addCleanup(self.end, program)
        self.assertEqual(program.stdout.readline(), "ready\n")
        return program

    def end(self, program):
        program.kill()
        program.communicate()

    def attach(self, *args, **kwargs):
        """Start hugemap attach, and return when it watches."""
        attach = subprocess.Popen([HUGEMAP, "attach", *map(str, args)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)
        self.addCleanup(self.end, attach)
        self.assertIn("watching", attach.stderr.readline())
        return attach

    def go(self, program, watcher):
        program.stdin.write(f"{watcher.pid}\n")
        program.stdin.flush()

    def report(self, attach):
        out, err = attach.communicate(timeout=LONG)
        self.assertEqual((attach.returncode, err), (0, ""))
        return out

    def watch(self, how, *args, size=256 * MB, pause=0.015, data=False, program_args=()):
        """Watch a program from its first access to its end; return the summary."""
        path = self.file(size, data)
        program = self.program(path, how, pause, *program_args)
        attach = self.attach(*args, program.pid)
        self.go(program, attach)
        self.assertEqual(program.wait(LONG), 0)
        out = self.report(attach)
        self.assertIn(f"({program.pid}), watched for", out)
        self.assertIn(f"\n{path}\n", out)
        return re.sub(r"\n  (?=\S)", " ", out)

    def test_the_pattern_is_named_in_words(self):
        for how in ("stream", "streams", "backward", "strided", "chunks", "random"):
            with self.subTest(how):
                # The kernel reads 8 MB around the first fault of a chunk, and later chunks may lie
                # there. With less than 100 faults that wait, the file would count as cached.
                size = {"strided": 1024, "chunks": 2048, "random": 1024}.get(how, 256) * MB
                out = self.watch(how, "--dry-run", size=size)
                self.assertRegex(out, rf"(?m) {how}: .*page faults mapped ")
                # The file has no data: the device has nothing to do, except for many faults.
                self.assertRegex(out, "Helps: |Nothing to gain: ")
                self.assertIn("without advice", out)
                self.assertNotIn("Done:", out)

    def test_a_stream_is_a_slope_in_the_picture(self):
        out = self.watch("stream", "--dry-run")
        rows = re.findall(r"(?m)^ +[\d.]+ s \|(.{64})\|$", out)
        columns = [row.rindex("#") for row in rows if "#" in row]
        self.assertGreater(len(columns), 3)
        self.assertEqual(columns, sorted(columns))
        self.assertGreater(columns[-1] - columns[0], 20)
        self.assertIn(": 1 %", out)  # no Unicode without a terminal

    def test_json_has_the_documented_keys(self):
        path = self.file(256 * MB)
        program = self.program(path, "random", 0.015)
        attach = self.attach("--dry-run", "--json", program.pid)
        self.go(program, attach)
        self.assertEqual(program.wait(LONG), 0)
        data = json.loads(self.report(attach))
        self.assertEqual(keys(data), documented_keys("hugemap-attach.1"))
        self.assertEqual((data["pid"], data["helped"], data["missed"]), (program.pid, False, 0))
        mapping, = data["mappings"]
        self.assertEqual((mapping["path"], mapping["bytes"], mapping["hints"]), (path, 256 * MB, []))
        self.assertEqual(mapping["pattern"], "random")
        self.assertEqual(mapping["touched_bytes"],
                         PAGE * sum(map(sum, mapping["touched_pages"])))
        self.assertEqual({len(row) for row in mapping["touched_pages"]}, {64})

    @unittest.skipIf(os.getuid(), "to advise another process takes root")
    def test_a_backward_stream_is_read_ahead(self):
        out = self.watch("backward", data=True, program_args=["--data"])
        self.assertIn("advising", out)
        self.assertRegex(out, r"Done: read \S+ [MG]B ahead \(MADV_WILLNEED")
        self.assertRegex(out, r"Before advice: page faults mapped .*/s; \d+ faults per GB")
        self.assertRegex(out, r"Since then: .*/s; \d+ faults per GB")
        self.assertIn("Helps: reading ahead (done here)", out)

    def test_a_cold_stream_that_linux_reads_ahead_gains_little(self):
        """The process reads from the device, but its faults find the pages in the page cache."""
        out = self.watch("stream", "--dry-run", data=True, program_args=["--data"])
        self.assertRegex(out, r"Little to gain: Linux reads it ahead, and only \d\.\d faults a second waited")
        self.assertNotIn("Helps:", out)

    @unittest.skipIf(os.getuid(), "to advise another process takes root")
    def test_a_stream_in_huge_pages_is_not_read_ahead(self):
        path = self.file(128 * MB, data=True)
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            mapped.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, len(mapped), PAGE):
                mapped[at]
            with open("/proc/self/smaps") as smaps:
                pages = re.search(rf"{path}\n(?:.*\n)*?FilePmdMapped: +(\d+)", smaps.read())
            if int(pages[1]) < 128 << 10:
                self.skipTest("Linux does not map the file in huge pages")
            program = self.program(path, "stream", 0.015, "--data")
            attach = self.attach(program.pid)
            self.go(program, attach)
            self.assertEqual(program.wait(LONG), 0)
        out = re.sub(r"\n  (?=\S)", " ", self.report(attach))
        self.assertIn("advising", out)
        self.assertIn("Done: nothing.", out)

    def test_data_in_memory_has_nothing_to_gain(self):
        """Linux maps cached pages around a fault, so random access looks like chunks."""
        path = self.file(128 * MB, data=True, cold=False)
        program = self.program(path, "random", 0.005)
        attach = self.attach("--dry-run", program.pid)
        self.go(program, attach)
        self.assertEqual(program.wait(LONG), 0)
        out = re.sub(r"\n  (?=\S)", " ", self.report(attach))
        self.assertRegex(out, r" cached: .*page faults mapped [\d.]+ [KM]B")
        # A page of the program itself may have left memory.
        self.assertRegex(out, r"Nothing to gain: only \d\.\d faults a second waited")
        self.assertNotIn("Helps:", out)

    def test_a_quiet_time_is_sampled(self):
        """Without page faults nothing became mapped: that is no gap in the picture."""
        code = PROGRAM.replace("if how == 'nothing'", "if True").replace(
            'if how == "nothing":', "if True:")
        program = self.program(self.file(64 * MB), "stream", 0.01, code=code)
        attach = self.attach("--dry-run", "--json", "--for", "3s", program.pid)
        self.go(program, attach)
        data = json.loads(self.report(attach))
        mapping, = data["mappings"]
        self.assertEqual(len(mapping["sampled"]), len(mapping["touched_pages"]))
        self.assertTrue(mapping["sampled"][-1])
        self.assertEqual(sum(mapping["touched_pages"][-1]), 0)

    @unittest.skipIf(os.getuid(), "to advise another process takes root")
    def test_advice_of_the_program_is_left_alone(self):
        out = self.watch("stream", program_args=["--hint"])
        self.assertIn("The program gives advice here itself (MADV_RANDOM): left alone.", out)
        self.assertIn("advising", out)
        self.assertIn(" stream: ", out)
        self.assertNotIn("ahead", out)

    @unittest.skipIf(os.getuid(), "only root can become another user")
    @unittest.skipUnless(os.access("/usr/bin/python3", os.X_OK), "no Python that all may run")
    def test_a_dry_run_of_ones_own_process_needs_no_rights(self):
        program = self.program(self.file(64 * MB), "nothing", 0, user=NOBODY,
                               python="/usr/bin/python3")
        out = self.report(self.attach("-n", "--for", "0.2", program.pid, user=NOBODY))
        self.assertIn("quiet: page faults mapped nothing", out)
        result = hugemap("attach", str(program.pid), user=NOBODY, timeout=LONG)
        self.assertEqual(result.returncode, 1)
        self.assertTrue(is_sentence(result.stderr), result.stderr)
        self.assertIn(f"CAP_SYS_NICE: `sudo hugemap attach {program.pid}`", result.stderr)
        self.assertIn("--dry-run", result.stderr)

    @unittest.skipIf(os.getuid(), "only root can become another user")
    def test_a_process_of_another_user_is_refused(self):
        program = self.program(self.file(64 * MB), "nothing", 0)
        for args in ((), ("--dry-run",)):
            result = hugemap("attach", *args, str(program.pid), user=NOBODY, timeout=LONG)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertTrue(is_sentence(result.stderr), result.stderr)
            self.assertIn("another user's", result.stderr)
            self.assertIn("sudo", result.stderr)

    def test_a_process_that_has_ended_is_refused(self):
        child = subprocess.Popen(["true"])
        child.wait()
        result = hugemap("attach", "--dry-run", str(child.pid), timeout=LONG)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"there is no process {child.pid}", result.stderr)
        self.assertTrue(is_sentence(result.stderr), result.stderr)

    def test_the_number_of_a_thread_is_refused(self):
        code = ("import sys, threading\n"
                "thread = threading.Thread(target=sys.stdin.read)\nthread.start()\n"
                "print('ready', flush=True)\nprint(thread.native_id, flush=True)")
        program = self.program(code=code)
        thread = program.stdout.readline().strip()
        result = hugemap("attach", "--dry-run", thread, timeout=LONG)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{thread} is a thread", result.stderr)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in ((), ("x",), ("0",), ("-5",), ("1", "2"), ("--for", "2d", "1"),
                     ("--for", "-1", "1"), ("--for", "0", "1"), ("--for", "s", "1"),
                     ("--for", "nan", "1"), ("--min-size", "0", "1"), ("--nothing", "1")):
            with self.subTest(args):
                result = hugemap("attach", *args, timeout=LONG)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertTrue(is_sentence(result.stderr), result.stderr)

    def test_it_ends_after_its_time_by_a_signal_and_with_the_process(self):
        program = self.program(self.file(64 * MB), "nothing", 0)
        for unit in ("0.3", "0.3s", "0.005m", "0.0001h"):
            self.assertIn("watched for", self.report(self.attach("-n", "--for", unit, program.pid)))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            attach = self.attach("--dry-run", program.pid)
            attach.send_signal(number)
            self.assertIn("watched for", self.report(attach))
        self.assertIsNone(program.poll())
        attach = self.attach("--dry-run", program.pid)
        program.kill()
        self.assertIn("watched for", self.report(attach))

    def test_short_mappings_are_left_out(self):
        path = self.file(2 * MB)
        program = self.program(path, "nothing", 0)
        out = self.report(self.attach("-n", "--for", "0.2", program.pid))
        self.assertIn("no file mapping of 16 MB or more", out)
        out = self.report(self.attach("-n", "--for", "0.2", "--min-size", "2M", program.pid))
        self.assertIn(f"\n{path}\n  2.0 MB, only read", out)

    def test_code_and_memory_are_left_out(self):
        path = self.file(32 * MB)
        code = ("import mmap, sys\n"
                "with open(sys.argv[1], 'rb') as file:\n"
                "    code = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)\n"
                "memory = mmap.mmap(-1, 64 << 20)\n"
                "print('ready', flush=True)\nsys.stdin.read()")
        program = self.program(path, code=code)
        out = self.report(self.attach("-n", "--for", "0.2", program.pid))
        self.assertIn("no file mapping of 16 MB or more", out)

    @unittest.skipUnless("/dev/shm tmpfs " in open("/proc/mounts").read(), "/dev/shm is no tmpfs")
    def test_files_in_memory_are_left_out(self):
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            file.truncate(32 * MB)
            program = self.program(file.name, "nothing", 0)
            out = self.report(self.attach("-n", "--for", "0.2", program.pid))
        self.assertIn("no file mapping of 16 MB or more", out)

    def test_a_program_under_hugemap_run_is_left_alone(self):
        """`hugemap run` advises its program already."""
        program = subprocess.Popen(
            [HUGEMAP, "run", sys.executable, "-c", PROGRAM, self.file(64 * MB), "nothing", "0"],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, program)
        self.assertEqual(program.stdout.readline(), "ready\n")
        out = self.report(self.attach("-n", "--for", "0.2", program.pid))
        self.assertIn("It runs under `hugemap run`", out)
        if not os.getuid():
            result = hugemap("attach", str(program.pid), timeout=LONG)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"`hugemap stat {program.pid}`", result.stderr)
            self.assertTrue(is_sentence(result.stderr), result.stderr)

    def test_exec_is_noticed(self):
        """exec() and a mapping made later are noticed."""
        path = self.file(512 * MB)
        code = ("import os, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
                "os.execv(sys.executable, [sys.executable, '-c', *sys.argv[1:]])")
        program = self.program(PROGRAM, path, "stream", 0.015, code=code)
        attach = self.attach("--dry-run", program.pid)
        self.go(program, attach)
        self.assertEqual(program.stdout.readline(), "ready\n")
        self.go(program, attach)
        self.assertEqual(program.wait(LONG), 0)
        self.assertRegex(re.sub(r"\n  (?=\S)", " ", self.report(attach)),
                         rf"{path} .* stream: ")

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_a_dry_run_changes_nothing(self):
        program = self.program(self.file(256 * MB), "stream", 0.015)
        log = os.path.join(self.directory.name, "log")
        attach = subprocess.Popen(["strace", "-f", "-o", log, HUGEMAP, "attach", "--dry-run",
                                   str(program.pid)], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.addCleanup(self.end, attach)
        self.assertIn("watching", attach.stderr.readline())
        self.go(program, attach)
        self.assertEqual(program.wait(LONG), 0)
        self.report(attach)
        with open(log) as file:
            calls = file.read().split("pidfd_open", 1)[1]
        self.assertIn("/pagemap", calls)
        self.assertNotRegex(calls, r"process_madvise|ptrace|kill|" + self.directory.name)
        for flags in re.findall(r"openat\([^)]*", calls):
            self.assertNotRegex(flags, "O_WRONLY|O_RDWR|O_CREAT")

    def test_it_draws_on_a_terminal_and_ends_with_q(self):
        program = self.program(self.file(512 * MB), "stream", 0.015)
        screen = Screen("attach", "--dry-run", str(program.pid))
        self.addCleanup(screen.close)
        screen.wait_for(r"watched for")
        screen.wait_for(r"q\)uit")
        self.go(program, screen.program)
        screen.wait_for("stream: ")
        screen.type("\f")
        screen.wait_for("█")
        screen.type("q")
        self.assertEqual(screen.end(), 0)
        self.assertEqual(screen.after, screen.before)
        self.assertIn("\x1b[?1049l", screen.seen)
        # The summary stays on the screen.
        self.assertRegex(screen.seen.split("\x1b[?1049l")[1], r"watched for[^█]*█")


if __name__ == "__main__":
    unittest.main()
