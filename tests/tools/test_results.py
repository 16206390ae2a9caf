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

HUGEMAP = os.environ["HUGEMAP"]
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "tools/results.py"
HAS_YCSB = (pathlib.Path(HUGEMAP).parent / "bench/ycsb/hugemap-ycsb").exists()
HAS_DIRECT = (pathlib.Path(HUGEMAP).parent / "bench/direct/hugemap-direct").exists()
FAST = ["--size", "64M", "--runs", "1", "--threads", "1", "--engine", "hugemap-steer", "--engine", "linux-mmap"]
# Takes the place of the command: records the arguments, and makes a short run of the same kind.
STAND_IN = f"""#!{sys.executable}
import os, sys
open("{{top}}/calls", "a").write(" ".join(sys.argv[1:]) + "\\n")
if os.path.exists("{{top}}/fail"):
    sys.exit(1)
words, end = sys.argv[2:], sys.argv[-4:]
if words[0] == "ycsb":
    short = ["ycsb", "--records", "2000", "--runs", "1", "--workload", "c", "--workload", "load",
             "--store", "lmdb", "--mode", "plain", "--mode", "random"]
elif words[0] == "graph":
    short = ["graph", "--scale", "12", "--runs", "1", "--mode", "plain", "--mode", "random"]
elif words[0] == "direct":
    short = ["direct", "--size", "64M", "--runs", "1", "--seconds", "0.1"]
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
        return subprocess.run([sys.executable, RESULTS, "--build", self.top, "--size", "64M", *words],
                              capture_output=True, text=True)

    def calls(self):
        """The experiments that the last call ran."""
        calls = self.top / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [re.search(r"/([a-z-]+)\.new$", line)[1] for line in lines]

    def test_the_page_has_the_rows_of_each_experiment_and_its_command(self):
        names = ["sequential", "checkpoint", "graph", "curve"] + (["ycsb-small", "ycsb-large"] if HAS_YCSB else [])
        names += ["direct"] if HAS_DIRECT else []
        done = self.results(*(word for name in names for word in ("--only", name)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(self.calls(), names)
        page = (self.top / "results-64M/results.md").read_text()
        for name in names:
            data = json.loads((self.top / f"results-64M/{name}.json").read_text())
            section, = re.findall(rf"(?ms)^## [^#]*?^!\[[^]]*\]\({name}\.svg\)$", page)
            self.assertIn("\nTheirs: ", section)
            self.assertRegex(section, r"`hugemap bench .*--runs \d")
            self.assertEqual(len(re.findall("(?m)^[|]", section)), 2 + len(data["rows"]), section)
            for row in data["rows"]:
                if name.startswith("ycsb"):
                    start = f"| {row['workload']} | {row['store']} | {row['mode']} | {row['ops_s']:.0f} | "
                elif name == "direct":
                    start = f"| {row['block']} | {row['target']} | {row['buffers']} | "
                elif name == "graph":
                    start = f"| {row['algorithm']} | {row['mode']} | {row['medges_s']:.2f} | "
                else:
                    start = f"| {row['scenario']} | {row['threads']} | {row['title']} | {row['mb_s']:.0f} | "
                self.assertIn(start, section)
            chart = (self.top / f"results-64M/{name}.svg").read_text()
            self.assertTrue(chart.endswith("</svg>\n"), chart[-200:])
        self.assertIn("numbers from a loaded machine are no results", page)

    def test_an_interrupted_run_continues_with_the_next_experiment(self):
        self.assertEqual(self.results("--only", "sequential").returncode, 0)
        self.assertEqual(self.calls(), ["sequential"])
        (self.top / "fail").touch()
        both = ("--only", "sequential", "--only", "checkpoint")
        self.assertNotEqual(self.results(*both).returncode, 0)
        self.assertEqual(self.calls(), ["checkpoint"])
        (self.top / "fail").unlink()
        self.assertEqual(self.results(*both).returncode, 0)
        self.assertEqual(self.calls(), ["checkpoint"])
        self.assertEqual(self.results(*both).returncode, 0)
        self.assertEqual(self.calls(), [])

    def test_nonsense_is_refused(self):
        for words in (["--size", "1"], ["--size", "1T"], ["--only", "lunch"]):
            self.assertEqual(self.results(*words).returncode, 2, words)
        self.assertEqual(self.calls(), [])


if __name__ == "__main__":
    unittest.main()
