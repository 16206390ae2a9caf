# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap bench, on a small file: what it prints is what it is said to print."""
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

HUGEMAP = os.environ["HUGEMAP"]
SMALL = ["--size", "64M", "--pool", "16M", "--runs", "2", "--threads", "1"]
SCENARIOS = {"seq-read", "seq-write", "rewrite", "rand-4k", "rand-1m", "loads", "mixed",
             "checkpoint", "restore", "log"}


def read_ahead():
    return {p: open(p).read() for p in glob.glob("/sys/block/*/queue/read_ahead_kb")}


def mounts():
    with open("/proc/self/mountinfo") as file:
        return file.read()


def modules():
    return "hugemap " in open("/proc/modules").read() if os.path.exists("/proc/modules") else False


def cgroups():
    found = glob.glob("/sys/fs/cgroup/**/hugemap-bench*", recursive=True)  # not make programs'
    return [p for p in found if os.path.isdir(p)]


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.report = os.path.join(cls.dir.name, "report.html")
        cls.before = read_ahead(), mounts(), modules()
        result = subprocess.run([HUGEMAP, "bench", *SMALL, "--dir", cls.dir.name, "--json", "-",
                                 "--report", cls.report], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        cls.data = json.loads(result.stdout)
        cls.rows = cls.data["rows"]

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def test_every_scenario_and_engine_is_there(self):
        self.assertEqual({row["scenario"] for row in self.rows}, SCENARIOS)
        for scenario in SCENARIOS:
            engines = {r["engine"] for r in self.rows if r["scenario"] == scenario}
            self.assertLessEqual({"linux-mmap", "device"}, engines, scenario)
        advices = {r["advice"] for r in self.rows
                   if r["engine"] == "linux-mmap" and r["scenario"] == "seq-read"}
        self.assertLessEqual({"default", "sequential", "hugepage"}, advices)

    def test_an_engine_has_rows_or_a_reason(self):
        for engine in ("user", "kernel"):
            rows = [r for r in self.rows if r["engine"] == f"hugemap-{engine}"]
            reason = self.data[f"{engine}_engine_reason"]
            with self.subTest(engine):
                self.assertTrue(bool(rows) != bool(reason), reason)
                if reason:
                    self.assertTrue(any(reason in note for note in self.data["notes"]))
            for row in rows:
                self.assertIn(row["page"], ("2M", "4K"))
                self.assertTrue(row["ratio_best_linux"] and row["ratio_device"])
                self.assertTrue(row["title"].startswith("HugeMap"))

    def test_workers_are_processes_where_it_says_so(self):
        result = subprocess.run([HUGEMAP, "bench", "--size", "64M", "--pool", "16M", "--runs", "1",
                                 "--threads", "1,2", "--scenario", "checkpoint", "--scenario",
                                 "restore", "--engine", "hugemap-user", "--engine", "linux-rw",
                                 "--dir", self.dir.name, "--json", "-"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual(data["settings"]["threads"], [1, 2])
        seen = {(r["scenario"], r["threads"]) for r in data["rows"]}
        self.assertEqual(seen, {(s, n) for s in ("checkpoint", "restore") for n in (1, 2)})
        for row in data["rows"]:
            with self.subTest(f"{row['title']}, {row['scenario']}, {row['threads']}"):
                self.assertEqual(row["bytes"], 64 << 20)
                if row["engine"] == "hugemap-user" and row["threads"] > 1:
                    self.assertEqual(row["scenario"], "restore")
                    self.assertGreaterEqual(row["faults"], 2)

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

    def test_rows_have_what_they_should(self):
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
        text = open(self.report).read()
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

    def test_it_leaves_nothing(self):
        self.assertEqual(os.listdir(self.dir.name), ["report.html"])
        self.assertEqual((read_ahead(), mounts(), modules()), self.before)
        self.assertEqual(cgroups(), [])

    def test_an_interruption_leaves_nothing_either(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            bench = subprocess.Popen([HUGEMAP, "bench", "--size", "256M", "--scenario", "rand-4k",
                                      "--dir", directory], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            for _ in range(200):
                if os.listdir(directory):
                    break
                time.sleep(0.05)
            time.sleep(1)
            bench.send_signal(signal.SIGINT)
            self.assertEqual(bench.wait(60), 130)
            self.assertEqual(os.listdir(directory), [])
        self.assertEqual((read_ahead(), mounts(), modules()), self.before)
        self.assertEqual(cgroups(), [])

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--size", "little"], ["--scenario", "nonsense"], ["--runs", "0"],
                     ["--threads", "1,"], ["--threads", "1,x"], ["--threads", "0"],
                     ["--dir", "/nonexistent"], ["--nonsense"]):
            with self.subTest(args):
                result = subprocess.run([HUGEMAP, "bench", *args], capture_output=True, text=True)
                self.assertIn(result.returncode, (1, 2))
                self.assertGreater(len(result.stderr.split()), 3)


if __name__ == "__main__":
    unittest.main()
