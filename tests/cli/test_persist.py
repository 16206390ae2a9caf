# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap mount --persist: its lines and units, and the programs that read them."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PRINT = os.path.abspath(sys.argv.pop(1))
ODD = ("two  words", "a\tb", "a\nb", "a\\b", "a\\040b", "#a #", "a#b", "a,b", 'a"b', "a'b", "25%",
       "%n", "ä")
AFTER = "x-systemd.requires-mounts-for"


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed here")


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = os.path.realpath(directory.name)
        self.source, self.target = self.make("source"), self.make("target")

    def make(self, name):
        path = f"{self.dir}/{name}"
        os.makedirs(path, exist_ok=True)
        return path

    def print(self, *args, status=0, **kwargs):
        """Return standard output, and the message on standard error."""
        result = subprocess.run([PRINT, *args], capture_output=True, text=True, **kwargs)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout == "", bool(status))
        return result.stdout, result.stderr

    def run_on(self, name, text, *command):
        with open(f"{self.dir}/{name}", "w") as file:
            file.write(text)
        return subprocess.run([*command, f"./{name}"], cwd=self.dir, capture_output=True, text=True)


class Line(Case):
    def test_options_are_extended_by_those_for_boot(self):
        after = f"{AFTER}={self.source}"
        for given, wanted in (("", f"nofail,{after}"), ("pool=4G,ro", f"pool=4G,ro,nofail,{after}"),
                              ("nofail,pool=25%", f"nofail,pool=25%,{after}"),
                              ("x-nofail", f"x-nofail,nofail,{after}"),
                              ("_netdev,x-a=b c", f"_netdev,x-a=b\\040c,nofail,{after}"),
                              (f"{AFTER}=/", f"{AFTER}=/,nofail")):
            out, err = self.print(self.source, self.target, given)
            self.assertEqual(out, f"{self.source} {self.target} hugemap {wanted} 0 0\n")
            self.assertRegex(err, r"^Add .*/etc/fstab.*daemon-reload.*\n$")

    def test_names_are_absolute_and_real(self):
        os.symlink("source", f"{self.dir}/link")
        wanted = self.print(self.source, self.target, "")
        self.assertEqual(self.print("../link/.", ".", "", cwd=self.target), wanted)

    def test_odd_names_are_escaped(self):
        for name in ODD:
            path = self.make(name)
            field = path
            for char in "\\ \t\n":
                field = field.replace(char, f"\\{ord(char):03o}")
            # An option cannot contain every name. Then it names the directory above.
            after = self.dir if set(name) & set(" \t\n,\"'\\") else path
            self.assertEqual(self.print(path, path, "")[0],
                             f"{field} {field} hugemap nofail,{AFTER}={after} 0 0\n")

    @needs("findmnt")
    def test_findmnt_reads_it_back(self):
        for name in ODD:
            path = self.make(name)
            line = self.print(path, path, "pool=4G")[0]
            read = self.run_on("fstab", line, "findmnt", "-ryno", "SOURCE,TARGET", "--tab-file")
            for field in read.stdout[:-1].split(" "):
                self.assertEqual(field.encode().decode("unicode_escape"),
                                 path.encode().decode("latin-1"))
            verified = self.run_on("fstab", line, "findmnt", "--verify", "--tab-file")
            self.assertEqual(verified.returncode, 0, verified.stdout)
        verified = self.run_on("fstab", f"{path} {self.dir}/two  words hugemap nofail 0 0\n",
                               "findmnt", "--verify", "--tab-file")
        self.assertNotEqual(verified.returncode, 0)


class Unit(Case):
    def unit(self, source, target, options):
        """The unit, and its name."""
        text, err = self.print(source, target, options, "unit")
        name = err.split("'/etc/systemd/system/")[1].split("'")[0]
        self.assertTrue(err.endswith(f"`systemctl enable --now '{name}'`.\n"), err)
        self.assertEqual(err.count("\n"), 1)
        return text, name

    def test_the_unit_has_source_directory_and_options(self):
        for options, written, target in (("pool=25%,_netdev", "pool=25%%,_netdev,nofail", "remote"),
                                         ("nofail", "nofail", "local")):
            self.assertEqual(self.unit(self.source, self.target, options)[0], f"""\
[Unit]
Description=Files in pages of 2 MB, through HugeMap
RequiresMountsFor={self.source}

[Mount]
What={self.source}
Where={self.target}
Type=hugemap
Options={written}

[Install]
WantedBy={target}-fs.target
""")

    def test_the_unit_has_the_name_of_its_directory(self):
        self.assertEqual(self.unit(self.source, "/", "")[1], "-.mount")
        path = self.make(".a:b_c.d-e\\f gä%/.h")
        self.assertTrue(self.unit(self.source, path, "")[1].endswith(
            r"-.a:b_c.d\x2de\x5cf\x20g\xc3\xa4\x25-.h.mount"))

    @needs("systemd-escape")
    def test_the_name_is_that_of_systemd_escape(self):
        for name in ODD:
            if "\n" not in name:
                path = self.make(name)
                escaped = subprocess.run(["systemd-escape", "-p", "--suffix=mount", path],
                                         capture_output=True, text=True, check=True).stdout[:-1]
                self.assertEqual(self.unit(self.source, path, "")[1], escaped)

    def complaints(self, text, name):
        result = self.run_on(name, text, "systemd-analyze", "verify")
        return [line for line in result.stderr.splitlines() if name in line]

    @needs("systemd-analyze")
    def test_systemd_reads_it(self):
        odd = self.make("two  \"words' \\ %n,#;")
        text, name = self.unit(odd, self.make("a-b \\ %n"), 'pool=25%,x-a="b c"')
        self.assertEqual(self.complaints(text, name), [])
        # systemd-analyze finds each mistake.
        for right, wrong in (("two\\ ", "two x "), ("%%n", "%n"), ("Where=/", "Where=/x")):
            self.assertIn(right, text)
            self.assertNotEqual(self.complaints(text.replace(right, wrong), name), [], wrong)

    def test_names_that_no_unit_can_hold_are_refused(self):
        for name in ("a\nb", "a\rb", "a ", "a\t", "a\\"):
            path = self.make(name)
            self.print(path, self.target, "", "unit", status=1)
            self.print(self.source, path, "", "unit", status=1)
            self.print(path, path, "")
        self.print(self.source, self.target, "x-a=b\nWhat=/", "unit", status=1)
        self.print(self.source, self.make("-" * 200), "", "unit", status=1)


class Output(Case):
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([PRINT, self.source, self.target, ""], stdout=full,
                                    stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot be written", result.stderr)


class Device(Case):
    def setUp(self):
        super().setUp()
        self.device = f"{self.dir}/device"
        try:
            os.mknod(self.device, 0o60600, os.makedev(7, 200))
            os.mknod(f"{self.dir}/other", 0o60600, os.makedev(7, 201))
        except PermissionError:
            self.skipTest("device nodes cannot be made here")
        self.make("disk/by-id")
        self.make("disk/by-path")

    def link(self, name, to="device"):
        os.symlink(f"{self.dir}/{to}", f"{self.dir}/disk/{name}")

    def find(self, **kwargs):
        return self.print(f"{self.dir}/disk", self.device, **kwargs)[0]

    def test_unsuitable_links_to_a_device_are_ignored(self):
        for name in ("lvm-pv-uuid-a", "edd-int13_dev80"):
            self.link(f"by-id/{name}")
        for name, to in (("ata-Disk_0", "other"), ("ata-Disk", "nothing"), ("ata-Dir", "source")):
            self.link(f"by-id/{name}", to)
        self.find(status=1)

    def test_the_best_link_to_a_device_is_printed(self):
        """Each link is preferred to those before it in the list."""
        for name in ("by-id/dm-name-a", "by-id/md-name-host:0", "by-id/dm-uuid-LVM-b",
                     "by-id/md-uuid-1:2", "by-path/pci-0-ata-2", "by-path/pci-0-ata-1",
                     "by-id/mmc-card", "by-id/wwn-0x5", "by-id/nvme-eui.00", "by-id/ata-Disk_1"):
            self.link(name)
            self.assertEqual(self.find(), f"{self.dir}/disk/{name}\n")

    def test_a_device_has_no_ordering_option(self):
        line, err = self.print(self.device, self.target, "")
        self.assertEqual(line, f"{self.device} {self.target} hugemap nofail 0 0\n")
        self.assertIn("may be another disk", err)
        unit = self.print(self.device, self.target, "", "unit")[0]
        self.assertIn(f"HugeMap\n\n[Mount]\nWhat={self.device}\n", unit)


if __name__ == "__main__":
    unittest.main()
