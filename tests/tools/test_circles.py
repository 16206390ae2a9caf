# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""tools/check_circles.py: it finds circles between files, and includes of higher directories."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["SOURCE_ROOT"]
sys.path.insert(0, f"{ROOT}/tools")
import check_circles  # noqa: E402, only found there


class Circles(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory.name)

    def write(self, files):
        for path, text in files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)

    def check(self, files, directory="cli"):
        """The first lines of the complaints about a directory that has these files."""
        self.write({f"{directory}/{name}": text for name, text in files.items()})
        return [line for line in check_circles.check(directory) if not line.startswith(" ")]

    # main -> upper -> lower
    LAYERED = {"lower.h": "int lower(int x);\n", "lower.c": '#include "lower.h"\nint lower(int x)\n{\n}\n',
               "upper.h": "int upper(void);\n",
               "upper.c": '#include "upper.h"\n#include "lower.h"\nint upper(void)\n{\n\tlower(1);\n}\n',
               "main.c": '#include "upper.h"\nint main(void)\n{\n\tupper();\n}\n'}

    def test_layers_are_no_circle(self):
        self.assertEqual(self.check(self.LAYERED), [])

    def test_a_call_upwards_closes_a_circle(self):
        code = "int upper(void);\nint lower(int x)\n{\n\treturn upper();\n}\n"
        self.assertEqual(self.check({**self.LAYERED, "lower.c": code}),
                         ["cli: a circle of 2: lower, upper"])

    def test_a_function_pointer_upwards_closes_a_circle(self):
        code = "int upper(void);\nint (*lower_call)(void) = upper;\n"
        self.assertEqual(self.check({**self.LAYERED, "lower.c": code + "int lower(int x)\n{\n}\n"}),
                         ["cli: a circle of 2: lower, upper"])

    def test_an_include_upwards_closes_a_circle(self):
        header = '#include "upper.h"\n'
        self.assertEqual(self.check({**self.LAYERED, "lower.h": header}),
                         ["cli: a circle of 2: lower, upper"])

    def test_a_contract_is_not_its_file(self):
        files = {"cache.h": "int cache(void);\n", "cache.c": '#include "pool.h"\nint cache(void)\n{\n}\n',
                 "pool.h": '#include "cache.h"\n'}
        self.assertEqual(self.check(files, "kernel/cache"), [])
        self.assertEqual(self.check(files), ["cli: a circle of 2: cache, pool"])

    def test_three_files_close_a_circle(self):
        self.assertEqual(self.check({f"{a}.h": f'#include "{b}.h"\n'
                                     for a, b in ("ab", "bc", "ca", "dc")}),
                         ["cli: a circle of 3: a, b, c"])

    def test_members_and_strings_are_no_calls(self):
        for code in ("/* upper() calls this. */", 'char *s = "upper";', "// upper()",
                     "#define x upper", "static int f(struct s *s)\n{\n\treturn s->upper + s[0].upper;\n}"):
            with self.subTest(code):
                self.assertEqual(self.check({**self.LAYERED, "lower.c": code + "\n"}), [])

    def test_a_function_that_two_files_define_belongs_to_none(self):
        static = "static void help(void)\n{\n}\n"
        self.assertEqual(self.check({"a.c": static + "void run_a(void)\n{\n\trun_b();\n}\n",
                                     "b.c": static + "void run_b(void)\n{\n\thelp();\n}\n"}), [])

    def test_circles_of_python_modules_are_found(self):
        self.assertEqual(self.check({"a.py": "from .b import f\n", "b.py": "from . import a\n"}),
                         ["cli: a circle of 2: a, b"])
        types = "if TYPE_CHECKING:\n    from .a import g\n"
        self.assertEqual(self.check({"b.py": types}), [])

    def test_headers_of_lower_directories_only(self):
        self.write({"steer/low.h": "", "bench/high.h": "", "cli/own.h": ""})
        self.assertEqual(self.check({"a.c": '#include "low.h"\n#include "own.h"\n#include <b.h>\n'}), [])
        self.assertEqual(self.check({"a.c": '#include "high.h"\n'}),
                         ["cli/a.c includes high.h of bench"])
        self.assertEqual(self.check({"a.c": ""}, "new"), ["new is not in LAYERS"])

    def test_an_exception_is_no_complaint(self):
        check_circles.EXCEPTIONS["cli/b", "cli/a"] = "this test"
        self.addCleanup(check_circles.EXCEPTIONS.clear)
        files = {"a.h": '#include "b.h"\n', "b.h": '#include "a.h"\n'}
        self.assertEqual(self.check(files), [])
        files["c.h"], files["b.h"] = '#include "a.h"\n', '#include "c.h"\n'
        self.assertEqual(self.check(files), ["cli: a circle of 3: a, b, c"])

    def test_the_table_of_layers_has_no_circle(self):
        self.assertEqual(check_circles.circles(check_circles.LAYERS), [])
        self.assertEqual(check_circles.circles({"a": ["b"], "b": ["a"]}), [("a", "b")])

    def test_the_command_fails_and_names_the_reason(self):
        self.write({"cli/a.h": '#include "b.h"\n', "cli/b.h": '#include "a.h"\n'})
        for args, status in ((["cli"], 1), (["cli/"], 1), (["steer"], 0)):
            os.makedirs("steer", exist_ok=True)
            done = subprocess.run([sys.executable, f"{ROOT}/tools/check_circles.py", *args],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (status, ""))
            self.assertEqual('    a -> b: #include "b.h"' in done.stdout, bool(status))


if __name__ == "__main__":
    unittest.main()
