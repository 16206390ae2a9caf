# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap stat: live numbers of another process."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from common import (HUGEMAP, FakeMount, documented_keys, hugemap, is_sentence, keys, mapped_file,
                    pools_work, sysfs_files)

BLOCK = 2 << 20
STEP = 4  # blocks that the program reads, and stores to, for each line

# A program that maps a file and uses more of it for each line that it is sent.
PROGRAM = """
import ctypes, mmap, os, sys
lib = ctypes.CDLL(os.environ["LIBHUGEMAP"])
lib.hugemap_map.restype = ctypes.c_void_p
lib.hugemap_map.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_size_t, ctypes.c_int,
                            ctypes.c_int, ctypes.c_void_p]
lib.hugemap_sync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
fd = os.open(sys.argv[1], os.O_RDWR)
size, step = os.fstat(fd).st_size, int(sys.argv[2])
class Options(ctypes.Structure):
    # struct hugemap_options, as far as it is needed
    _fields_ = [("size", ctypes.c_size_t), ("pool", ctypes.c_void_p)]
pool = ctypes.c_void_p()
assert not lib.hugemap_pool_create(None, ctypes.byref(pool))
options = Options(ctypes.sizeof(Options), pool)
addr = lib.hugemap_map(fd, 0, 0, mmap.PROT_READ | mmap.PROT_WRITE, 0, ctypes.byref(options))
assert addr < 2**64 - 4096
done = 0
print("ready", flush=True)
for line in sys.stdin:
    for at in range(done, done + step, 4096):
        ctypes.string_at(addr + at, 1)
    ctypes.memset(addr + done, 1, step)
    done += step
    assert not lib.hugemap_sync(addr, size, 4)
    ctypes.string_at(addr, 1)  # what was written is mapped again when it is touched
    print("done", flush=True)
"""


def stat(*args):
    return hugemap("stat", *args)


class Live(unittest.TestCase):
    def setUp(self):
        if not pools_work():
            self.skipTest("no pool can be made here")
        with tempfile.NamedTemporaryFile(dir="/var/tmp", delete=False) as file:
            file.write(os.urandom(8 * STEP * BLOCK))
        self.addCleanup(os.unlink, file.name)
        self.program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, file.name, str(STEP * BLOCK)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end_program)
        self.pid = str(self.program.pid)
        self.assertEqual(self.program.stdout.readline(), "ready\n")

    def end_program(self):
        self.program.stdin.close()
        self.program.wait()
        self.program.stdout.close()

    def work(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        self.assertEqual(self.program.stdout.readline(), "done\n")

    def process(self, *args):
        result = stat(self.pid, "--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def pool(self):
        process = self.process()
        self.assertEqual(str(process["pid"]), self.pid)
        self.assertEqual(len(process["pools"]), 1)
        return process["pools"][0]

    def settled_pool(self, known):
        """The numbers, once they are those of after the last work."""
        for _ in range(50):
            pool = self.pool()
            if pool["written_bytes"] >= known:
                break
        return pool

    def test_json_has_what_the_page_promises(self):
        self.work()
        wanted = documented_keys("hugemap-stat.1")
        mount = FakeMount()
        self.addCleanup(mount.remove)
        listed = json.loads(mount.hugemap("stat", "--json").stdout)
        self.assertEqual(len(listed["mounts"]), 1)
        # Others on the machine may be started by hugemap run: not what is asked here.
        listed["processes"] = [one for one in listed["processes"] if str(one["pid"]) == self.pid]
        self.assertEqual(keys(self.process()) | keys(listed), wanted)

    def test_numbers_grow_with_the_work(self):
        self.work()
        before = self.settled_pool(STEP * BLOCK)
        self.work()
        after = self.settled_pool(2 * STEP * BLOCK)
        for key in ("faults", "resident_bytes", "read_bytes", "written_bytes"):
            self.assertGreater(after[key], before[key], key)
        for key in ("hits", "fills", "zeros", "write_faults", "ahead", "ahead_used",
                    "ahead_wasted", "evictions", "rescued"):
            self.assertGreaterEqual(after[key], before[key], key)
        for key in ("fault_ns", "write_ns"):
            self.assertGreater(after[key]["count"], before[key]["count"], key)
        self.assertEqual(after["pool_bytes"], before["pool_bytes"])

    def test_numbers_fit_together(self):
        self.work()
        pool = self.settled_pool(STEP * BLOCK)
        self.assertEqual(pool["engine"], "pool")
        self.assertEqual(pool["mappings"], 1)
        self.assertEqual(pool["mapped_bytes"], 8 * STEP * BLOCK)
        self.assertLessEqual(pool["free_bytes"] + pool["resident_bytes"], pool["pool_bytes"])
        self.assertLessEqual(pool["dirty_bytes"], pool["resident_bytes"])
        self.assertGreaterEqual(pool["resident_bytes"], STEP * BLOCK)
        self.assertGreaterEqual(pool["written_bytes"], STEP * BLOCK)
        self.assertGreater(pool["huge_pages"] + pool["base_pages"], 0)
        self.assertLessEqual(pool["hits"], pool["faults"])
        self.assertLessEqual(pool["ahead_used"], pool["ahead"])
        self.assertEqual((pool["read_errors"], pool["write_errors"]), (0, 0))
        for key in ("hits_percent", "prefetch_used_percent"):
            self.assertTrue(0 <= pool[key] <= 100, key)
        for key in ("fault_ns", "read_ns", "write_ns"):
            values = [pool[key][p] for p in ("p50", "p90", "p99", "p999")]
            self.assertEqual(values, sorted(values), key)
            self.assertTrue(not pool[key]["count"] or pool[key]["max"] > 0, key)

    def test_a_quiet_process_has_no_rates(self):
        pool = self.pool()
        for key in ("faults_per_s", "evictions_per_s", "written_bytes_per_s"):
            self.assertEqual(pool[key], 0, key)

    def test_count_and_interval_give_one_object_a_line(self):
        result = stat(self.pid, "--json", "--interval", "0.1", "--count", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertEqual(str(json.loads(line)["pid"]), self.pid)

    def test_text(self):
        self.work()
        result = stat(self.pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith(f"{self.pid} ("), result.stdout)
        for word in ("memory", "mapped", "faults", "prefetch", "eviction", "I/O", "errors",
                     "latency", "fault", "read", "write"):
            self.assertRegex(result.stdout, rf"(?m)^ +{word} ")
        twice = stat(self.pid, "--interval", "0.1", "--count", "2").stdout
        self.assertEqual(twice.count(f"{self.pid} ("), 2)

    def test_the_list_has_the_process(self):
        text = stat()
        self.assertEqual(text.returncode, 0)
        self.assertRegex(text.stdout, rf"(?m)^ *{self.pid} ")
        processes = json.loads(stat("--json").stdout)["processes"]
        self.assertIn(int(self.pid), [process["pid"] for process in processes])
        self.end_program()
        self.assertNotRegex(stat().stdout, rf"(?m)^ *{self.pid} ")

    def test_it_ends_with_the_process(self):
        """Also with one that nobody has waited for yet."""
        watcher = subprocess.Popen([HUGEMAP, "stat", self.pid, "--json", "--interval", "0.1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with watcher:
            watcher.stdout.readline()
            self.program.kill()
            try:
                _, errors = watcher.communicate(timeout=30)
            finally:
                watcher.kill()
        self.assertEqual(watcher.returncode, 0, errors)
        self.assertEqual(errors, "")

    @unittest.skipIf(os.getuid(), "only root can become another user")
    def test_others_may_not_look(self):
        result = subprocess.run([HUGEMAP, "stat", self.pid], capture_output=True, text=True,
                                user=65534, cwd="/")
        self.assertEqual(result.returncode, 1)
        self.assertTrue(is_sentence(result.stderr), result.stderr)
        data = json.loads(subprocess.run([HUGEMAP, "stat", "--json"], capture_output=True,
                                         text=True, user=65534, cwd="/").stdout)
        self.assertEqual(data["processes"], [])
        self.assertGreater(data["not_permitted"], 0)


class Mount(unittest.TestCase):
    """A mount of the kernel engine, by what it has in sysfs."""

    def setUp(self):
        self.mount = FakeMount()
        self.addCleanup(self.mount.remove)

    def stat(self, *args):
        return self.mount.hugemap("stat", *args)

    def object(self, *args):
        result = self.stat(self.mount.directory, "--json", *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def test_numbers_are_those_of_sysfs(self):
        data = self.object()
        self.assertEqual(data["id"], self.mount.id)
        self.assertEqual(data["source"], self.mount.source())
        self.assertEqual(data["mount"], self.mount.directory)
        pool, = data["pools"]
        self.assertEqual(pool["engine"], "kernel")
        self.assertEqual(pool["pool_bytes"], 64 << 20)
        for name, value in self.mount.numbers.items():
            if name.endswith("_ns"):
                self.assertEqual(pool[name], dict(zip(("count", "p50", "p90", "p99", "p999", "max"),
                                                      map(int, value.split()))))
            else:
                self.assertEqual(pool[name], value, name)

    def test_settings_are_those_of_sysfs(self):
        settings = self.object()["settings"]
        self.assertEqual(set(settings), set(sysfs_files("Settings")) - {"pool_bytes"})
        self.assertEqual(settings["page"], "2M")
        self.assertEqual(settings["dirty_ratio"], 7)
        self.assertIs(settings["vfs_read_optimization"], True)
        self.assertIs(settings["vfs_write_optimization"], False)

    def test_rates(self):
        with subprocess.Popen([HUGEMAP, "stat", self.mount.directory, "--json",
                               "--interval", "0.1"], env=self.mount.env,
                              stdout=subprocess.PIPE, text=True) as watcher:
            first, = json.loads(watcher.stdout.readline())["pools"]
            self.assertEqual(first["faults_per_s"], 0)
            self.mount.put("faults", 5000)
            for line in watcher.stdout:
                pool, = json.loads(line)["pools"]
                if pool["faults"] == 5000:
                    break
            watcher.kill()
        self.assertGreater(pool["faults_per_s"], 0)
        self.assertEqual(pool["read_bytes_per_s"], 0)

    def test_any_file_there_will_do(self):
        with tempfile.NamedTemporaryFile(dir=self.mount.directory) as file:
            result = self.stat(file.name)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(result.stdout.startswith(
            f"{self.mount.directory} ({self.mount.source()})\n"))
        for word in ("memory", "mapped", "faults", "calls", "pages", "work", "settings"):
            self.assertRegex(result.stdout, rf"(?m)^ +{word} ")

    def test_mappings_are_counted(self):
        before = self.object()["pools"][0]
        with mapped_file(self.mount.directory):
            pool = self.object()["pools"][0]
        self.assertEqual(pool["mappings"] - before["mappings"], 1)
        self.assertEqual(pool["mapped_bytes"] - before["mapped_bytes"], 1 << 20)
        self.assertGreater(pool["base_pages"], before["base_pages"])

    def test_the_list_has_it(self):
        result = self.stat()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, rf"(?m)^{self.mount.directory} .* 64 MB ")

    def test_a_path_elsewhere_is_told(self):
        for path in ("/proc", "/nonexistent/x"):
            for args in ([], ["--json"], ["--interval", "1"]):
                with self.subTest(path=path, args=args):
                    result = self.stat(path, *args)
                    self.assertEqual((result.returncode, result.stdout), (1, ""))
                    self.assertTrue(is_sentence(result.stderr), result.stderr)
                    self.assertIn(path, result.stderr)

    def test_another_version_is_told(self):
        os.unlink(f"{self.mount.root}/stats/pinned")
        result = self.stat(self.mount.directory)
        self.assertEqual(result.returncode, 1)
        self.assertIn("version", result.stderr)

    def test_it_ends_with_the_mount(self):
        watcher = subprocess.Popen([HUGEMAP, "stat", self.mount.directory, "--json",
                                    "--interval", "0.1"], env=self.mount.env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with watcher:
            watcher.stdout.readline()
            os.rename(self.mount.root, os.path.join(self.mount.tree.name, "gone"))
            try:
                _, errors = watcher.communicate(timeout=30)
            finally:
                watcher.kill()
        self.assertEqual((watcher.returncode, errors), (0, ""))


class Wrong(unittest.TestCase):
    def test_a_process_that_is_not_there_or_uses_no_hugemap(self):
        other = subprocess.Popen(["sleep", "60"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        for pid in (str(other.pid), str(2**22 + 1)):
            for args in ([], ["--json"], ["--interval", "1"]):
                with self.subTest(pid=pid, args=args):
                    result = stat(pid, *args)
                    self.assertEqual(result.returncode, 1)
                    self.assertEqual(result.stdout, "")
                    self.assertTrue(is_sentence(result.stderr), result.stderr)
                    self.assertIn(pid, result.stderr)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["nonsense"], ["0"], ["-1"], ["1", "2"], ["--nonsense"], ["1", "--count"],
                     ["1", "--count", "0"], ["1", "--interval", "0"], ["1", "--interval", "nan"],
                     ["--interval", "1"], ["--count", "1"], ["12x"]):
            with self.subTest(args):
                result = stat(*args)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                self.assertTrue(is_sentence(result.stderr), result.stderr)


if __name__ == "__main__":
    unittest.main()
