# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""tools/results.py on real JSON of short runs: the page, the charts, and what a second call repeats."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HUGEMAP = os.environ["HUGEMAP"]
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "tools/results.py"
sys.path.insert(0, str(RESULTS.parent))

import results
from results_papers import experiments

HAS_YCSB = (pathlib.Path(HUGEMAP).parent / "bench/ycsb/hugemap-ycsb").exists()
HAS_DIRECT = (pathlib.Path(HUGEMAP).parent / "bench/direct/hugemap-direct").exists()
FAST = ["--size", "64M", "--runs", "1", "--threads", "1", "--engine", "hugemap-steer", "--engine", "linux-mmap"]
# Takes the place of the command: records the arguments, and makes a short run of the same kind.
STAND_IN = f"""#!{sys.executable}
import os, sys
open("{{top}}/calls", "a").write(" ".join(sys.argv[1:]) + "\\n")
if os.path.exists("{{top}}/fail"):
    sys.exit("the disk is on fire")
if os.path.exists("{{top}}/interrupt"):
    sys.exit(130)
words, end = sys.argv[2:], sys.argv[-4:]
if words[0] == "ycsb":
    short = ["ycsb", "--records", "2000", "--runs", "1", "--workload", "c", "--workload", "load",
             "--store", "lmdb", "--mode", "random", "--mode", "steered"]
elif words[0] == "graph":
    short = ["graph", "--scale", "12", "--runs", "1", "--mode", "plain", "--mode", "steered"]
elif words[0] == "direct":
    short = ["direct", "--size", "64M", "--runs", "1", "--seconds", "0.1"]
elif words[0] == "cached":
    short = ["cached", "--size", "4M", "--runs", "1"]
elif words[0] == "curve":
    short = ["curve", *{FAST!r}, "--scenario", "curve-seq", "--pool", "8M"]
else:
    short = [*{FAST!r}, "--scenario", words[words.index("--scenario") + 1]]
os.execv("{HUGEMAP}", ["hugemap", "bench", *short, *end])
"""


class Results(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.top = pathlib.Path(directory.name)
        command = self.top / "hugemap"
        command.write_text(STAND_IN.format(top=self.top))
        command.chmod(0o755)

    def results(self, *words):
        return subprocess.run([sys.executable, RESULTS, "--build", self.top, "--docs", self.top / "docs", "--size", "64M",
                               *words],
                              capture_output=True, text=True)

    def page(self):
        return (self.top / "docs/results.md").read_text()

    def section(self, title):
        """The part of the page below a heading, until the next one."""
        return re.split(r"(?m)^## ", self.page().split(f"\n## {title}\n")[1])[0]

    def calls(self):
        """The experiments that the last call ran."""
        calls = self.top / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [re.search(r"/([a-z-]+)\.new$", line)[1] for line in lines]

    def test_the_page_has_the_rows_of_each_experiment_and_its_command(self):
        names = ["sequential", "checkpoint", "graph", "curve", "cached"] + (["ycsb-small", "ycsb-large"] if HAS_YCSB else [])
        names += ["direct"] if HAS_DIRECT else []
        done = self.results(*(word for name in names for word in ("--only", name)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(self.calls(), names)
        page = self.page()
        for name in names:
            data = json.loads((self.top / f"results-64M/{name}.json").read_text())
            section = self.section(experiments(64 << 20)[name].title)
            self.assertIn("**Theirs**: ", section)
            self.assertIn("\n**Comparison**: ", section)
            if name != "curve":  # a short run has no ratio
                self.assertRegex(section, r"\n\*\*Ours\*\*: .*\d\.\d\d")
            self.assertRegex(section, rf"\n!\[[^]]*\]\(results/{name}\.svg\)\n")
            self.assertRegex(section, r"`hugemap bench .*--runs \d")
            self.assertEqual(len(re.findall("(?m)^[|]", section)), 2 + len(data["rows"]), section)
            for row in data["rows"]:
                if name.startswith("ycsb"):
                    start = f"| {row['workload']} | {row['store']} | {row['mode']} | {row['ops_s']:.0f} | "
                elif name == "direct":
                    start = f"| {row['block']} | {row['target']} | {row['buffers']} | "
                elif name == "cached":
                    start = f"| {row['operation']} | {row['size_bytes'] >> 20} MB | {row['file_system']} | "
                elif name == "graph":
                    start = f"| {row['algorithm']} | {row['mode']} | {row['medges_s']:.2f} | "
                else:
                    speed = results.report.show(row["mb_s"], row)
                    start = f"| {row['scenario']} | {row['threads']} | {row['title']} | {speed} | "
                self.assertIn(start, section)
            chart = (self.top / f"docs/results/{name}.svg").read_text()
            xml.etree.ElementTree.fromstring(chart)
            self.assertRegex(chart, r"more is better|MB/s")
        self.assertIn("Numbers from a\nloaded machine are no results", page)
        self.assertIn("Debian has no package of it", self.section("Not reproduced"))
        self.assertIn("make results ONLY=analytics`", self.section("Not reproduced"))

    def test_queries_have_times_gains_and_an_asterisk_if_they_were_stopped(self):
        command = " ".join(experiments(64 << 20)["analytics"].command)
        runs = [{moment: {"seconds": 2} for moment in ("cold", "warm")}]
        rows = [{"query": "q6", "engine": "polars", "format": "arrow", "mode": mode, "stopped": mode == "plain",
                 "cold_s": 8 / gain, "cold_ratio_plain": gain, "warm_s": 3, "warm_ratio_plain": 1,
                 "data_bytes": 30 << 20, "limit_bytes": 110 << 20, "runs": runs}
                for mode, gain in (("plain", 1), ("steered", 4))]
        data = {"date": "2026-11-28T12:00:00", "machine": {"cpus": 2, "cpu": "none"}, "kernel": "6.18",
                "file_system": {"type": "ext4"}, "errors": [], "rows": rows,
                "made": {"command": command, "seconds": 5, "load": [0.5, 1.5], "commit": "c0ffee"}}
        (self.top / "results-64M").mkdir()
        (self.top / "results-64M/analytics.json").write_text(json.dumps(data))
        self.assertEqual(self.results("--only", "analytics").returncode, 0)
        section = self.section("FastMap: queries of TPC-H larger than memory")
        self.assertIn("| q6 | polars | arrow | plain* | 8.00 | 1.00 | 3.00 | 1.00 | 30 | 110 |", section)
        self.assertIn("**Ours**: q6, polars on arrow: 4.00.", section)
        self.assertIn("2026-11-28 12:00, commit c0ffee, 5 s; load of the machine 0.5 before and 1.5 after", section)

    def test_an_interrupted_run_continues_with_the_next_experiment(self):
        both = ("--only", "sequential", "--only", "checkpoint")
        self.assertEqual(self.results("--only", "sequential").returncode, 0)
        self.assertEqual(self.calls(), ["sequential"])
        (self.top / "interrupt").touch()
        done = self.results(*both)
        self.assertEqual((done.returncode, done.stderr), (130, "interrupted: repeat the command to continue\n"))
        self.assertEqual(self.calls(), ["checkpoint"])
        (self.top / "interrupt").unlink()
        self.assertEqual(self.results(*both).returncode, 0)
        self.assertEqual(self.calls(), ["checkpoint"])
        self.assertEqual(self.results(*both).returncode, 0)
        self.assertEqual(self.calls(), [])
        # The page has the results of earlier calls, too.
        self.assertEqual(self.results("--only", "sequential").returncode, 0)
        self.assertIn("checkpoint.svg", self.page())

    def test_a_failed_experiment_has_its_reason_and_the_others_run(self):
        (self.top / "fail").touch()
        both = ("--only", "sequential", "--only", "checkpoint")
        done = self.results(*both)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.calls(), ["sequential", "checkpoint"])
        section = self.section("HugeMap: sequential reads and writes of a mapping")
        self.assertIn("**This experiment failed.** It ended with status 1. The last message: the disk is on fire\n",
                      section)
        (self.top / "fail").unlink()
        self.assertEqual(self.results(*both).returncode, 0)
        self.assertEqual(self.calls(), ["sequential", "checkpoint"])
        self.assertNotIn("This experiment failed", self.page())

    def test_an_experiment_with_another_command_is_repeated(self):
        self.assertEqual(self.results("--only", "cached").returncode, 0)
        path = self.top / "results-64M/cached.json"
        data = json.loads(path.read_text())
        data["made"]["command"] += " --runs 9"
        path.write_text(json.dumps(data))
        self.assertEqual(self.results("--only", "cached").returncode, 0)
        self.assertEqual(self.calls(), ["cached", "cached"])

    def test_an_experiment_that_takes_too_long_is_stopped(self):
        sleeper = subprocess.Popen(["sleep", "99"])
        self.addCleanup(sleeper.kill)
        self.assertEqual(results.wait(sleeper, 0.05), "It took more than 0 minutes and was stopped.")
        self.assertIsNotNone(sleeper.poll())

    def test_tables_of_the_kernel_engine_are_in_the_page(self):
        (self.top / "results").mkdir()
        table = {"title": "Kernel: reads", "theirs": "1.5 x", "command": "vm/run.py bench", "notes": "One processor.",
                 "columns": ["application", "way", "instructions"], "value": "instructions", "unit": "million",
                 "rows": [["scan", "hugemap", 13.7], ["scan", "Linux", "489.5 (median)"], ["other", "-", "-"]]}
        (self.top / "results/kernel-reads.json").write_text(json.dumps(table))
        self.assertEqual(self.results("--only", "cached").returncode, 0)
        section = self.section("Kernel: reads")
        for line in ("**Theirs**: 1.5 x.", "`vm/run.py bench`", "| scan | Linux | 489.5 (median) |", "One processor.",
                     "![Kernel: reads](results/kernel-reads.svg)"):
            self.assertIn(line, section)
        chart = (self.top / "docs/results/kernel-reads.svg").read_text()
        self.assertIn(">million<", chart)
        self.assertIn(">scan, Linux<", chart)
        (self.top / "results/kernel-wrong.json").write_text('{"title": "x"}')
        self.assertEqual(self.results("--only", "cached").returncode, 1)
        self.assertIn("kernel-wrong.json has another form", self.page())

    def test_nonsense_is_refused(self):
        for words in (["--size", "1"], ["--size", "1T"], ["--only", "lunch"]):
            self.assertEqual(self.results(*words).returncode, 2, words)
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    unittest.main()
