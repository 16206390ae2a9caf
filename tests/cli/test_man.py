# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The manual pages agree with the programs and the header."""
import glob
import os
import re
import shutil
import subprocess
import unittest

HUGEMAP = os.environ["HUGEMAP"]
ROOT = os.environ["SOURCE_ROOT"]
BUILD = os.environ["BUILD_ROOT"]


# The manual pages, and the commands that each page documents.
COMMANDS = {"attach": ["attach"], "bench": ["bench", "bench ycsb", "bench graph", "bench direct", "bench cached", "bench curve"],
            "check": ["check"], "doctor": ["doctor"],
            "mount": ["mount", "umount"], "run": ["run"], "stat": ["stat"], "top": ["top"]}


def read(path):
    with open(path) as file:
        return file.read()


def pages():
    """The pages as they are installed; the build makes some of them."""
    written = [path for path in glob.glob(f"{ROOT}/man/*.[1578]") if path != f"{ROOT}/man/hugemap.5"]
    return sorted(written + glob.glob(f"{BUILD}/man/*.[35]"))


class Man(unittest.TestCase):
    def options_of_help(self, command):
        text = subprocess.run([HUGEMAP, *command.split(), "--help"], capture_output=True, text=True,
                              check=True).stdout
        return set(re.findall(r"(?<![\w-])--([a-z][a-z-]*)", text))

    def options_of_page(self, path):
        text = read(path).replace("\\-", "-")
        return set(re.findall(r"Fl -([a-z][a-z-]*)", text))

    def test_options_are_in_the_pages_and_no_others(self):
        for page, commands in COMMANDS.items():
            with self.subTest(page):
                of_help = set().union(*(self.options_of_help(name) for name in commands))
                self.assertEqual(of_help, self.options_of_page(f"{ROOT}/man/hugemap-{page}.1"))

    def test_arguments_of_options_are_the_same_in_help_and_page(self):
        """Both list the same letters, too."""
        for page, commands in COMMANDS.items():
            of_help = set()
            for name in commands:
                text = subprocess.run([HUGEMAP, *name.split(), "--help"], capture_output=True,
                                      text=True, check=True).stdout
                of_help |= set(re.findall(r"(?m)^  (?:-(\w), )?--([a-z-]+) ?(\S*)  ", text))
            text = read(f"{ROOT}/man/hugemap-{page}.1").replace(" | ", "|")
            of_page = set(re.findall(
                r"(?m)^\.It (?:Fl (\w) , )?Fl -([a-z-]+)(?: (?:Ar|Cm) (\S+))?$", text))
            with self.subTest(page):
                self.assertEqual(of_help, of_page)

    def test_paragraphs_of_options_have_the_range_and_the_default(self):
        """The message for a wrong value has the range."""
        count = 0
        for page, commands in COMMANDS.items():
            text = read(f"{ROOT}/man/hugemap-{page}.1")
            for name, value, body in re.findall(
                    r"(?m)^\.It (?:Fl \w , )?Fl -([a-z-]+) (?:Ar|Cm) (.+)\n((?:(?!\.It |\.El).*\n)+)", text):
                if value in ("FILE", "PATH", "LIST"):  # without them nothing is read or written
                    continue
                count += 1
                with self.subTest(f"{page} --{name}"):
                    self.assertRegex(body, r"default|\bwithout\b")
                    message = subprocess.run([HUGEMAP, commands[0], f"--{name}", "nonsense"],
                                             capture_output=True, text=True).stderr
                    for number in re.findall(r"from (\S+) to ([\d.]+)", message):
                        for limit in number:
                            if len(limit) < 10:
                                self.assertRegex(body, rf"\b{re.escape(limit)}\b")
                    if "must be a size" in message:
                        self.assertRegex(body, r"or more.*|powers of 1024")
        self.assertGreater(count, 14)

    def test_options_of_a_mount_have_a_paragraph_with_the_range_and_the_default(self):
        source = read(f"{ROOT}/kernel/fs/options.c")
        values = dict(re.findall(r"#define (\w+) (\d+)\n", source))
        section = read(f"{ROOT}/man/hugemap.5").split(".Ss Options")[1].split(".Ss")[0]
        bodies = dict(re.findall(r"(?m)^\.It Cm (\w+) Ns .*\n((?:(?!\.It |\.El).*\n)+)", section))
        names = dict(re.findall(r'fsparam_string\("(\w+)", (\w+)\)', source))
        self.assertGreater(len(names), 12)
        self.assertEqual(sorted(bodies), sorted(names))
        for name, body in bodies.items():
            with self.subTest(name):
                self.assertRegex(body, r"default")
        numbers = re.findall(r"case (\w+):\n\t\treturn options_parse_number\(fc, param, (\w+),\s+(\w+),\s+&opts->(\w+)",
                             source)
        self.assertEqual(len(numbers), 5)
        for identifier, least, most, field in numbers:
            name = {option: key for key, option in names.items()}[identifier]
            default = re.search(rf"\.{field} = (\w+),", source).group(1)
            least, most, default = (values.get(word, word) for word in (least, most, default))
            with self.subTest(name):
                text = " ".join(bodies[name].split())
                self.assertRegex(text, rf"[Ff]rom {least} to {most}\b")
                self.assertRegex(text, rf"\b{default} by default")

    def test_settings_in_sysfs_have_a_unit(self):
        section = read(f"{ROOT}/man/hugemap.5").split(".Ss Settings in sysfs")[1].split(".Ss")[0]
        found = re.findall(r"(?m)^\.It Pa (\w+)\n((?:(?!\.It |\.El).*\n)+)", section)
        self.assertGreater(len(found), 12)
        for name, body in found:
            with self.subTest(name):
                self.assertRegex(body, r"bytes|KiB|percentage|milliseconds|a number|a word|on or off|2M|any|NUMA")

    def test_synopsis_has_every_option_but_help(self):
        for name in COMMANDS:
            page = f"{ROOT}/man/hugemap-{name}.1"
            synopsis = read(page).split(".Sh SYNOPSIS")[1].split(".Sh")[0]
            with self.subTest(name):
                self.assertEqual(set(re.findall(r"Fl -([a-z-]+)", synopsis)),
                                 self.options_of_page(page) - {"help"})

    def test_scenarios_and_engines_of_help_are_in_the_page(self):
        text = subprocess.run([HUGEMAP, "bench", "--help"], capture_output=True, text=True,
                              check=True).stdout
        page = read(f"{ROOT}/man/hugemap-bench.1")
        for title, least in (("Scenarios", 7), ("Engines", 4)):
            names = re.search(rf"(?m)^{title}: (.*(?:\n  .*)*)$", text).group(1).split()
            self.assertGreaterEqual(len(names), least)
            section = page.split(f".Ss {title}")[1].split(".Ss")[0]
            self.assertEqual(names, re.findall(r"(?m)^\.It Cm (\S+)$", section))

    def test_the_first_help_fits_a_terminal_and_names_the_way_to_a_verdict(self):
        text = subprocess.run([HUGEMAP, "--help"], capture_output=True, text=True).stdout
        for words in (["help"], ["help", "--help"]):
            self.assertEqual(subprocess.run([HUGEMAP, *words], capture_output=True, text=True).stdout, text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertLessEqual(len(text.splitlines()), 24)
        for command in ("run", "check", "mount"):
            self.assertIn(f"`hugemap {command}`", text.split("\n\n")[1])

    def test_the_help_of_each_command_fits_80_columns(self):
        for command in {"version"}.union(*COMMANDS.values()):
            text = subprocess.run([HUGEMAP, *command.split(), "--help"], capture_output=True,
                                  text=True, check=True).stdout
            with self.subTest(command):
                self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])

    def test_each_command_has_a_page(self):
        text = subprocess.run([HUGEMAP, "--help"], capture_output=True, text=True).stdout
        names = re.findall(r"(?m)^  ([a-z]+) +\S", text)
        self.assertEqual(set(names) - {"help", "version"},
                         {name for name in set().union(*COMMANDS.values()) if " " not in name})
        page = read(f"{ROOT}/man/hugemap.1")
        for command in names:
            self.assertRegex(page, rf"(?m)^\.It Cm {command}\b")
        for command in COMMANDS:
            self.assertIn(f"hugemap-{command} 1", page)

    def test_help_names_a_page_that_exists(self):
        for command in {"version"}.union(*COMMANDS.values()):
            text = subprocess.run([HUGEMAP, *command.split(), "--help"], capture_output=True,
                                  text=True, check=True).stdout
            page = re.search(r"More: man (\S+)", text).group(1)
            self.assertTrue(os.path.exists(f"{ROOT}/man/{page}.1"), page)

    def test_letters_of_the_mount_helper_are_in_its_page(self):
        source = read(f"{ROOT}/cli/mount.c")
        letters = set(re.search(r'getopt\(argc, argv, "([^"]+)"', source).group(1)) - {":"}
        page = read(f"{ROOT}/man/mount.hugemap.8")
        self.assertEqual(set(re.findall(r"(?m)^\.It Fl (\w)\b", page)), letters)

    def test_settings_in_sysfs_are_in_the_page_and_in_the_guest_test(self):
        section = read(f"{ROOT}/man/hugemap.5").split(".Ss Settings in sysfs")[1].split(".Ss")[0]
        documented = sorted(re.findall(r"(?m)^\.It Pa (\w+)$", section))
        source = read(f"{ROOT}/kernel/fs/sysfs.c")
        real = re.findall(r"(?m)^\t(?:SETTING|FIXED)\((\w+),", source)
        self.assertGreater(len(real), 8)
        self.assertEqual(documented, sorted(real))
        script = read(f"{ROOT}/tests/kernel/guest/sysfs.sh")
        names = [re.search(rf'(?m)^{kind}="([^"]*)"', script).group(1) for kind in ("fixed", "writable")]
        self.assertEqual(documented, sorted(" ".join(names).split()))

    def test_each_number_in_sysfs_has_a_sentence_in_the_page(self):
        section = read(f"{BUILD}/man/hugemap.5").split(".Ss Numbers in sysfs")[1].split(".Ss")[0]
        entries = re.findall(r"(?m)^HUGEMAP_(?!CORE_ONLY)\w+\((\w+), (\w+),", read(f"{ROOT}/include/hugemap_counters.def"))
        self.assertGreater(len(entries), 40)
        self.assertEqual([name for _, name in entries], re.findall(r"(?m)^\.It Pa (\w+)$", section))
        for identifier, name in entries:
            self.assertEqual(identifier, name.upper())
            self.assertRegex(section, rf"(?m)^\.It Pa {name}\n[A-Z]")

    def test_settings_that_can_be_written_are_marked(self):
        page = read(f"{ROOT}/man/hugemap.5").split(".Ss Settings in sysfs")[1].split(".Ss")[0]
        source = read(f"{ROOT}/kernel/fs/sysfs.c")
        self.assertEqual(sorted(re.findall(r"(?m)^\.It Pa (\w+)\n\*", page)),
                         sorted(re.findall(r"(?m)^\tSETTING\((\w+),", source)))

    def test_keys_of_top_are_in_its_page(self):
        source = read(f"{ROOT}/cli/top_view.c")
        page = read(f"{ROOT}/man/hugemap-top.1")
        keys = re.findall(r"\{ '(\w)', \"(\w+)\" \}", source)
        self.assertEqual(len(keys), 8)
        self.assertIn(f".It Cm {' , '.join(key for key, _ in keys)}\n", page)
        for _, word in keys:
            self.assertRegex(page, rf"(?m)^\.Cm {word}\b")
        for table, columns in (("mount", 13), ("process", 6)):
            body = re.search(rf"{table}_columns\[\] = \{{(.*?)\n\}};", source, re.S).group(1)
            titles = re.findall(r"\{ \"([A-Z0-9/%.]+)\", \d", body)
            self.assertEqual(len(titles), columns)
            section = page.split(f"The columns of a {table} are:")[1].split(".El")[0]
            terms = " ".join(re.findall(r"(?m)^\.It (.*)$", section)).replace(",", "").split()
            self.assertEqual(sorted(titles), sorted(terms))

    def test_each_function_has_a_page(self):
        exported = re.findall(r"(hugemap_\w+);", read(f"{ROOT}/lib/libhugemap.map"))
        self.assertGreater(len(exported), 9)
        for name in exported:
            text = read(f"{BUILD}/man/{name}.3")
            self.assertRegex(text, rf"(?m)^\.Sh NAME\n\.Nm {name}\n\.Nd \S")
            self.assertIn(f".Fn {name} ", text)
            self.assertIn(f".Xr {name} 3", read(f"{ROOT}/man/hugemap.7"))

    def test_each_page_is_of_something_that_exists(self):
        header = read(f"{ROOT}/include/hugemap.h")
        found = glob.glob(f"{BUILD}/man/*.3")
        self.assertGreater(len(found), 9)
        for path in found:
            self.assertIn(os.path.basename(path)[:-2] + "(", header)

    def test_each_field_is_explained(self):
        header = read(f"{ROOT}/include/hugemap.h")
        for struct, page in (("hugemap_stat", "hugemap_stat"),):
            body = re.search(r"struct " + struct + r" \{(.*?)\};", header, re.S).group(1)
            text = read(f"{BUILD}/man/{page}.3")
            fields = re.findall(r"(\w+)(?:\[\d+\])?[;,]", body)
            self.assertGreater(len(fields), 2)
            for field in fields:
                with self.subTest(f"{struct}.{field}"):
                    self.assertRegex(text, rf"(?m)^\.It Va {field}$")

    def test_each_flag_and_enumerator_is_explained(self):
        header = read(f"{ROOT}/include/hugemap.h")
        names = re.findall(r"(?m)^#define (HUGEMAP_\w+) 0x", header)
        for body in re.findall(r"enum hugemap_\w+ \{(.*?)\};", header, re.S):
            names += re.findall(r"(?m)^\t(HUGEMAP_\w+)", body)
        text = "".join(read(path) for path in glob.glob(f"{BUILD}/man/*.3"))
        self.assertGreater(len(names), 7)
        for name in names:
            with self.subTest(name):
                self.assertRegex(text, rf"(?m)^\.It (Va|Dv) {name}\n\S")

    def test_references_lead_somewhere(self):
        known = {os.path.basename(p) for p in pages()}
        for path in pages():
            for name, section in re.findall(r"\.Xr (\S*hugemap\S*) (\d)", read(path)):
                self.assertIn(f"{name}.{section}", known, path)

    def test_checks_of_doctor_are_in_its_page(self):
        text = subprocess.run([HUGEMAP, "doctor"], capture_output=True, text=True).stdout
        page = read(f"{ROOT}/man/hugemap-doctor.1")
        titles = re.findall(r"(?m)^  (?:ok|slow|NO) +(\S.*?)  ", text)
        self.assertGreater(len(titles), 5)
        for title in titles:
            self.assertRegex(page, rf"(?m)^\.It {re.escape(title)}$")

    def test_the_kernel_that_advice_from_outside_needs_is_the_same_everywhere(self):
        """process_madvise(2) accepts MADV_WILLNEED since Linux 5.15."""
        for path in ("cli/attach_act.c", "cli/doctor_steer.c", "man/hugemap-attach.1", "docs/install.md"):
            found = re.findall(r"Linux (\d\.\d+)(?: or newer| and)", read(f"{ROOT}/{path}"))
            self.assertEqual(found, ["5.15"], path)

    def test_lines_of_stat_are_in_its_page(self):
        source = read(f"{ROOT}/cli/stat_process.c") + read(f"{ROOT}/cli/stat_mount.c")
        page = read(f"{ROOT}/man/hugemap-stat.1")
        titles = re.findall(r'printf\("(?:\\n)?  ([a-zI/O]+)  ', source)
        self.assertGreater(len(titles), 5)
        for title in titles:
            self.assertRegex(page, rf"(?m)^\.It {re.escape(title)}$")

    def test_mandoc_finds_nothing(self):
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages()],
                              capture_output=True, text=True)
        self.assertEqual(lint.stdout, "")


if __name__ == "__main__":
    unittest.main()
