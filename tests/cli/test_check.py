# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap check: a program is run plain and steered, and the report has a verdict."""
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest

from common import HUGEMAP, LONG, documented_keys, hugemap, is_sentence, keys

MB = 1 << 20
SIZE = 64 * MB
NOBODY = 65534

# Reads a mapped file from its end to its start, which Linux does not read ahead, and waits until
# its mapping was steered: a short program could end before the monitor thread has begun.
PROGRAM = """
import glob, mmap, os, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
if "--hint" in sys.argv:
    mapped.madvise(mmap.MADV_SEQUENTIAL)
def is_steered():
    return any(open(path).read() == "hugemap\\n" for path in glob.glob("/proc/self/task/*/comm"))
while not (is_steered() or os.environ.get("HUGEMAP_RUN_OFF")):
    time.sleep(0.01)
for at in range(len(mapped) - 4096, -1, -4096):
    mapped[at]
    if at % (4 << 20) == 0:
        time.sleep(0.01)  # the monitor thread gets time to give advice
time.sleep(float(sys.argv[2]))
"""

# Starts a program, in plain runs after a pause.
SLOW_PLAIN = ["sh", "-c", 'if [ "$HUGEMAP_RUN_OFF" ]; then sleep 2; fi; exec "$0" "$@"']

STATIC = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDONLY);
	long size = lseek(fd, 0, SEEK_END), at;
	volatile char *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	sleep(getenv("HUGEMAP_RUN_OFF") ? 2 : 0);
	for (at = 0; at < size; at += 4096)
		mapped[at];
	return 0;
}
"""


def check(*args, **kwargs):
    return hugemap("check", *map(str, args), **kwargs)


class Check(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.access("/proc/self/pagemap", os.R_OK):
            raise unittest.SkipTest("nothing can be steered here")
        cls.directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.path = os.path.join(cls.directory.name, "data")
        with open(cls.path, "wb") as file:
            for _ in range(SIZE // MB):
                file.write(os.urandom(MB))
        cls.command = [sys.executable, "-c", PROGRAM, cls.path, "0.5"]

    def json(self, *args):
        result = check("--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_json_has_the_documented_keys(self):
        data = self.json("--turns", 2, *self.command)
        self.assertEqual(keys(data), documented_keys("hugemap-check.1"))
        self.assertEqual((len(data["plain"]), len(data["steered"])), (2, 2))
        self.assertEqual(data["verdict"], "unclear")
        self.assertEqual(data["files"], [self.path])
        self.assertGreater(data["used_bytes"], SIZE // 2)
        for run in data["plain"] + data["steered"]:
            self.assertGreaterEqual(run["read_bytes"], SIZE, "the file was not cold")
            self.assertGreater(run["seconds"], 0.5)

    def test_processes_of_the_program_count(self):
        command = " ".join(f"'{word}'" for word in self.command)
        data = self.json("--turns", 1, "sh", "-c", f"{command}; true")
        self.assertEqual(data["files"], [self.path])
        self.assertGreater(data["used_bytes"], SIZE // 2)

    def test_the_report_has_five_lines(self):
        result = check("--turns", 1, *self.command)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.split("\n\n")[0].splitlines()
        self.assertEqual(lines[0].split(), ["plain", "steered"])
        titles = [line[2:22].strip() for line in lines[1:] if line[2] != " "]
        self.assertEqual(titles, ["time", "faults that wait", "read", "advised", "verdict"])
        self.assertLessEqual(max(map(len, lines)), 80)

    def verdict(self, *args):
        """Return the verdict of the text, in one line."""
        result = check(*args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return " ".join(result.stdout.split("\n  verdict ")[1].split("\n\n")[0].split())

    def test_few_turns_give_no_verdict(self):
        """Plain runs are much longer, but a single one of each could be noise."""
        slow = [*SLOW_PLAIN, *self.command]
        self.assertRegex(self.verdict("--turns", 1, *slow),
                         r"^Not clear: \d\.\d\d times as fast, which may be noise\. .* --turns 3 or more\.$")

    def test_without_advice_there_is_no_difference(self):
        """Plain runs are much longer, but the program's own advice kept steering away."""
        slow = [*SLOW_PLAIN, *self.command, "--hint"]
        self.assertEqual(self.verdict("--turns", 3, *slow),
                         "No difference: nothing was advised. The program advises Linux itself "
                         "(MADV_SEQUENTIAL), and HugeMap leaves its mapping alone.")

    def static(self):
        """Build a static program that reads the file, in plain runs after a pause."""
        path = os.path.join(self.directory.name, "static")
        built = subprocess.run(["cc", "-static", "-xc", "-", "-o", path], input=STATIC, text=True,
                               capture_output=True)
        if built.returncode:
            self.skipTest("no static C library")
        return path

    @unittest.skipIf(os.getuid(), "to advise another process takes root")
    def test_a_static_program_is_judged_by_its_times(self):
        self.assertRegex(self.verdict("--turns", 3, self.static(), self.path),
                         r"^Steering helps: the program is \d+\.\d\d times as fast\.$")
        out = " ".join(check("--turns", 1, self.static(), self.path).stdout.split())
        self.assertRegex(out, r"advised from outside, where it is not counted: \S+/static is linked "
                              r"statically: it is not steered from within verdict Not clear: ")

    @unittest.skipIf(os.getuid(), "only root can become another user")
    def test_a_static_program_that_is_not_helped_is_named(self):
        os.chmod(self.directory.name, 0o755)
        os.chmod(self.path, 0o644)
        result = check("--turns", 1, self.static(), self.path, user=NOBODY)
        self.assertRegex(" ".join(result.stdout.split()),
                         r"verdict No gain: \S+/static is linked statically: it is not steered\. "
                         r"With CAP_SYS_NICE, `hugemap run` helps it from outside\.")

    def test_a_program_without_large_mappings(self):
        data = self.json("--turns", 1, "true")
        self.assertEqual((data["verdict"], data["files"]), ("nothing steered", []))
        self.assertIn("No gain: no file mapping of 16 MB", check("--turns", 1, "true").stdout)

    def test_a_program_that_fails_is_not_compared(self):
        for words, reason in ((["false"], "exit status 1 in a steered run"),
                              (["sh", "-c", "kill -9 $$"], "signal 9 in a steered run"),
                              (["sh", "-c", "test ! $HUGEMAP_RUN_OFF"], "in a plain run"),
                              (["/nonexistent/program"], "exit status 127")):
            with self.subTest(words):
                result = check("--turns", 1, *words)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertTrue(is_sentence(result.stderr.splitlines(True)[-1]), result.stderr)
                self.assertIn(reason, result.stderr)

    def test_a_signal_ends_the_program_and_its_processes(self):
        """Only this process gets the signal, as from kill(1)."""
        program = "echo $$ >&2; sleep 600 & echo $! >&2; wait"
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))
        for number in (signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([HUGEMAP, "check", "sh", "-c", program], text=True,
                                  stderr=subprocess.PIPE) as command:
                processes = [os.pidfd_open(int(command.stderr.readline())) for _ in range(2)]
                command.send_signal(number)
                self.assertEqual(command.wait(LONG), -number)
                for process in processes:
                    self.addCleanup(os.close, process)
                    if not select.select([process], [], [], 60)[0]:
                        signal.pidfd_send_signal(process, signal.SIGKILL)
                        self.fail(f"a process still runs after signal {number}")

    def test_a_kill_ends_the_program(self):
        with subprocess.Popen([HUGEMAP, "check", "sh", "-c", "echo $$ >&2; exec sleep 600"], text=True,
                              stderr=subprocess.PIPE) as command:
            process = os.pidfd_open(int(command.stderr.readline()))
            self.addCleanup(os.close, process)
            command.kill()
            if not select.select([process], [], [], 60)[0]:
                signal.pidfd_send_signal(process, signal.SIGKILL)
                self.fail("the program still runs")

    def test_output_of_the_program_is_dropped(self):
        result = check("--turns", 1, "sh", "-c", "echo out; echo error >&2; cat")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("out\n", result.stdout)
        self.assertEqual(result.stderr.count("error\n"), 3)
        notes = " ".join(check("--help").stdout.split())
        self.assertIn("discards PROGRAM's standard output and shows its standard error", notes)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in ([], ["--turns", "0", "true"], ["--turns", "21", "true"], ["--nonsense"],
                     ["--turns"]):
            with self.subTest(args):
                result = check(*args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertTrue(is_sentence(result.stderr), result.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([HUGEMAP, "check", "--turns", "1", "true"], stdout=full,
                                    stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertTrue(re.search("could not be written", result.stderr), result.stderr)


if __name__ == "__main__":
    unittest.main()
