# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap mount and umount, mount.hugemap: their errors on a machine without the module."""
import json
import os
import subprocess
import tempfile
import unittest

from common import HUGEMAP, FakeMount, hugemap, is_sentence

ROOT_ONLY = unittest.skipIf(os.getuid(), "only root gets as far as that")


def first_line(text):
    return text.partition("\n")[0] + "\n"


class Refused(unittest.TestCase):
    """Each command fails before it calls the kernel."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.target = os.path.join(self.dir.name, "target")
        self.source = os.path.join(self.dir.name, "source")
        os.mkdir(self.target)
        os.mkdir(self.source)
        self.before = self.mounts()
        self.addCleanup(lambda: self.assertEqual(self.mounts(), self.before))

    def mounts(self):
        with open("/proc/self/mountinfo") as file:
            return file.read()

    def check(self, result, status, *words):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertTrue(is_sentence(first_line(result.stderr)), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in ([], [self.source], [self.source, self.target, "more"], ["--nonsense"], ["-x"],
                     ["-o"], ["-o", "ro", "-o", "rw", self.source, self.target],
                     ["-o", "remount"], ["--persist", "-o", "remount,pool=1G", self.target],
                     ["--persist=yes", self.source, self.target], ["--persist", self.source],
                     ["--unit", self.source, self.target],
                     ["--persist", "-o", "pool=4G,noauto", self.source, self.target],
                     ["--persist", "--unit", "-o", "ro,x-systemd.automount", self.source,
                      self.target]):
            with self.subTest(args):
                result = hugemap("mount", *args)
                self.check(result, 2)
                self.assertEqual(result.stdout, "")
        for args in ([], [self.target, self.source], ["--nonsense"], ["-o", self.target]):
            with self.subTest(args):
                self.check(hugemap("umount", *args), 2)

    @ROOT_ONLY
    def test_a_source_that_is_no_directory_or_device_is_refused(self):
        file = os.path.join(self.dir.name, "file")
        with open(file, "w"):
            pass
        self.check(hugemap("mount", "/nonexistent", self.target), 1, "/nonexistent")
        self.check(hugemap("mount", file, self.target), 1, "directory that it is in")
        self.check(hugemap("mount", "/dev/null", self.target), 1, "neither")

    @ROOT_ONLY
    def test_a_mount_point_that_is_no_directory_is_refused(self):
        file = os.path.join(self.dir.name, "file")
        with open(file, "w"):
            pass
        self.check(hugemap("mount", self.source, self.target + "/no"), 1, "mkdir")
        self.check(hugemap("mount", self.source, file), 1, "not a directory")

    @ROOT_ONLY
    def test_a_source_on_a_mount_of_hugemap_is_refused(self):
        mount = FakeMount()
        self.addCleanup(mount.remove)
        self.check(mount.hugemap("mount", mount.directory, self.target), 1, "already")

    @ROOT_ONLY
    def test_a_remount_of_another_file_system_is_refused(self):
        self.check(hugemap("mount", "-o", "remount,pool=1G", self.target), 1, "no mount of HugeMap")
        self.check(hugemap("mount", "-o", "remount,ro", self.source, self.target), 1,
                   "no mount of HugeMap")

    @ROOT_ONLY
    def test_umount_of_another_file_system_is_refused(self):
        self.check(hugemap("umount", self.target), 1, "no mount of HugeMap")
        self.check(hugemap("umount", "/proc"), 1, "no mount of HugeMap")
        self.check(hugemap("umount", "/nonexistent"), 1, "/nonexistent")

    @ROOT_ONLY
    def test_umount_names_the_mount_of_a_directory(self):
        mount = FakeMount()
        self.addCleanup(mount.remove)
        with tempfile.TemporaryDirectory(dir=mount.directory) as below:
            self.check(mount.hugemap("umount", below), 1, f"that is {mount.directory}")

    @ROOT_ONLY
    def test_without_a_module_the_remedy_is_named(self):
        """With a module these commands would mount."""
        engine = json.loads(hugemap("doctor", "--json").stdout)["checks"]["kernel_engine"]
        if engine["module_loaded"] or engine["module_installed"]:
            self.skipTest("the module is installed here")
        for args in (["-f"], [], ["--persist"], ["--persist", "--unit"]):
            result = hugemap("mount", *args, self.source, self.target)
            self.check(result, 1, "hugemap doctor", os.uname().release)
            self.assertEqual(result.stdout, "")

    @ROOT_ONLY
    def test_without_rights_sudo_is_named(self):
        os.chmod(self.dir.name, 0o755)
        for command, args in (("mount", [self.source, self.target]), ("umount", [self.target])):
            self.check(hugemap(command, *args, user=65534, cwd="/"), 1, "root", "sudo")

    def test_persist_checks_its_operands(self):
        """It does so without root too, and before it looks for the module."""
        file = os.path.join(self.dir.name, "file")
        with open(file, "w"):
            pass
        os.chmod(self.dir.name, 0o755)
        user = {"user": 65534} if os.getuid() == 0 else {}
        for args, words in ((["/nonexistent", self.target], "/nonexistent"),
                            ([file, self.target], "directory that it is in"),
                            ([self.source, self.target + "/no"], "mkdir"),
                            ([self.source, file], "not a directory")):
            result = hugemap("mount", "--persist", *args, cwd="/", **user)
            self.check(result, 1, words)
            self.assertEqual(result.stdout, "")

    def test_help_is_printed_in_both_ways(self):
        for command in ("mount", "umount"):
            result = hugemap(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(hugemap("help", command).stdout, result.stdout)


class Helper(unittest.TestCase):
    """The same program under the name that mount(8) calls."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.name = os.path.join(self.dir.name, "mount.hugemap")
        os.symlink(HUGEMAP, self.name)

    def helper(self, *args):
        return subprocess.run([self.name, *args], capture_output=True, text=True)

    def test_a_wrong_command_line_exits_with_1(self):
        for args in ([], ["/data"], ["a", "b", "c"], ["a", "b", "-x"], ["a", "b", "-o"]):
            with self.subTest(args):
                result = self.helper(*args)
                self.assertEqual(result.returncode, 1)
                self.assertIn("usage: mount.hugemap", result.stderr)

    @ROOT_ONLY
    def test_a_failed_mount_exits_with_32(self):
        for args in (["-sfnv"], ["-o", "rw,nofail,x-systemd.automount,pool=64M"], ["-n"],
                     ["-N", "/proc/self/ns/mnt"], ["-t", "hugemap"]):
            with self.subTest(args):
                result = self.helper("/nonexistent", self.dir.name, *args)
                self.assertEqual(result.returncode, 32)
                self.assertTrue(is_sentence(result.stderr), result.stderr)

    @ROOT_ONLY
    def test_mount_of_the_system_calls_it(self):
        """mount(8) runs it from /sbin."""
        if not os.path.exists("/sbin/mount.hugemap"):
            self.skipTest("mount.hugemap is not installed here")
        result = subprocess.run(["mount", "-t", "hugemap", "/nonexistent", self.dir.name],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 32)
        self.assertIn("/nonexistent", result.stderr)


if __name__ == "__main__":
    unittest.main()
