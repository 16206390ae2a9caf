#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of vm/xfstests.py: the results that it reads from ./check, without a guest."""
import contextlib
import io
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "vm"))
import guest  # noqa: E402
import xfstests  # noqa: E402

HEAD = ["| FSTYP         -- fuse", "|"]
DIED = "died"
ENDED = "ended"  # before the next batch


class Guest:
    """Sends prepared lines."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.console, self.process = lines, ["a line of the kernel"], True
        self.batches: list[list[str]] = []

    def send(self, command: str) -> None:
        if self.lines == [ENDED]:
            raise guest.Died("the guest ended")
        run, *batch = command.split()
        assert run == "run"
        self.batches.append(batch)

    def close(self) -> None:
        self.process = False

    def read_answer(self, _: float) -> str:
        line = self.lines.pop(0)
        if line == DIED:
            self.process = False
            raise guest.Died("the guest did not answer in time and was killed")
        return line

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Fake(xfstests.Runner):
    """A runner that boots guests with prepared lines."""

    def __init__(self, *guests: list[str]) -> None:
        super().__init__(None, None, {}, "ext4", "128M", 60, 2048)
        self.guests, self.booted = [Guest(HEAD + lines) for lines in guests], []

    def boot(self, plain: bool) -> Guest:
        self.booted.append((self.guests.pop(0), plain))
        return self.booted[-1][0]


def tests(*numbers: int) -> list[str]:
    return [f"generic/{number:03}" for number in numbers]


class Follow(unittest.TestCase):
    def texts(self, runner: Fake, *numbers: int) -> list[str]:
        return [str(outcome) for outcome in runner.run(tests(*numbers))]

    def test_each_kind_of_result(self) -> None:
        runner = Fake([
            "| generic/001         12s",
            "| generic/002         [not run] no reflink here",
            "| generic/003         - output mismatch (see /results/generic/003.out.bad)",
            "|     -one",
            "|     +two",
            "| generic/004 3s ...  [failed, exit status 1] 5s",
            "| generic/005 3s ...  4s",
            "| generic/006         _check_dmesg: something found in dmesg (see /results/generic/006.dmesg)",
            "| Ran: generic/001 generic/003",
            "| Failures: generic/003",
            "@@ ok",
        ])
        self.assertEqual(self.texts(runner, 1, 2, 3, 4, 5, 6), [
            "generic/001 passed",
            "generic/002 not run: no reflink here",
            "generic/003 failed: output mismatch",
            "generic/004 failed: [failed, exit status 1]",
            "generic/005 passed",
            "generic/006 failed: _check_dmesg: something found in dmesg",
        ])
        self.assertEqual(runner.booted[0][0].batches, [tests(1, 2, 3, 4, 5, 6)])

    def test_details_of_a_failure(self) -> None:
        runner = Fake(["| generic/003         - output mismatch", "|     -one", "| ", "|     +two", "@@ ok"])
        self.assertEqual(next(runner.run(tests(3))).details, ["    -one", "    +two"])

    def test_passed_test_is_reported_before_the_next_one_ends(self) -> None:
        outcomes = Fake(["| generic/001         1s"]).run(tests(1, 2))
        self.assertEqual(str(next(outcomes)), "generic/001 passed")

    def test_hanging_test_fails_and_the_others_go_on(self) -> None:
        runner = Fake(["| generic/001         12s", DIED], ["| generic/003         1s", "@@ ok"])
        self.assertEqual(self.texts(runner, 1, 2, 3), [
            "generic/001 passed",
            "generic/002 failed: no end after 60 s",
            "generic/003 passed",
        ])
        self.assertEqual([vm.batches for vm, _ in runner.booted], [[tests(1, 2, 3)], [tests(3)]])

    def test_check_that_ends_early_fails_one_test(self) -> None:
        runner = Fake(["| generic/001         12s", "@@ ok", "@@ ok", "| generic/004         1s", "@@ ok"])
        self.assertEqual([line.split()[1] for line in self.texts(runner, 1, 2, 3, 4)],
                         ["passed", "failed:", "failed:", "passed"])

    def test_many_tests_run_in_batches(self) -> None:
        numbers = range(xfstests.BATCH + 2)
        lines = [f"| {test}         1s" for test in tests(*numbers)]
        at = xfstests.BATCH
        runner = Fake([*lines[:at], "| Ran: x", "@@ ok", *HEAD, *lines[at:], "@@ ok"])
        self.assertEqual(self.texts(runner, *numbers), [f"{test} passed" for test in tests(*numbers)])
        self.assertEqual(runner.booted[0][0].batches, [tests(*numbers[:at]), tests(*numbers[at:])])

    def test_guest_that_dies_after_the_last_test_of_a_batch(self) -> None:
        runner = Fake(["| generic/001         12s", DIED])
        self.assertEqual(self.texts(runner, 1), ["generic/001 passed"])

    def test_guest_that_ends_between_two_batches_fails_no_test(self) -> None:
        numbers = range(xfstests.BATCH + 1)
        lines = [f"| {test}         1s" for test in tests(*numbers)]
        runner = Fake([*lines[:-1], "@@ ok", ENDED], [lines[-1], "@@ ok"])
        self.assertEqual(self.texts(runner, *numbers), [f"{test} passed" for test in tests(*numbers)])

    def test_check_that_never_starts(self) -> None:
        with self.assertRaisesRegex(xfstests.Unusable, "runs no test(.|\n)*FSTYP"):
            self.texts(Fake(["@@ ok"]), 1)


class Whole(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.directory / "ltp").mkdir()
        (self.directory / "tests" / "generic").mkdir(parents=True)
        for name in ("check", "ltp/fsstress"):
            (self.directory / name).touch()
        for number, groups in (("001", "auto quick"), ("002", "auto"), ("003", "quick rw"), ("004", "quick")):
            (self.directory / "tests" / "generic" / number).write_text(f"#! /bin/bash\n_begin_fstest {groups}\n")
        (self.directory / "tests" / "generic" / "001.out").touch()
        self.results = self.directory / "new" / "results"

    def run_them(self, runner: Fake, *names: str) -> int:
        args = types.SimpleNamespace(xfstests=self.directory, below="ext4", pool="128M", results=self.results, limit=60,
                                     memory=2048, names=list(names), group="quick")
        kernel = types.SimpleNamespace(release="6.1.0")
        with mock.patch.object(xfstests, "make_disks", return_value={}), \
                mock.patch.object(xfstests, "Runner", return_value=runner), \
                contextlib.redirect_stdout(io.StringIO()):
            return xfstests.run(kernel, None, args)

    def lines(self) -> list[str]:
        return self.results.read_text().splitlines()[1:]

    def test_group_and_names(self) -> None:
        self.assertEqual(xfstests.find_tests(self.directory, [], "quick"), tests(1, 3, 4))
        self.assertEqual(xfstests.find_tests(self.directory, ["generic/002"], "quick"), tests(2))
        with self.assertRaisesRegex(xfstests.Unusable, "no test generic/009"):
            xfstests.find_tests(self.directory, ["generic/009", "generic/001"], "quick")
        with self.assertRaisesRegex(xfstests.Unusable, "no test of the group none"):
            xfstests.find_tests(self.directory, [], "none")
        (self.directory / "ltp" / "fsstress").unlink()
        with self.assertRaisesRegex(xfstests.Unusable, "no built xfstests"):
            xfstests.find_tests(self.directory, [], "quick")

    def test_failure_on_the_lower_file_system_too(self) -> None:
        failing = ["| generic/003         - output mismatch", "| generic/004         [failed]", "@@ ok"]
        plain = ["| generic/003         2s", "| generic/004         [failed]", "@@ ok"]
        runner = Fake(["| generic/001         1s", *failing], plain)
        self.assertEqual(self.run_them(runner), 1)
        self.assertEqual(self.lines(), ["generic/001 passed", "generic/003 failed: output mismatch",
                                        "generic/004 fails below: [failed]"])
        self.assertEqual([plain for _, plain in runner.booted], [False, True])

    def test_hang_on_the_lower_file_system_excuses_nothing(self) -> None:
        runner = Fake(["| generic/001         [failed]", "@@ ok"], [DIED])
        self.assertEqual(self.run_them(runner, "generic/001"), 1)
        self.assertEqual(self.lines(), ["generic/001 failed: [failed]"])

    def test_results_of_another_pool_are_kept_apart(self) -> None:
        self.results.parent.mkdir()
        self.results.write_text("# kernel 6.1.0, ext4 below, pool=64M, xfstests unknown, 2026-11-27\n")
        with self.assertRaisesRegex(xfstests.Unusable, "another kind: .*pool=64M"):
            self.run_them(Fake([]))

    def test_second_run_continues(self) -> None:
        self.results.parent.mkdir()
        self.results.write_text("# kernel 6.1.0, ext4 below, pool=128M, xfstests unknown, 2026-01-01\ngeneric/001 passed\ngeneric/003 fails below: a reason\n"
                                "generic/004 nonsense\n")
        runner = Fake(["| generic/004         1s", "@@ ok"])
        self.assertEqual(self.run_them(runner), 0)
        self.assertEqual(self.lines(), ["generic/001 passed", "generic/003 fails below: a reason",
                                        "generic/004 passed"])
        self.assertEqual(runner.booted[0][0].batches, [tests(4)])


if __name__ == "__main__":
    unittest.main()
