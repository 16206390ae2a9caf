# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The programs in docs/ compile, print the right result and leave no file behind."""
import os
import re
import subprocess
import tempfile
import unittest

from common import ROOT

LIBHUGEMAP = os.environ["LIBHUGEMAP"]
MB = 64


def example(page, name):
    with open(f"{ROOT}/docs/{page}") as file:
        return re.search(rf"```c\n(/\* {name}: .*?)```", file.read(), re.S)[1]


class BeyondDram(unittest.TestCase):
    """Each program stores i * i to an array of half the size and prints their sum."""

    def check(self, name, *libraries):
        n = (MB << 20) // 2 // 8
        total = (n - 1) * n * (2 * n - 1) // 6 % 2 ** 64
        with tempfile.TemporaryDirectory(dir=os.environ.get("HM_TEST_DIR", "/var/tmp")) as top:
            program = f"{top}/program"
            data = f"{top}/data"
            os.mkdir(data)
            built = subprocess.run(
                ["cc", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-I",
                 f"{ROOT}/include", "-xc", "-", "-xnone", LIBHUGEMAP,
                 f"-Wl,-rpath,{os.path.dirname(LIBHUGEMAP)}", *libraries, "-o", program],
                input=example("beyond-dram.md", name), capture_output=True, text=True)
            self.assertEqual((built.returncode, built.stderr), (0, ""))
            done = subprocess.run([program, data, str(MB)], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{total}\n", ""))
            self.assertEqual(os.listdir(data), [])

    def test_the_example_of_an_arena_works(self):
        self.check("arena.c")

    def test_the_example_of_a_heap_works(self):
        found = subprocess.run(["cc", "-fsyntax-only", "-xc", "-"], capture_output=True,
                               input=b"#include <jemalloc/jemalloc.h>\n")
        if found.returncode:
            self.skipTest("libjemalloc-dev is not installed")
        self.check("heap.c", "-ljemalloc")


if __name__ == "__main__":
    unittest.main()
