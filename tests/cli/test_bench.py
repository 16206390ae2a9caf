# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap bench on a small file."""
import fcntl
import glob
import json
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from common import HUGEMAP, cgroups, read_text

SMALL = ["--size", "64M", "--pool", "16M", "--threads", "1"]
SCENARIOS = {"seq-read", "seq-write", "rewrite", "rand-4k", "rand-1m", "loads", "mixed",
             "checkpoint", "restore", "log", "zipf-4k", "hot-tenth", "hot-limit", "strided", "backward",
             "four-streams", "scan-twice", "scan-random-scan", "load-shuffled", "load-sparse", "log-read", "cost"}
ADVICES = {
    "seq-read": {"default", "sequential", "hugepage", "populate"},
    "rand-4k": {"default", "random", "hugepage", "hugepage+random"},
    "four-streams": {"default", "sequential", "hugepage"},
    "backward": {"default", "sequential", "hugepage", "hugepage+random"},
    "cost": {"default"},
}


def device_of(path):
    device = os.stat(path).st_dev
    return f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"


def read_ahead(path="/var/tmp"):
    """The setting of the device of a directory, when no benchmark changes it: each one holds a
    lock until its guard has restored the setting. None: there is no such setting.
    """
    setting = f"{device_of(path)}/bdi/read_ahead_kb"
    if not os.path.exists(setting):
        return None
    with open(setting) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return file.read()


def mounts():
    """Mounts that a benchmark made. Other programs may mount something during the test."""
    return [line for line in read_text("/proc/self/mountinfo").splitlines()
            if "hugemap-bench" in line]


def modules():
    return "hugemap " in open("/proc/modules").read() if os.path.exists("/proc/modules") else False


def fast_device(pid):
    """The zram device that a process has mounted in its own mount name space."""
    found = re.search(r"/tmp/hugemap-bench-.* /dev/(zram\d+) ", read_text(f"/proc/{pid}/mountinfo"))
    return found and found[1]


def has_zram():
    return os.geteuid() == 0 and os.path.exists("/sys/class/zram-control/hot_add")


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.report = os.path.join(cls.dir.name, "report.html")
        cls.before = read_ahead(), mounts(), modules()
        every = [word for name in sorted(SCENARIOS) for word in ("--scenario", name)]
        with subprocess.Popen([HUGEMAP, "bench", "--quick", *SMALL, "--runs", "1", *every, "--dir", cls.dir.name,
                               "--json", "-", "--report", cls.report], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as bench:
            output, errors = bench.communicate()
        assert bench.returncode == 0, errors
        cls.pid = bench.pid
        cls.data = json.loads(output)
        cls.rows = cls.data["rows"]

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def three_runs(self):
        """The rows of a benchmark with several runs, whose medians differ from the first run."""
        done = subprocess.run([HUGEMAP, "bench", *SMALL, "--runs", "3", "--scenario", "seq-read", "--engine",
                               "hugemap-steer", "--engine", "linux-mmap", "--dir", self.dir.name, "--json", "-"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"]

    def test_every_scenario_and_engine_is_there(self):
        self.assertEqual({row["scenario"] for row in self.rows}, SCENARIOS)
        for scenario in SCENARIOS:
            engines = {r["engine"] for r in self.rows if r["scenario"] == scenario}
            want = {"hugemap-steer", "linux-mmap"} | ({"device"} if scenario != "cost" else set())
            self.assertLessEqual(want, engines, scenario)
        for scenario, want in ADVICES.items():
            advices = {r["advice"] for r in self.rows
                       if r["engine"] == "linux-mmap" and r["scenario"] == scenario}
            self.assertEqual(advices, want, scenario)

    def test_the_steered_page_cache_comes_first(self):
        for scenario in SCENARIOS:
            row = [r for r in self.rows if r["scenario"] == scenario][0]
            with self.subTest(scenario):
                self.assertEqual((row["engine"], row["title"], row["page"], row["advice"]),
                                 ("hugemap-steer", "HugeMap", None, None))
                self.assertTrue(row["ratio_best_linux"] and row["ratio_default_linux"])

    def test_page_tables_are_scanned(self):
        for row in self.rows:
            for run in row["runs"]:
                self.assertEqual("steered" in run, row["engine"] == "hugemap-steer")
        done = [run["steered"] for row in self.rows for run in row["runs"]
                if row["engine"] == "hugemap-steer" and row["scenario"] == "rand-4k"]
        self.assertTrue(any(each["scans"] for each in done), done)

    def test_there_is_a_verdict_on_each_scenario(self):
        sums = self.data["verdicts"]
        self.assertEqual({v["scenario"] for v in sums["each"]}, SCENARIOS - {"cost"})
        for verdict in sums["each"]:
            rows = [r for r in self.rows if r["scenario"] == verdict["scenario"]]
            steer = next(r for r in rows if r["engine"] == "hugemap-steer")
            best, = (r for r in rows if r["best_linux"])
            with self.subTest(verdict["scenario"]):
                self.assertEqual(verdict["best_linux"], best["title"])
                self.assertEqual(verdict["ratio_best_linux"], steer["ratio_best_linux"])
                wanted = 1.4 if verdict["scenario"] in ("seq-write", "checkpoint") else 0.97
                self.assertEqual(verdict["wanted"], wanted)
                wanted_all = [(steer["ratio_best_linux"], wanted), (steer["ratio_default_linux"], 0.97)]
                if verdict["wanted_read_ahead"] and verdict["ratio_read_ahead"]:
                    wanted_all.append((verdict["ratio_read_ahead"], verdict["wanted_read_ahead"]))
                self.assertEqual(verdict["met"], all(a + 0.005 >= b for a, b in wanted_all))
                self.assertEqual(verdict["better"], steer["ratio_best_linux"] > 1)
        self.assertEqual(sums["met"], sum(v["met"] for v in sums["each"]))
        self.assertEqual(sums["count"], len(sums["each"]))

    def test_the_cost_is_in_the_verdicts(self):
        cost, = self.data["verdicts"]["cost"]
        self.assertTrue(0.5 < cost["faults"] < 2, cost)
        self.assertTrue(cost["time"] > 0 and cost["cpu"] > 0, cost)
        for row in self.rows:
            if row["scenario"] == "cost" and row["engine"] == "hugemap-steer":
                for run in row["runs"]:  # otherwise nothing was steered
                    self.assertGreater(run["steered"]["scans"], 0)

    def test_read_ahead_is_no_advice(self):
        found = self.data["device"]["read_ahead_kb"]
        for row in self.rows:
            if row["best_linux"]:
                self.assertEqual(row["read_ahead_kb"], found, row["title"])

    def test_both_sides_of_the_ratio_at_128_have_read_ahead_128(self):
        def speeds(rows, engine):
            row, = (r for r in rows if r["engine"] == engine and r["read_ahead_kb"] == 128
                    and r["advice"] in (None, "default"))
            return [run["bytes"] / run["seconds"] for run in row["runs"]]

        rows = self.three_runs()
        if not rows[0]["ratio_read_ahead"]:
            self.skipTest("read_ahead_kb cannot be changed here, or is 128")
        ratios = [a / b for a, b in zip(speeds(rows, "hugemap-steer"), speeds(rows, "linux-mmap"))]
        self.assertAlmostEqual(rows[0]["ratio_read_ahead"], statistics.median(ratios), delta=0.01)

    def test_both_settings_of_read_ahead_are_shown(self):
        """The setting of this machine, which comes first, and that of most machines."""
        found = self.data["device"]["read_ahead_kb"]
        both = any(row["ratio_read_ahead"] for row in self.rows)
        page = read_text(self.report)
        self.assertTrue(f"read_ahead_kb {found} (most machines: 128)" in page, page[:2000])
        self.assertEqual("on most machines (read_ahead_kb 128)" in page, both)
        result = subprocess.run([HUGEMAP, "bench", "--demo", *SMALL, "--runs", "1", "--scenario", "rand-4k",
                                 "--engine", "hugemap-steer", "--engine", "linux-mmap", "--dir",
                                 self.dir.name], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        titles, = re.findall(r"(?m)^ +HugeMap +mmap +.*$", result.stdout)
        self.assertEqual(re.findall(r"at \d+", titles),
                         [f"at {found}", "at 128"] if both else [f"at {found}"])
        self.assertIn(f"read_ahead_kb of this device is {found}", result.stdout)
        cells, = re.findall(r"(?m)^  read 4 KB here and there (.*)$", result.stdout)
        self.assertEqual(len(re.findall(r"\d[\d.]*", cells)), 5 if both else 4, cells)
        table = result.stdout.split("\n\n")[1]
        self.assertLessEqual(max(map(len, table.splitlines())), 80)

    def test_a_log_that_is_read_has_at_most_its_size(self):
        for row in self.rows:
            if row["scenario"] == "log-read":
                for run in row["runs"]:
                    self.assertGreater(run["bytes"], 0, row["title"])
                    self.assertLessEqual(run["bytes"], 48 << 20, row["title"])

    def test_the_kernel_engine_has_rows_or_a_reason(self):
        rows = [r for r in self.rows if r["engine"] == "hugemap-kernel"]
        reason = self.data["kernel_engine_reason"]
        self.assertTrue(bool(rows) != bool(reason), reason)
        if reason:
            self.assertTrue(any(reason in note for note in self.data["notes"]))
        for row in rows:
            self.assertIn(row["page"], ("auto", "2M", "4K"))
            self.assertTrue(row["ratio_best_linux"] and row["ratio_device"])
            self.assertTrue(row["title"].startswith("HugeMap"))

    def test_checkpoint_and_restore_have_worker_processes(self):
        result = subprocess.run([HUGEMAP, "bench", "--size", "64M", "--pool", "16M", "--runs", "1",
                                 "--threads", "1,2", "--scenario", "checkpoint", "--scenario",
                                 "restore", "--scenario", "checkpoint-own", "--scenario", "restore-own",
                                 "--engine", "hugemap-steer", "--engine", "linux-rw", "--engine", "device",
                                 "--dir", self.dir.name, "--json", "-"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(glob.glob(f"{self.dir.name}/hugemap-bench.*"), [])
        data = json.loads(result.stdout)
        self.assertEqual(data["settings"]["threads"], [1, 2])
        seen = [(r["scenario"], r["engine"], r["threads"]) for r in data["rows"]
                if r["read_ahead_kb"] == data["device"]["read_ahead_kb"]]
        self.assertCountEqual(seen, [(s, e, n)
                                     for s in ("checkpoint", "restore", "checkpoint-own", "restore-own")
                                     for e in ("hugemap-steer", "linux-rw", "device") for n in (1, 2)])
        for row in data["rows"]:
            with self.subTest(f"{row['title']}, {row['scenario']}, {row['threads']}"):
                self.assertEqual(row["bytes"], 64 << 20)
                if row["engine"] != "device":
                    self.assertGreater(row["faults"], 0)

    def test_the_time_of_the_machine_is_divided(self):
        """The paper's figure of checkpoint and restore has these shares."""
        for row in self.rows:
            for run in row["runs"]:
                shares = run["machine_time"]
                self.assertEqual(set(shares), {"user", "system", "iowait", "idle"})
                self.assertTrue(all(0 <= share <= 1 for share in shares.values()), shares)
                if run["seconds"] > 0.1:  # longer than a tick
                    self.assertAlmostEqual(sum(shares.values()), 1, delta=0.01)
        runs = [run for row in self.rows if row["scenario"] == "loads" for run in row["runs"]]
        self.assertTrue(any(run["machine_time"]["user"] for run in runs), runs)

    def test_the_curve_has_samples_until_memory_is_full_and_after(self):
        result = subprocess.run([HUGEMAP, "bench", "curve", "--scenario", "curve-seq", "--size", "256M",
                                 "--pool", "8M", "--runs", "1", "--dir", self.dir.name, "--json", "-",
                                 "--report", self.report + ".curve"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        page = read_text(self.report + ".curve")
        os.unlink(self.report + ".curve")
        if "<svg" in page:
            self.assertEqual(page.count("a dot is at the moment when memory was full"), 5)
        data = json.loads(result.stdout)
        self.assertEqual(data["settings"]["threads"], [1, 2, 4, 8, 16])
        self.assertEqual({row["engine"] for row in data["rows"]}, {"hugemap-steer", "linux-mmap"})
        self.assertEqual(data["verdicts"]["count"], 0)
        for row in data["rows"]:
            run, = row["runs"]
            curve = run["curve"]
            self.assertEqual(curve["bytes"], sorted(curve["bytes"]))
            if curve["bytes"]:
                self.assertLessEqual(curve["bytes"][-1], run["bytes"])
            if curve["ratio"]:
                self.assertAlmostEqual(curve["ratio"], curve["after_mb_s"] / curve["before_mb_s"],
                                       delta=0.001 * curve["ratio"])
        if data["memory_limit"]["kind"] != "none":
            self.assertTrue(any(row["runs"][0]["curve"]["full_s"] for row in data["rows"]))

    def test_a_log_is_of_small_records(self):
        for row in self.rows:
            if row["scenario"] != "log":
                continue
            for run in row["runs"]:
                self.assertEqual(run["bytes"], 64 << 20)
                mean = run["bytes"] / run["ops"]
                if row["engine"] == "device":
                    self.assertEqual(mean, 1 << 20)
                else:
                    self.assertTrue(1024 <= mean <= 4096, mean)

    def test_rows_have_all_keys(self):
        for row in self.rows:
            for key in ("scenario", "engine", "page", "faults", "user_s", "sys_s",
                        "ratio_device", "ratio_best_linux", "ratio_default_linux"):
                self.assertIn(key, row)
            self.assertTrue("mb_s" in row or "ns_op" in row)
            if row["engine"] == "linux-mmap":
                self.assertIn("advice", row)
                self.assertTrue(any("read_ahead" in key for key in row))

    def test_the_machine_is_described(self):
        for key in ("machine", "kernel", "file_system", "settings", "memory_limit"):
            self.assertTrue(self.data[key])

    def test_medians_are_of_the_runs(self):
        compared = 0
        for row in self.three_runs():
            key = "mb_s" if row["mb_s"] is not None else "ns_op"
            values = [run[key] for run in row["runs"]]
            self.assertEqual(len(values), 3)
            self.assertAlmostEqual(row[key] / statistics.median(values), 1, delta=0.01)
            compared += 1
        self.assertGreaterEqual(compared, 2)

    def test_the_report_is_one_file(self):
        text = read_text(self.report)
        self.assertRegex(text, r"<svg|data:image")
        self.assertFalse(re.search(r"(src|href)=[\"']?https?:", text))
        for scenario in SCENARIOS:
            self.assertIn(scenario, text)

    def test_a_report_without_matplotlib_has_all_but_the_charts(self):
        with tempfile.TemporaryDirectory() as work:
            for name, text in (("matplotlib.py", "raise ImportError\n"), ("json", json.dumps(self.data))):
                with open(f"{work}/{name}", "w") as file:
                    file.write(text)
            page = f"{work}/page.html"
            done = subprocess.run(
                [sys.executable, f"{os.environ['BUILD_ROOT']}/bench/report.py", "--html", page,
                 f"{work}/json"], env={**os.environ, "PYTHONPATH": work}, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (3, ""))
            with open(page) as file:
                text = file.read()
        self.assertNotIn("<svg", text)
        self.assertIn("matplotlib", text)
        with open(self.report) as file:
            tables = re.findall(r"<table>.*?</table>", file.read())
        self.assertEqual(re.findall(r"<table>.*?</table>", text), tables)
        self.assertGreater(len(tables), len(SCENARIOS))

    def test_the_report_has_one_column_for_each_read_ahead(self):
        for kb, columns in ((128, ["default, read-ahead 128 KB"]),
                            (8192, ["default, read-ahead 8192 KB", "default, 128 KB"])):
            with self.subTest(kb), tempfile.TemporaryDirectory() as work:
                with open(f"{work}/json", "w") as file:
                    json.dump({**self.data, "device": {**self.data["device"], "read_ahead_kb": kb}}, file)
                subprocess.run([sys.executable, f"{os.environ['BUILD_ROOT']}/bench/report.py", "--html",
                                f"{work}/page", f"{work}/json"], capture_output=True)
                with open(f"{work}/page") as file:
                    self.assertEqual(re.findall(r"<th>(default[^<]*)</th>", file.read()), columns)

    def test_it_leaves_nothing(self):
        self.assertEqual(os.listdir(self.dir.name), ["report.html"])
        self.assertEqual((read_ahead(), mounts(), modules(), cgroups(self.pid)),
                         (*self.before, []))

    def wait(self, bench, condition):
        """Wait for as long as the benchmark runs."""
        while not condition():
            self.assertIsNone(bench.poll(), "the benchmark ended too early")
            time.sleep(0.005)

    def test_an_interruption_leaves_nothing_either(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            bench = subprocess.Popen([HUGEMAP, "bench", "--size", "256M", "--scenario", "rand-4k",
                                      "--dir", directory], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            self.addCleanup(bench.kill)
            self.wait(bench, lambda: os.listdir(directory))
            bench.send_signal(signal.SIGINT)
            self.assertEqual(bench.wait(), 130)
            self.assertEqual(os.listdir(directory), [])
        self.assertEqual((read_ahead(), mounts(), modules(), cgroups(bench.pid)),
                         (*self.before, []))

    @unittest.skipUnless(has_zram(), "needs root and zram")
    def test_a_fast_device_is_made_and_removed(self):
        unused = read_text("/sys/block/zram0/disksize") if os.path.exists("/sys/block/zram0") else None
        result = subprocess.run([HUGEMAP, "bench", *SMALL, "--runs", "1", "--fast-device", "--scenario", "rand-1m",
                                 "--engine", "hugemap-steer", "--engine", "linux-mmap", "--json",
                                 "-"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertRegex(data["device"]["name"], "^zram[0-9]+$")
        self.assertEqual(data["file_system"]["type"], "ext4")
        self.assertTrue(data["settings"]["fast_device"])
        self.assertFalse(os.path.exists(f"/sys/block/{data['device']['name']}"))
        if unused is not None:
            self.assertEqual(read_text("/sys/block/zram0/disksize"), unused)
        self.assertEqual(mounts(), self.before[1])
        self.assertFalse(os.path.exists(data["file_system"]["dir"]))

    @unittest.skipUnless(has_zram(), "needs root and zram")
    def test_a_killed_benchmark_leaves_no_fast_device(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            bench = subprocess.Popen([HUGEMAP, "bench", "--size", "256M", "--fast-device",
                                      "--scenario", "rand-4k"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            self.addCleanup(bench.kill)
            self.wait(bench, lambda: fast_device(bench.pid) and cgroups(bench.pid))
            device = fast_device(bench.pid)
            directory = re.search(r"/tmp/hugemap-bench-\w+",
                                  read_text(f"/proc/{bench.pid}/mountinfo"))[0]
            guard = self.guard(bench)
            bench.send_signal(number)
            bench.wait()
            select.select([guard], [], [])  # it outlives the killed benchmark
            left = [p for p in (f"/sys/block/{device}", directory) if os.path.exists(p)]
            self.assertEqual((left, cgroups(bench.pid), read_ahead(), mounts()),
                             ([], [], *self.before[:2]))

    def guard(self, bench):
        """The process that restores everything: a descriptor that becomes readable at its end."""
        children = read_text(f"/proc/{bench.pid}/task/{bench.pid}/children").split()
        guard, = [pid for pid in children if os.getsid(int(pid)) == int(pid)]
        descriptor = os.pidfd_open(int(guard))
        self.addCleanup(os.close, descriptor)
        return descriptor

    def test_a_killed_benchmark_restores_read_ahead(self):
        if not any(r["read_ahead_kb"] != self.data["device"]["read_ahead_kb"] for r in self.rows):
            self.skipTest("read_ahead_kb cannot be changed here, or is 128")
        setting = f"{device_of('/var/tmp')}/bdi/read_ahead_kb"
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            bench = subprocess.Popen([HUGEMAP, "bench", "--size", "256M", "--scenario", "rand-1m",
                                      "--engine", "linux-mmap", "--dir", directory],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(bench.kill)
            # The files are there when this benchmark has the lock, and only it changes the setting.
            self.wait(bench, lambda: os.listdir(directory) and
                      read_text(setting) != self.before[0])
            guard = self.guard(bench)
            bench.kill()
            bench.wait()
            select.select([guard], [], [])
            self.assertEqual((read_ahead(), os.listdir(directory)), (self.before[0], []))

    def test_one_benchmark_at_a_time_changes_read_ahead(self):
        """A second one would take the changed setting for the one that it found."""
        setting = f"{device_of('/var/tmp')}/bdi/read_ahead_kb"
        if not os.path.exists(setting):
            self.skipTest("/var/tmp is not on a plain block device")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, open(setting) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            bench = subprocess.Popen([HUGEMAP, "bench", *SMALL, "--scenario", "rand-4k", "--engine",
                                      "linux-mmap", "--dir", directory], text=True,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.addCleanup(bench.kill)
            with bench.stderr:
                self.assertIn("waiting for another benchmark", bench.stderr.readline())
                self.assertEqual(os.listdir(directory), [])
                fcntl.flock(file, fcntl.LOCK_UN)
                bench.stderr.read()
            self.assertEqual(bench.wait(), 0)

    def test_files_are_checked_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            os.chmod(directory, 0o755)
            small, secret = f"{directory}/small", f"{directory}/secret"
            for path, mode, size in ((small, 0o644, 1 << 20), (secret, 0o600, 64 << 20)):
                with open(path, "w") as file:
                    file.truncate(size)
                os.chmod(path, mode)
            wrong = [("--file", f"{directory}/missing", "No such file"), ("--file", small, "small"),
                     ("--file", directory, "regular"), ("--report", directory, "directory"),
                     ("--report", "/nonexistent/x.html", "No such file"),
                     ("--json", "/nonexistent/x.json", "No such file")]
            if not os.geteuid():
                wrong += [("--file", secret, "denied"), ("--report", "/etc/x.html", "denied")]
            for option, path, reason in wrong:
                user = {"user": 65534} if reason == "denied" else {}
                with self.subTest(option=option, path=path):
                    result = subprocess.run([HUGEMAP, "bench", option, path], text=True,
                                            capture_output=True, cwd=directory, **user)
                    self.assertEqual((result.returncode, result.stdout), (1, ""))
                    self.assertRegex(result.stderr, rf"^hugemap bench: {option} {path}: .*\n$")
                    self.assertIn(reason, result.stderr)
            self.assertEqual(sorted(os.listdir(directory)), ["secret", "small"])

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--size", "little"], ["--scenario", "nonsense"], ["--runs", "0"],
                     ["--threads", "1,"], ["--threads", "1,x"], ["--threads", "0"],
                     ["--dir", "/nonexistent"], ["--nonsense"], ["--fast-device", "--keep"],
                     ["--fast-device", "--dir", "/tmp"]):
            with self.subTest(args):
                result = subprocess.run([HUGEMAP, "bench", *args], capture_output=True, text=True)
                self.assertIn(result.returncode, (1, 2))
                self.assertGreater(len(result.stderr.split()), 3)


if __name__ == "__main__":
    unittest.main()
