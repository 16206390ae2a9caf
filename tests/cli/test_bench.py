# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap bench on a small file."""
import collections
import fcntl
import glob
import itertools
import json
import os
import re
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HUGEMAP = os.environ["HUGEMAP"]
YCSB = os.path.join(os.environ["BUILD_ROOT"], "bench/ycsb/hugemap-ycsb")
DIRECT = os.path.join(os.environ["BUILD_ROOT"], "bench/direct/hugemap-direct")
GRAPH = os.path.join(os.environ["BUILD_ROOT"], "bench/graph/hugemap-graph")
SMALL = ["--size", "64M", "--pool", "16M", "--runs", "2", "--threads", "1"]
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


def read_line(path):
    with open(path) as file:
        return file.read()


def foreign(directory, name, program):
    """A copy of the command that starts another program of the benchmark, or finds none."""
    path = f"{directory}/bin/bench/{name}"
    os.makedirs(os.path.dirname(path))
    command = shutil.copy(HUGEMAP, f"{directory}/bin/hugemap")
    if program:
        with open(path, "w") as file:
            file.write(program)
        os.chmod(path, 0o755)
    return command


def mixed(x):
    """As random_mix() of bench/random.c."""
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    x = (x ^ x >> 27) * 0x94d049bb133111eb % 2**64
    return x ^ x >> 31


def digest_of(values):
    return sum(mixed(v << 32 | value) for v, value in enumerate(values)) % 2**64


def rounded(x):
    """As a number of 32 bits."""
    return struct.unpack("f", struct.pack("f", x))[0]


def scores_of(neighbors):
    """The scores of three iterations of PageRank, as the words of 32-bit numbers."""
    n = len(neighbors)
    damping = rounded(0.85)
    base = rounded(rounded(1 - damping) / n)
    scores = [rounded(1 / n)] * n
    for _ in range(3):
        contributions = [rounded(score / len(found)) if found else 0
                         for score, found in zip(scores, neighbors)]
        sums = []
        for found in neighbors:
            total = 0.0
            for v in found:
                total = rounded(total + contributions[v])
            sums.append(total)
        scores = [rounded(base + rounded(damping * total)) for total in sums]
    return [struct.unpack("I", struct.pack("f", score))[0] for score in scores]


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
    return [line for line in read_line("/proc/self/mountinfo").splitlines()
            if "hugemap-bench" in line]


def modules():
    return "hugemap " in open("/proc/modules").read() if os.path.exists("/proc/modules") else False


def fast_device(pid):
    """The zram device that a process has mounted in its own mount name space."""
    found = re.search(r"/tmp/hugemap-bench-.* /dev/(zram\d+) ", read_line(f"/proc/{pid}/mountinfo"))
    return found and found[1]


def has_zram():
    return os.geteuid() == 0 and os.path.exists("/sys/class/zram-control/hot_add")


def cgroups(pid):
    """The control groups of a benchmark."""
    found = glob.glob(f"/sys/fs/cgroup/**/hugemap-bench.{pid}.*", recursive=True)
    return [p for p in found if os.path.isdir(p)]


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.report = os.path.join(cls.dir.name, "report.html")
        cls.before = read_ahead(), mounts(), modules()
        every = [word for name in sorted(SCENARIOS) for word in ("--scenario", name)]
        with subprocess.Popen([HUGEMAP, "bench", "--quick", *SMALL, *every, "--dir", cls.dir.name,
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

        rows = [r for r in self.rows if r["scenario"] == "seq-read"]
        if not rows[0]["ratio_read_ahead"]:
            self.skipTest("read_ahead_kb cannot be changed here, or is 128")
        ratios = [a / b for a, b in zip(speeds(rows, "hugemap-steer"), speeds(rows, "linux-mmap"))]
        self.assertAlmostEqual(rows[0]["ratio_read_ahead"], statistics.median(ratios), delta=0.01)

    def test_both_settings_of_read_ahead_are_shown(self):
        """The setting of this machine, which comes first, and that of most machines."""
        found = self.data["device"]["read_ahead_kb"]
        both = any(row["ratio_read_ahead"] for row in self.rows)
        page = read_line(self.report)
        self.assertTrue(f"read_ahead_kb {found} (most machines: 128)" in page, page[:2000])
        self.assertEqual("on most machines (read_ahead_kb 128)" in page, both)
        result = subprocess.run([HUGEMAP, "bench", "--demo", *SMALL, "--scenario", "rand-4k",
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
        page = read_line(self.report + ".curve")
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
        for row in self.rows:
            runs = row.get("runs")
            if not isinstance(runs, list):
                continue
            key = "mb_s" if row.get("mb_s") is not None else "ns_op"
            values = [r[key] for r in runs if isinstance(r, dict) and r.get(key)]
            if values:
                compared += 1
                self.assertAlmostEqual(row[key] / statistics.median(values), 1, delta=0.01)
        self.assertTrue(compared, "no row has its single runs")

    def test_the_report_is_one_file(self):
        text = read_line(self.report)
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
        unused = read_line("/sys/block/zram0/disksize") if os.path.exists("/sys/block/zram0") else None
        result = subprocess.run([HUGEMAP, "bench", *SMALL, "--fast-device", "--scenario", "rand-1m",
                                 "--engine", "hugemap-steer", "--engine", "linux-mmap", "--json",
                                 "-"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertRegex(data["device"]["name"], "^zram[0-9]+$")
        self.assertEqual(data["file_system"]["type"], "ext4")
        self.assertTrue(data["settings"]["fast_device"])
        self.assertFalse(os.path.exists(f"/sys/block/{data['device']['name']}"))
        if unused is not None:
            self.assertEqual(read_line("/sys/block/zram0/disksize"), unused)
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
                                  read_line(f"/proc/{bench.pid}/mountinfo"))[0]
            guard = self.guard(bench)
            bench.send_signal(number)
            bench.wait()
            select.select([guard], [], [])  # it outlives the killed benchmark
            left = [p for p in (f"/sys/block/{device}", directory) if os.path.exists(p)]
            self.assertEqual((left, cgroups(bench.pid), read_ahead(), mounts()),
                             ([], [], *self.before[:2]))

    def guard(self, bench):
        """The process that restores everything: a descriptor that becomes readable at its end."""
        children = read_line(f"/proc/{bench.pid}/task/{bench.pid}/children").split()
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
                      read_line(setting) != self.before[0])
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


@unittest.skipUnless(os.path.exists(YCSB), "hugemap-ycsb is not built: it needs LMDB and RocksDB")
class Ycsb(unittest.TestCase):
    """hugemap bench ycsb: answers, and what it leaves; no times."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def bench(self, *args, command=HUGEMAP):
        return subprocess.run([command, "bench", "ycsb", "--dir", self.dir, "--runs", "1",
                               "--records", "2001", "--value", "504", *args],
                              capture_output=True, text=True)

    def foreign(self, program):
        return foreign(self.dir, "ycsb/hugemap-ycsb", program)

    def test_all_stores_and_modes_give_the_same_answers(self):
        table = self.bench("--workload", "c").stdout
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        result = self.bench("--threads", "2", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual((data["errors"], data["settings"]["records"]), ([], 2000))
        modes = {"plain", "random", "steered"}
        seen = {(row["workload"], row["store"], row["mode"]) for row in data["rows"]}
        for workload in ("load", *"abcdef"):
            self.assertLessEqual({(workload, store, mode) for store in ("lmdb", "rocksdb")
                                  for mode in modes}, seen)
            self.assertIn((workload, "rocksdb", "pread"), seen)
            runs = [run for row in data["rows"] if row["workload"] == workload
                    for run in row["runs"]]
            self.assertEqual({run["ops"] for run in runs}, {2000})
            self.assertEqual({run["digest"] for run in runs}, {runs[0]["expected"]}, workload)
            for run in runs:
                self.assertEqual(run["read_us"] is None, workload == "load")
                self.assertEqual(run["write_us"] is None, workload == "c")
        self.assertNotIn(("c", "lmdb", "pread"), seen)
        self.assertEqual(os.listdir(self.dir), [])

    def test_seeds_and_distributions_differ(self):
        def digests(*args):
            result = self.bench("--workload", "c", "--store", "lmdb", "--mode", "plain", "--json",
                                "-", "--runs", "2", *args)
            return {run["digest"] for run in json.loads(result.stdout)["rows"][0]["runs"]}

        self.assertEqual(len(digests() | digests("--distribution", "uniform")), 4)

    def test_a_wrong_byte_in_a_store_is_found(self):
        def run(workload):
            job = (f"store=0,workload={workload},threads=1,seed=0,uniform=1,pread=0,random=0,warm=0,"
                   "settle=0,records=500,operations=500,value=1000,buffer=0,milliseconds=0")
            done = subprocess.run([YCSB, self.dir, job], check=True, capture_output=True)
            return json.loads(done.stdout)

        def read():
            return run(3)

        run(0)
        before = read()
        self.assertEqual(before["digest"], before["expected"])
        with open(f"{self.dir}/data.mdb", "r+b") as file:
            data = bytearray(file.read())
            for at in range(0, len(data) - 4096, 4096):
                data[at + 4000] ^= 1  # in the value at the end of a leaf
            file.seek(3 * 4096)
            file.write(data[3 * 4096:])
        after = read()
        self.assertNotEqual(after["digest"], before["digest"])
        self.assertEqual(after["expected"], before["expected"])

    def test_a_wrong_answer_fails_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n{YCSB} \"$@\" | sed 's/\"digest\": \"./&x/'\n")
        result = self.bench("--workload", "c", "--store", "lmdb", "--mode", "plain", "--json", "-",
                            command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("c, lmdb, plain: an answer was wrong", result.stderr)
        self.assertEqual(json.loads(result.stdout)["rows"], [])

    def test_lost_records_fail_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n{YCSB} \"$@\" | sed '/expected/!s/\"ops\": ./&1/'\n")
        result = self.bench("--store", "rocksdb", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("load, rocksdb, without a limit: the store has other records", result.stderr)

    def test_a_store_that_cannot_be_copied_fails_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n{YCSB} \"$@\"\ncase $2 in *workload=7*) mv $1 $1.gone;; esac\n")
        result = self.bench("--workload", "a", "--store", "lmdb", "--mode", "plain", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("a, lmdb, plain: cp: cannot stat", result.stderr)

    def test_a_missing_program_is_explained(self):
        result = self.bench(command=self.foreign(None))
        if "libexec" in result.stderr or result.returncode == 0:
            self.skipTest("hugemap-ycsb is installed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("librocksdb-dev", result.stderr)

    def test_an_interruption_leaves_nothing(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            bench = subprocess.Popen([HUGEMAP, "bench", "ycsb", "--dir", self.dir, "--records",
                                      "100000"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            self.addCleanup(bench.kill)
            while not glob.glob(f"{self.dir}/*/*/*"):
                self.assertIsNone(bench.poll(), "the benchmark ended too early")
                time.sleep(0.005)
            children = read_line(f"/proc/{bench.pid}/task/{bench.pid}/children").split()
            guard, = [pid for pid in children if os.getsid(int(pid)) == int(pid)]
            descriptor = os.pidfd_open(int(guard))
            bench.send_signal(number)
            self.assertEqual(bench.wait(), status)
            select.select([descriptor], [], [])
            os.close(descriptor)
            self.assertEqual((os.listdir(self.dir), cgroups(bench.pid)), ([], []))

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--records", "5"], ["--value", "8"], ["--value", "1M"], ["--pool", "1M"],
                     ["--workload", "g"], ["--store", "x"], ["--mode", "fast"], ["--threads", "0"],
                     ["--distribution", "normal"], ["--mode", "pread", "--store", "lmdb"],
                     ["--dir", "/nonexistent"], ["--scenario", "rand-4k"], ["more"]):
            with self.subTest(args):
                result = self.bench(*args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, "^hugemap bench ycsb: .*\n$")


@unittest.skipUnless(os.path.exists(DIRECT), "hugemap-direct is not built: it needs liburing")
@unittest.skipIf(os.geteuid(), "only root may register 64 MB")
class Direct(unittest.TestCase):
    """hugemap bench direct: data, and what it leaves; no times."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def bench(self, *args, command=HUGEMAP):
        return subprocess.run([command, "bench", "direct", "--dir", self.dir, "--runs", "1",
                               "--size", "64M", "--seconds", "0.1", *args],
                              capture_output=True, text=True)

    def read(self, *args):
        return subprocess.run([DIRECT, "read", f"{self.dir}/file", *args], capture_output=True, text=True)

    def test_all_memory_gets_the_right_data(self):
        table = self.bench("--block", "1M").stdout
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        result = self.bench("--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual((data["errors"], data["settings"]["depth"]), ([], 16))
        rows = {(row["block"], row["target"], row["buffers"]): row for row in data["rows"]}
        self.assertEqual(len(rows), 16)
        for (block, target, buffers), row in rows.items():
            with self.subTest((block, target, buffers)):
                if target == "mapping" and buffers == "registered":
                    self.assertIn(row["refused"], ("Bad address", "Operation not supported"))
                    self.assertEqual(row["mb_s"], 0)
                elif target != "hugetlb":
                    self.assertIsNone(row["refused"])
                    self.assertGreater(row["mb_s"], 0)
                    self.assertGreaterEqual(row["system_us_mb"], 0)
        self.assertEqual(max(row["ratio_best"] for row in rows.values()), 1)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_wrong_byte_is_found(self):
        subprocess.run([DIRECT, "make", f"{self.dir}/file", str(64 << 20)], check=True)
        arguments = ["small", "65536", "4", "plain", "0.3"]
        self.assertEqual(self.read(*arguments).returncode, 0)
        with open(f"{self.dir}/file", "r+b") as file:
            for at in range(0, 64 << 20, 65536):
                file.seek(at + 65528)
                file.write(b"x")
        found = self.read(*arguments)
        self.assertEqual((found.returncode, found.stdout), (1, ""))
        self.assertIn("wrong data in block", found.stderr)

    def test_an_error_of_the_program_fails_the_benchmark(self):
        command = foreign(self.dir, "direct/hugemap-direct",
                          f"#!/bin/sh\n[ \"$3\" = thp ] && exit 1\nexec {DIRECT} \"$@\"\n")
        result = self.bench("--block", "1M", "--json", "-", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("1M, thp, plain: it ended with status 1", result.stderr)
        self.assertNotIn("thp", {row["target"] for row in json.loads(result.stdout)["rows"]})

    def test_a_missing_program_is_explained(self):
        result = self.bench(command=foreign(self.dir, "direct/hugemap-direct", None))
        if result.returncode == 0:
            self.skipTest("hugemap-direct is installed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("liburing-dev", result.stderr)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--size", "1M"], ["--block", "2M"], ["--target", "gpu"], ["--depth", "33"],
                     ["--depth", "0"], ["--seconds", "x"], ["--dir", "/nonexistent"], ["more"]):
            with self.subTest(args):
                result = self.bench(*args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, "^hugemap bench direct: .*\n$")


class Graph(unittest.TestCase):
    """hugemap bench graph: answers, and what it leaves; no times."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def bench(self, *args, command=HUGEMAP):
        return subprocess.run([command, "bench", "graph", "--dir", self.dir, "--runs", "1",
                               "--scale", "12", "--degree", "5", *args],
                              capture_output=True, text=True)

    def graph(self, *args):
        return subprocess.run([GRAPH, *args], check=True, capture_output=True).stdout

    def read_graph(self):
        """The neighbors of each vertex, from the file that the program makes."""
        path = f"{self.dir}/graph"
        self.graph("make", path, "10", "4")
        with open(path, "rb") as file:
            data = file.read()
        n, m = struct.unpack_from("QQ", data, 8)
        offsets = struct.unpack_from(f"{n + 1}Q", data, 4096)
        neighbors = struct.unpack_from(f"{m}I", data, 4096 + 8 * (n + 1))
        self.assertEqual((n, offsets[0], offsets[-1]), (1024, 0, m))
        return path, [neighbors[a:b] for a, b in itertools.pairwise(offsets)]

    def test_the_graph_has_each_edge_in_both_directions(self):
        neighbors = self.read_graph()[1]
        edges = collections.Counter((u, v) for u, all_of_u in enumerate(neighbors) for v in all_of_u)
        self.assertGreater(len(edges), 3000)
        for (u, v), count in edges.items():
            self.assertNotEqual(u, v)
            self.assertEqual(edges[v, u], count)
        degrees = sorted(map(len, neighbors))
        self.assertGreater(sum(degrees[-100:]), sum(degrees) / 3)  # a few vertices have very many

    def test_levels_and_scores_are_right(self):
        path, neighbors = self.read_graph()
        source = next(v for v, found in enumerate(neighbors) if found)
        levels = {source: 0}
        queue = [source]
        for u in queue:
            for v in neighbors[u]:
                if v not in levels:
                    levels[v] = levels[u] + 1
                    queue.append(v)
        values = [levels.get(v, 2**32 - 1) for v in range(1024)]
        for threads in "1", "4":
            found = json.loads(self.graph("bfs", path, "none", threads, "60"))
            self.assertEqual(found["edges"], sum(len(neighbors[v]) for v in levels))
            self.assertEqual(int(found["digest"], 16), digest_of(values))
            found = json.loads(self.graph("pagerank", path, "none", threads, "60"))
            self.assertEqual(found["edges"], 3 * sum(map(len, neighbors)))
            self.assertEqual(int(found["digest"], 16), digest_of(scores_of(neighbors)))

    def test_all_modes_give_the_same_answers(self):
        table = self.bench("--algorithm", "bfs").stdout
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        result = self.bench("--threads", "3", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual((data["errors"], data["settings"]["scale"]), ([], 12))
        for algorithm in "bfs", "pagerank":
            rows = {row["mode"]: row for row in data["rows"] if row["algorithm"] == algorithm}
            self.assertLessEqual({"plain", "random", "hugepage", "steered"}, set(rows))
            self.assertEqual(len({row["runs"][0]["digest"] for row in rows.values()}), 1)
            self.assertGreater(rows["random"]["runs"][0]["read_bytes"], 0)  # it was not cached
            self.assertGreaterEqual(rows["hugepage"]["ratio_plain"], 0.001)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_wrong_answer_fails_the_benchmark(self):
        command = foreign(self.dir, "graph/hugemap-graph", "#!/bin/sh\ncase $3 in random) wrong=x;; esac\n"
                          f"{GRAPH} \"$@\" | sed \"s/digest.: ./&$wrong/\"\n")
        result = self.bench("--algorithm", "bfs", "--json", "-", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("bfs, random: the answer was wrong", result.stderr)
        self.assertNotIn("random", {row["mode"] for row in json.loads(result.stdout)["rows"]})

    def test_a_run_stops_after_its_time(self):
        path = f"{self.dir}/graph"
        self.graph("make", path, "18", "8")
        for name in "bfs", "pagerank":
            found = json.loads(self.graph(name, path, "none", "2", "0"))
            self.assertNotIn("digest", found)
            self.assertLess(found["edges"], 3 * 2 * 8 << 18)

    def test_a_stopped_run_is_marked_and_not_checked(self):
        command = foreign(self.dir, "graph/hugemap-graph", "#!/bin/sh\n[ \"$3\" = random ] && set -- "
                          f"\"$1\" \"$2\" \"$3\" \"$4\" 0\n{GRAPH} \"$@\" | sed 's/edges.: 0/edges\": 1/'\n")
        result = self.bench("--scale", "17", "--algorithm", "bfs", "--mode", "random", "--mode", "plain",
                            command=command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^\* random ")
        self.assertRegex(result.stdout, r"(?m)^  plain ")

    def test_a_run_without_an_edge_fails_the_benchmark(self):
        command = foreign(self.dir, "graph/hugemap-graph",
                          f"#!/bin/sh\n{GRAPH} \"$@\" | sed \"s/edges.: [0-9]*/edges\\\": 0/\"\n")
        result = self.bench("--algorithm", "bfs", "--mode", "plain", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("bfs, plain: no edge was followed", result.stderr)

    def test_another_graph_than_was_stored_is_found(self):
        path = self.read_graph()[0]
        with open(path, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            last, = struct.unpack("I", file.read())
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("I", last ^ 1))
        done = subprocess.run([GRAPH, "bfs", path, "memory", "1", "60"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("another graph than was stored", done.stderr)

    def test_a_damaged_graph_is_refused(self):
        path = f"{self.dir}/graph"
        for content in b"", b"x" * 8192:
            with open(path, "wb") as file:
                file.write(content)
            done = subprocess.run([GRAPH, "bfs", path, "none", "1", "60"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("not a graph", done.stderr)

    def test_a_missing_program_is_explained(self):
        result = self.bench(command=foreign(self.dir, "graph/hugemap-graph", None))
        if result.returncode == 0:
            self.skipTest("hugemap-graph is installed")
        self.assertEqual(result.returncode, 1)
        self.assertIn("hugemap-graph is not there", result.stderr)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--scale", "5"], ["--scale", "28"], ["--degree", "0"], ["--pool", "1M"],
                     ["--algorithm", "dfs"], ["--mode", "fast"], ["--threads", "0"],
                     ["--seconds", "0"], ["--dir", "/nonexistent"], ["more"]):
            with self.subTest(args):
                result = self.bench(*args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, "^hugemap bench graph: .*\n$")


if __name__ == "__main__":
    unittest.main()
