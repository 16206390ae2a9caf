# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap run: the lines about programs that are not steered, and their prefix."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import hugemap

PROGRAM = "int main(void) { return 0; }"
# The note of Go's linker.
GO = PROGRAM + """
struct note { unsigned int name, data, type; char owner[4]; char id[4]; };
__attribute__((section(".note.go.buildid"), used, aligned(4)))
static const struct note note = { 4, 4, 4, "Go", "id" };
"""
# No other limit of system calls than "no new rights".
LIMIT = "import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)"
MAP = """
import glob, mmap, os, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
def is_steered():
    return any(open(path).read() == "hugemap\\n" for path in glob.glob("/proc/self/task/*/comm"))
while not is_steered():
    time.sleep(0.01)
"""


# Reads single pages until they were advised.
RANDOM = """
import random
def is_advised():
    with open("/proc/self/smaps") as file:
        return any(line.startswith("VmFlags:") and " rr " in line for line in file)
while not is_advised():
    for _ in range(16):
        mapped[random.randrange(len(mapped) // 4096) * 4096]
"""


# Reads the file by read(2), which the monitor counts as bytes read and not mapped.
READ_OTHER_BYTES = """
import json, subprocess
with open(sys.argv[1], "rb") as file:
    while file.read(1 << 20):
        pass
def has_read():
    done = subprocess.run([os.environ["HUGEMAP"], "stat", "--json", str(os.getpid())],
                          capture_output=True, check=True)
    return json.loads(done.stdout)["steer"]["read_bytes"] >= len(mapped)
while not has_read():
    mapped[0]
"""


# Waits until the monitor thread has found that it has nothing to do, and has ended.
MAP_NOT_STEERED = """
import mmap, os, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
while len(os.listdir("/proc/self/task")) > 1:
    time.sleep(0.01)
"""
# Refuses two system calls in all threads.
FILTER = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <errno.h>
static long call(long number, long a, long b, long c)
{
#ifdef __x86_64__
	long result;
	register long d __asm__("r10") = 0, e __asm__("r8") = 0;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(d), "r"(e)
			 : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c, x3 __asm__("x3") = 0, x4 __asm__("x4") = 0;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
#endif
}
int refuse(int scans)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, scans ? SYS_ioctl : SYS_madvise, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, scans ? SYS_pread64 : SYS_madvise, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };
	call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0);
	return (int)call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, (long)&program);
}
"""
# Reads single pages until the kernel has refused a call of the monitor.
BE_FILTERED = """
import ctypes, random, subprocess
watcher = subprocess.Popen(["sh", "-c", "for i in $(seq 2000); do "
                            "$HUGEMAP stat $PPID | grep -q ' limited ' && break; done"])
result = ctypes.CDLL(sys.argv[2]).refuse(sys.argv[3] == "scans")
assert not result, result
while watcher.poll() is None:
    mapped[random.randrange(len(mapped) // 4096) * 4096]
"""


def lines(*args, **kwargs):
    result = hugemap("run", *args, **kwargs)
    assert result.returncode == 0, result.stderr
    return result.stderr.splitlines()


class Notices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.static = f"{cls.directory.name}/static"
        subprocess.run(["cc", "-static", "-xc", "-", "-o", cls.static], input=PROGRAM, text=True,
                       check=True)

    def sparse_file(self, size):
        path = f"{self.directory.name}/data"
        with open(path, "wb") as file:
            file.truncate(size)
        return path

    def test_a_program_that_does_not_load_the_library(self):
        for option in ("-v", "--summary"):
            with self.subTest(option):
                line, *count = lines(option, self.static)
                self.assertRegex(line, rf"^hugemap run: \d+: {self.static} is linked statically")
                self.assertEqual(len(count), option == "--summary")
                reason = "helped from outside" if "it is helped" in line else "linked statically"
                for last in count:
                    self.assertRegex(last, rf"^hugemap run: \d+: 1 program was .*: 1 {reason}$")
        self.assertEqual(lines(self.static), [])

    def test_a_program_in_go(self):
        path = f"{self.directory.name}/go"
        subprocess.run(["cc", "-xc", "-", "-o", path], input=GO, text=True, check=True)
        for words in ([path], ["sh", "-c", f"{path}; true"]):
            with self.subTest(words):
                line, = lines("-v", *words)
                self.assertRegex(line, rf"^hugemap run: \d+: {path} is written in Go: ")
                self.assertEqual(lines(*words), [])

    def test_a_program_that_another_one_starts(self):
        """Each way to start it: exec*() in a child of fork(), vfork() and posix_spawn()."""
        ways = {"sh": ["sh", "-c", f"{self.static}; {self.static}; true"],
                "spawn": [sys.executable, "-c", "import os, sys; os.waitpid(os.posix_spawn("
                          "sys.argv[1], sys.argv[1:], os.environ), 0)", self.static],
                "subprocess": [sys.executable, "-c", "import subprocess, sys; "
                               "subprocess.run(sys.argv[1:])", self.static]}
        for name, words in ways.items():
            with self.subTest(name):
                found = [line for line in lines("--summary", *words)
                         if f"{self.static} is linked statically: it is not steered" in line]
                self.assertEqual(len(found), 2 if name == "sh" else 1)
                for line in found:
                    self.assertRegex(line, r"^hugemap run: \d+: ")
        self.assertEqual(lines(*ways["sh"]), [])

    def test_the_last_line_counts_programs(self):
        words = ["sh", "-c", f"{self.static}; {self.static}; true"]
        found = lines("--summary", *words)
        self.assertRegex(found[-1], r"^hugemap run: \d+: 2 programs were not steered, or only in "
                                    r"part: 2 linked statically$")
        self.assertNotIn("programs were", lines("-v", *words)[-1])
        self.assertRegex(lines("--summary", "true")[0], "nothing was steered")

    def test_a_program_that_closed_its_descriptors_is_counted(self):
        path = self.sparse_file(64 << 20)
        line, = lines("--summary", sys.executable, "-c", MAP + "os.closerange(0, 1 << 16)", path)
        self.assertRegex(line, r"^hugemap run: \d+: no summary of 1 program that closed all "
                               r"descriptors$")

    def test_a_program_that_limits_its_system_calls_prints_its_summary_before(self):
        path = self.sparse_file(64 << 20)
        found = lines("--summary", sys.executable, "-c", MAP + LIMIT + "\nos._exit(0)", path)
        self.assertTrue(any("python" in line and "limits" not in line for line in found), found)
        self.assertRegex(found[-1], r"1 program was .*: 1 limited system calls$")

    def test_a_pipe_of_another_process_is_left_alone(self):
        """HUGEMAP_RUN_TALLY has the right process and descriptor, but another inode."""
        there, here = os.pipe()
        inode = os.fstat(there).st_ino
        os.set_blocking(there, False)
        for wrong in (1, 0):
            subprocess.run(["sh", "-c", f"{self.static}; true"], stderr=subprocess.DEVNULL, env={
                **os.environ, "HUGEMAP_RUN_SUMMARY": "1",
                "LD_PRELOAD": f"{os.environ['BUILD_ROOT']}/libhugemap-run.so",
                "HUGEMAP_RUN_TALLY": f"{os.getpid()}:{there}:{inode + wrong}"})
            if wrong:
                self.assertRaises(BlockingIOError, os.read, there, 1)
        self.assertEqual(len(os.read(there, 16)), 1)
        os.close(there)
        os.close(here)

    def test_the_program_has_the_process_of_the_command(self):
        self.assertEqual(hugemap("run", "--summary", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(hugemap("run", "--summary", "sh", "-c", "kill -9 $$").returncode, -9)
        self.assertEqual(hugemap("run", "--summary", "/nonexistent").returncode, 127)
        with subprocess.Popen([os.environ["HUGEMAP"], "run", "--summary", "sh", "-c", "echo $$ $PPID"],
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.read(), f"{process.pid} {os.getpid()}\n")

    def test_a_set_id_program(self):
        if not shutil.which("su") or os.getuid():
            self.skipTest("takes root and su")
        copy = f"{self.directory.name}/set-id"
        shutil.copy(shutil.which("true"), copy)
        os.chown(copy, 65534, -1)
        os.chmod(copy, 0o4755)
        line, = lines("-v", "sh", "-c", f"{copy}; true")
        self.assertRegex(line, rf"^hugemap run: \d+: {copy} runs with another user's rights")

    def test_a_program_that_limits_its_system_calls(self):
        line, = lines("-v", sys.executable, "-c", LIMIT + "\n" + LIMIT)
        self.assertRegex(line, r"^hugemap run: \d+: python\S* limits its system calls")

    def test_decisions_have_the_same_prefix(self):
        path = self.sparse_file(8 << 30)
        found = lines("-v", sys.executable, "-c", MAP + RANDOM, path)
        self.assertTrue(found)
        for line in found:
            self.assertRegex(line, rf"^hugemap run: \d+: {re.escape(path)}: ")

    def test_reads_of_a_mapping_with_hints_are_not_called_unused(self):
        """The monitor does not scan the mapping, so it does not know how much of it is used."""
        path = f"{self.directory.name}/written"
        with open(path, "wb") as file:
            file.write(os.urandom(32 << 20))
            os.fsync(file.fileno())
        for hint, used in (("", False), ("mapped.madvise(mmap.MADV_SEQUENTIAL)\n", True)):
            with self.subTest(hint):
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                text = "\n".join(lines("--summary", sys.executable, "-c",
                                       MAP + hint + READ_OTHER_BYTES, path))
                self.assertRegex(text, r"read +\d.* by the process, ")
                self.assertEqual(" not used" not in text, used, text)
                self.assertEqual("32 MB, not scanned  /" in text, used, text)

    def test_a_filter_by_a_system_call_instruction_is_reported(self):
        """The library does not see that call. The filter applies to the monitor thread as well."""
        library, path = f"{self.directory.name}/filter.so", self.sparse_file(8 << 30)
        subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=FILTER, text=True,
                       check=True)
        for call in ("advice", "scans"):
            with self.subTest(call):
                found = lines("--summary", "-v", sys.executable, "-c", MAP + BE_FILTERED, path,
                              library, call)
                self.assertTrue(any(re.match(r"hugemap run: \d+: steering: a filter of system calls "
                                             r"refuses scans or advice$", line) for line in found))
                self.assertIn("  limited     a filter of system calls refuses scans or advice", found)
                self.assertNotIn(" not used", "\n".join(found))
                self.assertRegex(found[-1], r"1 program was .*: 1 limited system calls$")

    def test_a_mapping_that_is_not_on_a_disk_is_named(self):
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            file.truncate(64 << 20)
            found = lines("-v", "--summary", sys.executable, "-c", MAP_NOT_STEERED, file.name)
        reason = "not steered: not on a disk of this machine"
        self.assertRegex(found[0], rf"^hugemap run: \d+: {file.name}: {reason}$")
        self.assertEqual(found[-2:], [f"    unknown     64 MB, not scanned  {file.name}",
                                      f"      advised: nothing; {reason}"])

    def test_ranks_of_mpi_are_named(self):
        path = self.sparse_file(64 << 20)
        for variable in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"):
            with self.subTest(variable):
                found = lines("--summary", sys.executable, "-c", MAP, path,
                              env={**os.environ, variable: "17"})
                self.assertRegex(found[0], r"^hugemap run: \d+: python\S*, rank 17$")
                line, = lines("-v", sys.executable, "-c", LIMIT,
                              env={**os.environ, variable: "17"})
                self.assertRegex(line, r"^hugemap run: \d+: rank 17: python\S* limits ")
        found = lines("--summary", sys.executable, "-c", MAP, path)
        self.assertRegex(found[0], r"^hugemap run: \d+: python[^ ,]*$")

    def test_decisions_name_the_rank(self):
        path = self.sparse_file(8 << 30)
        found = lines("-v", sys.executable, "-c", MAP + RANDOM, path,
                      env={**os.environ, "PMI_RANK": "3"})
        self.assertTrue(found)
        for line in found:
            self.assertRegex(line, rf"^hugemap run: \d+: rank 3: {re.escape(path)}: ")


if __name__ == "__main__":
    unittest.main()
