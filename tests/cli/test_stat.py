# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap stat: live numbers of another process, and of mounts."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

from common import (HUGEMAP, LONG, FakeMount, documented_keys, hugemap, is_sentence, keys,
                    mapped_file, sysfs_files)

SIZE = 32 << 20
STEP = 4 << 20  # bytes that the program reads for each line

# A program that maps a file and reads more of it for each line of its input.
PROGRAM = """
import mmap, sys
with open("/proc/self/comm", "w", encoding="utf-8") as file:
    file.write("a\\x1b[2J\\x9b2Jb")
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
done, step = 0, int(sys.argv[2])
print("ready", flush=True)
for line in sys.stdin:
    sum(mapped[done:done + step:4096])
    done += step
    print("done", flush=True)
"""


# Prints the numbers of a mount before and while a file of it is mapped.
COUNT = """
import sys
from common import hugemap, mapped_file
print(hugemap("stat", "--json", sys.argv[1]).stdout)
with mapped_file(sys.argv[1]):
    print(hugemap("stat", "--json", sys.argv[1]).stdout)
"""


def stat(*args):
    return hugemap("stat", *args)


SAMPLE = r'(hugemap_\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)+)\} (-?[\d.e+-]+)'


def metrics(text):
    """The samples of a text of OpenMetrics: (name, labels) -> value. It checks the format."""
    lines = text.splitlines()
    assert lines.pop() == "# EOF" and text.endswith("\n")
    samples, family, kinds = {}, None, {}
    for line in lines:
        if line.startswith("# TYPE "):
            family, kind = line[7:].split(" ")
            assert family not in kinds, f"{family} comes twice"
            kinds[family] = kind
        elif line.startswith("# HELP "):
            assert line[7:].split(" ", 1)[0] == family
        else:
            name, labels, value = re.fullmatch(SAMPLE, line).groups()
            endings = {"counter": ["_total"], "gauge": [""], "summary": ["", "_count"]}
            assert name in [family + ending for ending in endings[kinds[family]]], line
            assert (name, labels) not in samples, line
            samples[name, labels] = float(value)
    return samples


class Live(unittest.TestCase):
    """A program whose mapping is steered."""

    def setUp(self):
        if not os.access("/proc/self/pagemap", os.R_OK):
            self.skipTest("nothing can be steered here")
        with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="a\x1b[2J\x9b2J",
                                         delete=False) as file:
            file.write(os.urandom(SIZE))
        self.path = file.name
        self.shown = self.path.replace("\x1b", "?").replace("\x9b", "??")
        self.addCleanup(os.unlink, self.path)
        env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self.program = subprocess.Popen(
            [HUGEMAP, "run", "--min-size", "1M", sys.executable, "-c", PROGRAM, self.path,
             str(STEP)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.addCleanup(self.end_program)
        self.pid = str(self.program.pid)
        self.assertEqual(self.program.stdout.readline(), "ready\n")
        self.work()
        self.wait(lambda: stat(self.pid).returncode == 0)

    def end_program(self):
        self.program.stdin.close()
        self.program.wait()
        self.program.stdout.close()

    def wait(self, condition):
        end = time.monotonic() + LONG
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def work(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        self.assertEqual(self.program.stdout.readline(), "done\n")

    def process(self, *args):
        result = stat(self.pid, "--json", *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        process = json.loads(result.stdout)
        self.assertEqual(str(process["pid"]), self.pid)
        return process

    def steer(self):
        return self.process()["steer"]

    def test_json_has_the_documented_keys(self):
        wanted = documented_keys("hugemap-stat.1") | set(sysfs_files("Numbers"))
        mount = FakeMount()
        self.addCleanup(mount.remove)
        listed = json.loads(mount.hugemap("stat", "--json").stdout)
        self.assertEqual(len(listed["mounts"]), 1)
        self.wait(lambda: self.steer()["mappings"])
        # The list may have other processes of this machine, too.
        listed["processes"] = [one for one in listed["processes"] if str(one["pid"]) == self.pid]
        self.assertEqual(keys(self.process()) | keys(listed), wanted)

    def test_numbers_grow_with_the_work(self):
        self.wait(lambda: self.steer()["mappings"])
        before = self.steer()
        self.work()
        self.wait(lambda: self.steer()["mappings"][0]["touched_bytes"] >= 2 * STEP)
        after = self.steer()
        self.assertGreater(after["scans"], before["scans"])
        for key in ("scan_ns", "advice_ns", "minor_faults", "major_faults", "read_bytes",
                    "mapped_bytes"):
            self.assertGreaterEqual(after[key], before[key], key)

    def test_the_mapping_is_described(self):
        self.wait(lambda: self.steer()["mappings"])
        mapping, = self.steer()["mappings"]
        self.assertEqual((mapping["file"], mapping["offset"], mapping["bytes"]),
                         (self.shown, 0, SIZE))
        self.assertLessEqual(mapping["touched_bytes"], SIZE)
        for advice in mapping["advice"].values():
            self.assertEqual(bool(advice["calls"]), bool(advice["bytes"]))

    def test_control_characters_do_not_reach_the_terminal(self):
        self.wait(lambda: self.steer()["mappings"])
        text = stat(self.pid).stdout
        self.assertIn(f"{self.pid} (a?[2J??2Jb)\n", text)
        self.assertIn(self.shown, text)
        for shown in (text, stat().stdout):
            self.assertIn("a?[2J??2Jb", shown)
            self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertEqual(self.process()["name"], "a?[2J??2Jb")

    def test_count_and_interval_give_one_object_a_line(self):
        result = stat(self.pid, "--json", "--interval", "0.1", "--count", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertEqual(str(json.loads(line)["pid"]), self.pid)

    def test_text_has_the_lines_of_a_process(self):
        self.wait(lambda: self.steer()["mappings"])
        result = stat(self.pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith(f"{self.pid} ("), result.stdout)
        for word in ("steered", "faults", "read", "mappings"):
            self.assertRegex(result.stdout, rf"(?m)^ +{word}\b")
        self.assertIn(self.shown, result.stdout)
        twice = stat(self.pid, "--interval", "0.1", "--count", "2").stdout
        self.assertEqual(twice.count(f"{self.pid} ("), 2)

    def test_the_list_has_the_process(self):
        text = stat()
        self.assertEqual(text.returncode, 0)
        self.assertRegex(text.stdout, rf"(?m)^ *{self.pid}  a\S* +\S+ .B +\S+ .?B$")
        processes = json.loads(stat("--json").stdout)["processes"]
        self.assertIn(int(self.pid), [process["pid"] for process in processes])
        self.end_program()
        self.assertNotRegex(stat().stdout, rf"(?m)^ *{self.pid} ")

    def test_openmetrics(self):
        # The monitor scans after page faults that come while it runs.
        self.work()
        self.wait(lambda: self.steer()["mapped_bytes"] >= STEP)
        mount = FakeMount()
        self.addCleanup(mount.remove)
        mount.put("faults", 4711)
        mount.put("dirty_bytes", 17)
        result = mount.hugemap("stat", "--openmetrics")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        samples = metrics(result.stdout)
        label = f'mount="{mount.directory}"'
        self.assertEqual(samples["hugemap_mount_faults_total", label], 4711)
        self.assertEqual(samples["hugemap_mount_dirty_bytes", label], 17)
        self.assertEqual(samples["hugemap_mount_pool_bytes", label], 64 << 20)
        self.assertEqual(samples["hugemap_mount_fault_seconds", label + ',quantile="0.5"'], 1e-7)
        self.assertEqual(samples["hugemap_mount_fault_seconds_count", label], 9)
        # All numbers of the mount are there.
        for name in mount.numbers:
            self.assertTrue(any(found.startswith("hugemap_mount_" + name.removesuffix("_ns"))
                                for found, _ in samples), name)
        own = {name: value for (name, labels), value in samples.items()
               if labels.startswith(f'pid="{self.pid}",')}
        self.assertGreaterEqual(own["hugemap_process_faults_total"],
                                own["hugemap_process_major_faults_total"])
        self.assertGreaterEqual(own["hugemap_process_used_bytes_total"], STEP)
        self.assertEqual(own["hugemap_mapping_bytes"], SIZE)
        advice = [labels for name, labels in samples if name == "hugemap_mapping_advice_bytes_total"
                  and labels.startswith(f'pid="{self.pid}",')]
        self.assertEqual({re.search('advice="(\\w+)"', labels)[1] for labels in advice},
                         {"random", "huge", "normal", "ahead"})
        self.assertTrue(all(f'file="{self.shown}"' in labels for labels in advice))

    def test_it_ends_with_the_process(self):
        """It also ends if the parent has not waited for the process yet."""
        watcher = subprocess.Popen([HUGEMAP, "stat", self.pid, "--json", "--interval", "0.1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with watcher:
            watcher.stdout.readline()
            self.program.kill()
            try:
                _, errors = watcher.communicate(timeout=30)
            finally:
                watcher.kill()
        self.assertEqual((watcher.returncode, errors), (0, ""))

    @unittest.skipIf(os.getuid(), "only root can become another user")
    def test_another_user_is_refused(self):
        result = subprocess.run([HUGEMAP, "stat", self.pid], capture_output=True, text=True,
                                user=65534, cwd="/")
        self.assertEqual(result.returncode, 1)
        self.assertTrue(is_sentence(result.stderr), result.stderr)
        self.assertIn("another user", result.stderr)
        data = json.loads(subprocess.run([HUGEMAP, "stat", "--json"], capture_output=True,
                                         text=True, user=65534, cwd="/").stdout)
        self.assertNotIn(int(self.pid), [process["pid"] for process in data["processes"]])
        self.assertGreater(data["not_permitted"], 0)


class Mount(unittest.TestCase):
    """A mount of the kernel engine, by its files in sysfs."""

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
        self.assertEqual(data["pool_bytes"], 64 << 20)
        for name, value in self.mount.numbers.items():
            if name.endswith("_ns"):
                self.assertEqual(data[name], dict(zip(("count", "p50", "p90", "p99", "p999", "max"),
                                                      map(int, value.split()))))
            else:
                self.assertEqual(data[name], value, name)

    def test_settings_are_those_of_sysfs(self):
        settings = self.object()["settings"]
        self.assertEqual(set(settings), set(sysfs_files("Settings")) - {"pool_bytes"})
        self.assertEqual(settings["page"], "2M")
        self.assertEqual(settings["dirty_ratio"], 7)
        self.assertIs(settings["vfs_read_optimization"], True)
        self.assertIs(settings["vfs_write_optimization"], False)
        line = re.search(r"(?m)^  settings +(.*)$", self.stat(self.mount.directory).stdout)[1]
        self.assertEqual([setting.partition("=")[0] for setting in line.split(", ")],
                         list(settings))

    def test_rates_are_of_the_interval(self):
        with subprocess.Popen([HUGEMAP, "stat", self.mount.directory, "--json",
                               "--interval", "0.1"], env=self.mount.env,
                              stdout=subprocess.PIPE, text=True) as watcher:
            first = json.loads(watcher.stdout.readline())
            self.assertEqual(first["faults_per_s"], 0)
            self.mount.put("faults", 5000)
            for line in watcher.stdout:
                data = json.loads(line)
                if data["faults"] == 5000:
                    break
            watcher.kill()
        self.assertGreater(data["faults_per_s"], 0)
        self.assertEqual(data["read_bytes_per_s"], 0)

    def test_any_file_of_a_mount_names_it(self):
        with tempfile.NamedTemporaryFile(dir=self.mount.directory) as file:
            result = self.stat(file.name)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(result.stdout.startswith(
            f"{self.mount.directory} ({self.mount.source()})\n"))
        for word in ("memory", "mapped", "faults", "calls", "pages", "work", "settings"):
            self.assertRegex(result.stdout, rf"(?m)^ +{word} ")

    def test_mappings_are_counted(self):
        """In a PID name space: other processes of the machine map files of /dev/shm, too."""
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if os.getuid():
            apart += ["--user", "--map-root-user"]
        if subprocess.run([*apart, "true"], capture_output=True).returncode:
            self.skipTest("no PID name space can be made here")
        result = subprocess.run([*apart, sys.executable, "-c", COUNT, self.mount.directory],
                                env=self.mount.env, capture_output=True, text=True, check=True,
                                cwd=os.path.dirname(__file__))
        before, data = map(json.loads, result.stdout.split("\n\n", 1))
        self.assertEqual((before["mappings"], before["mapped_bytes"]), (0, 0))
        self.assertEqual((data["mappings"], data["mapped_bytes"]), (1, 1 << 20))
        self.assertGreater(data["base_pages"], before["base_pages"])

    def test_the_list_has_the_mount(self):
        result = self.stat()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, rf"(?m)^{self.mount.directory} .* 64 MB ")

    def test_a_path_elsewhere_is_refused(self):
        for path in ("/proc", "/nonexistent/x"):
            for args in ([], ["--json"], ["--interval", "1"]):
                with self.subTest(path=path, args=args):
                    result = self.stat(path, *args)
                    self.assertEqual((result.returncode, result.stdout), (1, ""))
                    self.assertTrue(is_sentence(result.stderr), result.stderr)
                    self.assertIn(path, result.stderr)

    def test_another_version_is_refused(self):
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
                     ["--interval", "1"], ["--count", "1"], ["12x"], ["--openmetrics", "1"],
                     ["--openmetrics", "--json"], ["--openmetrics", "--count", "1"]):
            with self.subTest(args):
                result = stat(*args)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                self.assertTrue(is_sentence(result.stderr), result.stderr)


if __name__ == "__main__":
    unittest.main()
