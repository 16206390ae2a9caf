# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The tables of vm/applications_report.py: ratios, wrong answers, and the reason of a loss."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parents[2] / "vm"))

import applications_report as report
from applications_report import Row, Table

MIB = 1 << 20


def row(way, insns, faults=10, answer="7", functions=None, units=1, label="A"):
    used = {name: [n, 1] for name, n in (functions or {}).items()}
    return Row([label], way, way.startswith("hugemap"), insns, faults, 3 * MIB, 0, answer, used, units)


def table(*rows, **more):
    return Table("title", "theirs", ["workload"], list(rows), "notes.", **more)


def cells_of(made, way):
    found = next(each for each in made.rows if each.way == way)
    return dict(zip(report.columns(made), report.cells(made, found)))


class Tables(unittest.TestCase):
    def test_the_ratios_are_to_plain_and_to_the_best_advice(self):
        made = table(row("hugemap, page=auto", 2e6, 4), row("ext4, default", 8e6, 40), row("ext4, random", 5e6, 50))
        cells = cells_of(made, "hugemap, page=auto")
        self.assertEqual(cells["million instructions"], "2.0")
        self.assertEqual((cells["of plain"], cells["of Linux's best"]), ("0.25", "0.40"))
        self.assertEqual(cells["faults of plain"], "0.10")
        self.assertEqual((cells["MB read"], cells["MB written"]), ("3.0", "0.0"))

    def test_a_row_is_compared_with_rows_of_the_same_labels_only(self):
        made = table(row("ext4, default", 1e6, label="B"), row("hugemap, page=auto", 2e6), row("ext4, default", 8e6))
        self.assertEqual(cells_of(made, "hugemap, page=auto")["of plain"], "0.25")

    def test_read_without_a_mapping_and_tmpfs_are_not_the_best_advice(self):
        made = table(row("hugemap, page=auto", 2e6), row("ext4, default", 8e6), row("ext4, pread", 1e6),
                     row("tmpfs, default", 1e6))
        self.assertEqual(cells_of(made, "hugemap, page=auto")["of Linux's best"], "0.25")

    def test_a_wrong_answer_is_reported(self):
        made = table(row("hugemap, page=auto", 2e6, answer="8"), row("ext4, default", 8e6))
        self.assertEqual(cells_of(made, "hugemap, page=auto")["answer"], "WRONG")
        self.assertEqual(made.wrong_answers(), ["A: hugemap, page=auto: another answer than ext4, default"])
        self.assertEqual(cells_of(made, "ext4, default")["answer"], "equal")

    def test_unknown_numbers_are_empty_cells(self):
        made = table(row("hugemap, page=auto", 2e6, None), row("ext4, default", 8e6))
        self.assertEqual(cells_of(made, "hugemap, page=auto")["faults"], "")

    def test_a_loss_has_the_functions_with_the_largest_increase_for_a_unit(self):
        lost = row("hugemap, page=4K", 30, functions={"same": 40, "slow": 400, "less": 10, "(user space)": 9000},
                   units=10)
        best = row("ext4, default", 10, functions={"same": 20, "slow": 50, "less": 20}, units=5)
        made = table(lost, best, per="page")
        self.assertEqual(report.reasons(made), ["A, hugemap, page=4K (3.00 of ext4, default): slow +30.0 for a page."])

    def test_only_a_loss_has_a_reason(self):
        made = table(row("hugemap, page=4K", 10, functions={"slow": 400}), row("ext4, default", 10))
        self.assertEqual(report.reasons(made), [])

    def test_the_file_has_the_fields_and_numbers_of_a_results_page(self):
        made = table(row("hugemap, page=auto", 9e6, functions={"slow": 4e6}), row("ext4, default", 8e6))
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "kernel-name.json"
            report.write(made, path, "the command", "6.1.0")
            data = json.loads(path.read_text())
            functions = json.loads((path.parent / "functions-kernel-name.json").read_text())
        self.assertEqual({*data}, {"title", "theirs", "command", "columns", "rows", "notes", "value", "unit"})
        self.assertIn(data["value"], data["columns"])
        self.assertTrue(all(len(each) == len(data["columns"]) for each in data["rows"]))
        self.assertEqual(data["rows"][0][data["columns"].index("of plain")], 1.12)
        self.assertIn("slow +4.0 million", data["notes"])
        self.assertEqual(functions["rows"][0]["functions"], {"slow": [4e6, 1]})


if __name__ == "__main__":
    unittest.main()
