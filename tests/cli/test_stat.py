# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap stat: live numbers of another process."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HUGEMAP = os.environ["HUGEMAP"]

# A program that maps a file and reads more of it for each line that it is sent.
PROGRAM = """
import ctypes, mmap, os, sys
lib = ctypes.CDLL(os.environ["LIBHUGEMAP"])
lib.hugemap_map.restype = ctypes.c_void_p
lib.hugemap_map.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_size_t, ctypes.c_int,
                            ctypes.c_int, ctypes.c_void_p]
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
addr = lib.hugemap_map(fd, 0, 0, mmap.PROT_READ, 0, None)
done = 0
print("ready", flush=True)
for line in sys.stdin:
    done += 8 << 20
    for at in range(done - (8 << 20), done, 4096):
        ctypes.string_at(addr + at, 1)
    print("done", flush=True)
"""


def stat(*args):
    return subprocess.run([HUGEMAP, "stat", *args], capture_output=True, text=True)


class Stat(unittest.TestCase):
    def setUp(self):
        doctor = subprocess.run([HUGEMAP, "doctor", "--json"], capture_output=True, text=True)
        if json.loads(doctor.stdout)["engine"] != "user":
            self.skipTest("the user-space engine does not work here")
        # Closed again: a file that somebody may write is the kernel's business.
        with tempfile.NamedTemporaryFile(dir="/var/tmp", delete=False) as file:
            file.write(os.urandom(32 << 20))
        self.addCleanup(os.unlink, file.name)
        self.program = subprocess.Popen([sys.executable, "-c", PROGRAM, file.name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(self.program.stdout.readline(), "ready\n")

    def tearDown(self):
        if hasattr(self, "program"):
            self.program.stdin.close()
            self.program.wait()
            self.program.stdout.close()

    def read_more(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        self.assertEqual(self.program.stdout.readline(), "done\n")

    def numbers(self):
        result = stat(str(self.program.pid), "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        pool = data["pools"][0] if "pools" in data else data
        return json.dumps(data), pool

    def flat(self, value, prefix=""):
        if isinstance(value, dict):
            out = {}
            for key, item in value.items():
                out.update(self.flat(item, f"{prefix}{key}."))
            return out
        return {prefix.rstrip("."): value}

    def test_numbers_of_a_live_process_move(self):
        self.read_more()
        text, pool = self.numbers()
        before = self.flat(pool)
        for word in ("resident", "dirty", "huge", "base", "faults", "hits", "ahead", "evict",
                     "written", "error", "p50", "p99"):
            self.assertIn(word, text)
        self.read_more()
        after = self.flat(self.numbers()[1])
        grown = [k for k, v in after.items()
                 if isinstance(v, (int, float)) and v > before.get(k, v)]
        self.assertTrue(any("fault" in k or "hit" in k for k in grown), grown)
        self.assertTrue(any("read" in k or "resident" in k for k in grown), grown)

    def test_text_names_the_process(self):
        self.read_more()
        result = stat(str(self.program.pid))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(str(self.program.pid), result.stdout)

    def test_wrong_processes_are_told_in_words(self):
        for pid, code in (("1", 1), ("99999999", 1), ("nonsense", 2)):
            with self.subTest(pid):
                result = stat(pid)
                self.assertEqual(result.returncode, code)
                self.assertGreater(len(result.stderr.split()), 3)


if __name__ == "__main__":
    unittest.main()
