# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The manual pages tell what the programs and the header tell."""
import glob
import os
import re
import shutil
import subprocess
import unittest

HUGEMAP = os.environ["HUGEMAP"]
ROOT = os.environ["SOURCE_ROOT"]
BUILD = os.environ["BUILD_ROOT"]


def read(path):
    with open(path) as file:
        return file.read()


def pages():
    return sorted(glob.glob(f"{ROOT}/man/*.[17]") + glob.glob(f"{BUILD}/man/*.3"))


class Man(unittest.TestCase):
    def options_of_help(self, command):
        text = subprocess.run([HUGEMAP, *command, "--help"], capture_output=True, text=True,
                              check=True).stdout
        return set(re.findall(r"(?<![\w-])--([a-z][a-z-]*)", text))

    def options_of_page(self, path):
        text = read(path).replace("\\-", "-")
        return set(re.findall(r"Fl -([a-z][a-z-]*)", text))

    def test_options_are_in_the_pages_and_no_others(self):
        for command in ("bench", "doctor", "stat"):
            with self.subTest(command):
                self.assertEqual(self.options_of_help([command]),
                                 self.options_of_page(f"{ROOT}/man/hugemap-{command}.1"))

    def test_each_command_has_a_page(self):
        text = subprocess.run([HUGEMAP, "--help"], capture_output=True, text=True).stdout
        for command in ("bench", "doctor", "stat"):
            self.assertIn(command, text)
            self.assertIn(f"hugemap-{command} 1", read(f"{ROOT}/man/hugemap.1"))

    def test_each_function_has_a_page(self):
        exported = re.findall(r"(hugemap_\w+);", read(f"{ROOT}/user/libhugemap.map"))
        self.assertGreater(len(exported), 10)
        for name in exported:
            self.assertIn(f".Nm {name}", read(f"{BUILD}/man/{name}.3"))

    def test_each_field_is_explained(self):
        header = read(f"{ROOT}/include/hugemap.h")
        for struct, page in (("hugemap_options", "hugemap_map"),
                             ("hugemap_pool_options", "hugemap_pool_create"),
                             ("hugemap_stat", "hugemap_stat"),
                             ):
            body = re.search(r"struct " + struct + r" \{(.*?)\};", header, re.S).group(1)
            text = read(f"{BUILD}/man/{page}.3")
            for field in re.findall(r"(\w+)(?:\[\d+\])?;", body):
                with self.subTest(f"{struct}.{field}"):
                    self.assertRegex(text, rf"(?m)^\.It Va {field}$")

    def test_references_lead_somewhere(self):
        known = {os.path.basename(p) for p in pages()}
        for path in pages():
            for name, section in re.findall(r"\.Xr (hugemap\S*) ([137])", read(path)):
                self.assertIn(f"{name}.{section}", known, path)

    def test_mandoc_finds_nothing(self):
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages()],
                              capture_output=True, text=True)
        self.assertEqual(lint.stdout, "")


if __name__ == "__main__":
    unittest.main()
