# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""bench/analytics.py with a stand-in for the Python that runs the queries; the answers of the real programs."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
ANALYTICS = TOP / "bench/analytics.py"
PROGRAMS = pathlib.Path("~/.cache/hugemap/programs/bin").expanduser()
# Takes the place of `python analytics.py make|query TOP ...`. The environment of a steered run has LD_PRELOAD.
STAND_IN = """#!PYTHON
import json, os, sys, time
sys.path.insert(0, "BENCH")
from analytics import COLUMNS
role, top, *words = sys.argv[2:]
if role == "make":
    for name in "lineitem.arrow", "lineitem.parquet":
        open(top + "/" + name, "w").write("data")
    names = {table: names for tables in COLUMNS.values() for table, names in tables.items()}
    names["lineitem"] = {name for tables in COLUMNS.values() for name in tables["lineitem"]}
    count = {table: dict.fromkeys(columns, 30 << 20) for table, columns in names.items()}
    json.dump({"arrow": count, "parquet": count}, open(top + "/sizes.json", "w"))
else:
    steered = "libhugemap-run" in os.environ.get("LD_PRELOAD", "")
    limited = any("hugemap-programs" in line for line in open("/proc/self/cgroup"))
    answer = [[words[2], 42]]
    DEFECT
    out = {moment: {"seconds": 1.5 if steered else 3, "answer": answer} for moment in ("cold", "warm")}
    print(json.dumps(out))
"""


@unittest.skipIf(os.geteuid(), "only root can make a memory control group")
class Analytics(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def analytics(self, *words):
        """Run it; return the process, and its JSON."""
        (self.dir / "files").mkdir()
        done = subprocess.run(["/usr/bin/python3", ANALYTICS, "--dir", self.dir / "files", "--hugemap",
                               os.environ["HUGEMAP"], "--json", self.dir / "json", *words], capture_output=True,
                              text=True)
        self.assertEqual(os.listdir(self.dir / "files"), [])
        return done, json.loads((self.dir / "json").read_text())

    def stand_in(self, defect, *words):
        path = self.dir / "python"
        path.write_text(STAND_IN.replace("PYTHON", sys.executable).replace("BENCH", os.fspath(ANALYTICS.parent))
                        .replace("DEFECT", defect))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return self.analytics("--python", path, *words)

    def test_each_query_has_rows_of_each_program_and_mode(self):
        done, data = self.stand_in("assert limited or not steered", "--runs", "2", "--query", "q1", "--query", "q14")
        self.assertEqual((done.returncode, done.stderr, data["errors"]), (0, "", []))
        self.assertEqual(len(data["rows"]), 2 * 4 * 2)
        for row in data["rows"]:
            gain = 2 if row["mode"] == "steered" else 1
            self.assertEqual((row["cold_ratio_plain"], row["warm_ratio_plain"]), (gain, gain))
            self.assertEqual((len(row["runs"]), row["stopped"]), (2, False))
            # Memory of the process, and a third of the columns that the query reads.
            columns = {"q1": 7, "q14": 6}[row["query"]]
            self.assertEqual(row["data_bytes"], columns * 30 << 20)
            self.assertEqual(row["limit_bytes"], int(1.1 * row["own_bytes"]) + columns * 10 * (1 << 20))
            self.assertGreater(row["own_bytes"], 1 << 20)

    def test_a_wrong_answer_fails(self):
        for defect, error in (("answer[0][1] += steered", "steered, cold: the answer was wrong"),
                              ("answer[0][1] += words[0] == 'polars'", "the answer differs from the first program's")):
            with self.subTest(error):
                done, data = self.stand_in(defect, "--runs", "1", "--query", "q6")
                self.assertEqual(done.returncode, 1)
                self.assertIn(error, "\n".join(data["errors"]))
                (self.dir / "files").rmdir()

    def test_a_program_that_ends_early_has_no_rows_and_a_reason(self):
        done, data = self.stand_in("if words[1] == 'arrow': sys.exit('no room')", "--runs", "1", "--query", "q6")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(data["errors"], [f"q6, {engine}, arrow: exit status 1: no room"
                                          for engine in ("duckdb", "polars")])
        self.assertEqual({row["format"] for row in data["rows"]}, {"parquet"})

    def test_a_long_run_is_stopped_once_and_marked(self):
        defect = f"if limited and not steered: open({os.fspath(self.dir)!r} + '/slow', 'a').write('x'); time.sleep(99)"
        done, data = self.stand_in(defect, "--runs", "3", "--query", "q6", "--seconds", "1")
        self.assertEqual((done.returncode, data["errors"]), (0, []))
        self.assertEqual((self.dir / "slow").read_text(), "xxxx")  # one for each program
        self.assertEqual({(row["mode"], row["stopped"]) for row in data["rows"]}, {("plain", True), ("steered", False)})
        self.assertIn("plain   *", done.stdout)

    @unittest.skipUnless((PROGRAMS / "tpchgen-cli").exists(), "tools/install-deps.sh analytics was not run")
    def test_the_real_programs_agree(self):
        done, data = self.analytics("--size", "4M", "--runs", "1", "--query", "q6")
        self.assertEqual((done.returncode, data["errors"]), (0, []), done.stderr)
        self.assertEqual(len(data["rows"]), 4 * 2)
        for row in data["rows"]:
            if (row["engine"], row["mode"]) == ("polars", "plain"):
                self.assertGreater(row["runs"][0]["cold"]["read_bytes"], 0)  # it was not cached


if __name__ == "__main__":
    unittest.main()
