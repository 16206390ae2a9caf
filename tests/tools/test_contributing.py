# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""CONTRIBUTING.md names only files, commands and areas that exist, and its example is a change that applies."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = (TOP / "CONTRIBUTING.md").read_text()
MAKEFILE = (TOP / "Makefile").read_text()
# Packages that every Debian machine has or that need no reason.
PLAIN = {"gcc", "libc6-dev", "make", "python3", "util-linux"}


def words_of(variable: str) -> set[str]:
    """The words of a list in tools/install-deps.sh, without the lists that it contains."""
    text = re.search(rf'(?m)^{variable}="([^"]*)"', (TOP / "tools/install-deps.sh").read_text())[1]
    return set(re.sub(r"\$\w+|\$\([^)]*\)", "", text).split())


def areas() -> dict[str, tuple[list[str], list[str]]]:
    """Area -> its directories, its tests, as tools/check.sh has them."""
    lines = re.findall(r"(?m)^\t\t(\w+): ([^:\n]+): (.+)$", (TOP / "tools/check.sh").read_text())
    return {area: (directories.split(), tests.split()) for area, directories, tests in lines}


class Contributing(unittest.TestCase):
    @unittest.skipUnless(shutil.which("patch"), "patch is not installed")
    def test_the_first_change_applies(self):
        diff = re.search(r"(?ms)^```diff\n(.*?)^```", PAGE)[1]
        done = subprocess.run(["patch", "--dry-run", "-p1", "-d", TOP], input=diff, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_files_exist(self):
        page = re.sub(r"(?ms)^```diff\n.*?^```", "", PAGE)
        names = re.findall(r"`((?:[\w-]+/)+[\w.-]*)(?: PATH)?`", page) + re.findall(r"\]\(([^)#:]+)\)", page)
        self.assertGreater(len(names), 60)
        for name in names:
            with self.subTest(name):
                self.assertTrue((TOP / name).exists(), name)

    def test_commands_of_make_exist(self):
        targets = set(re.findall(r"(?m)^([a-z-]+):", MAKEFILE)) | {f"check-{area}" for area in areas()}
        named = re.findall(r"(?m)^    make ([a-z-]+)|`make ([a-z-]+)", PAGE)
        self.assertGreater(len(named), 20)
        for target in {first or second for first, second in named}:
            with self.subTest(target):
                self.assertIn(target, targets)

    def test_areas_are_the_same_everywhere(self):
        names = list(areas())
        self.assertEqual(names, re.search(r"(?m)^AREAS := (.*)$", MAKEFILE)[1].split())
        self.assertIn(", ".join(names) + "\n", re.search(r"(?m)^check-AREA: .*\n", MAKEFILE)[0])
        self.assertIn(", ".join(names) + "\n", PAGE)

    def test_areas_have_directories_and_tests(self):
        path = pathlib.Path(os.environ["BUILD_ROOT"], "meson-info/intro-tests.json")
        tests = json.loads(path.read_text())
        known = {test["name"] for test in tests}
        known |= {suite.split(":")[-1] + "+fast" for test in tests for suite in test["suite"]}
        for area, (directories, names) in areas().items():
            with self.subTest(area):
                self.assertEqual([name for name in directories if not (TOP / name).exists()], [])
                self.assertEqual(set(names) - known, set())

    def test_each_dependency_has_a_reason(self):
        section = PAGE.split("## Dependencies")[1]
        for variable in ("build", "unit", "python", "guest", "tests"):
            for package in words_of(variable) - PLAIN:
                with self.subTest(package):
                    self.assertRegex(section, rf"(?m)^\|[^|]*\b{re.escape(package)}\b")


if __name__ == "__main__":
    unittest.main()
