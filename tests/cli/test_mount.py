# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap mount and umount, mount.hugemap: what they say where nothing can be mounted."""
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
    """Nothing here gets as far as the kernel."""

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

    def test_nonsense(self):
        for args in ([], [self.source], [self.source, self.target, "more"], ["--nonsense"], ["-x"],
                     ["-o"], ["-o", "ro", "-o", "rw", self.source, self.target],
                     ["-o", "remount"], ["--persist", "-o", "remount,pool=1G", self.target],
                     ["--persist=yes", self.source, self.target], ["--persist", self.source]):
            with self.subTest(args):
                result = hugemap("mount", *args)
                self.check(result, 2)
                self.assertEqual(result.stdout, "")
        for args in ([], [self.target, self.source], ["--nonsense"], ["-o", self.target],
                     ["--forget"], ["--forget=it", self.target]):
            with self.subTest(args):
                self.check(hugemap("umount", *args), 2)

    @ROOT_ONLY
    def test_sources(self):
        file = os.path.join(self.dir.name, "file")
        with open(file, "w"):
            pass
        self.check(hugemap("mount", "/nonexistent", self.target), 1, "/nonexistent")
        self.check(hugemap("mount", file, self.target), 1, "directory that it is in")
        self.check(hugemap("mount", "/dev/null", self.target), 1, "neither")

    @ROOT_ONLY
    def test_directories(self):
        file = os.path.join(self.dir.name, "file")
        with open(file, "w"):
            pass
        self.check(hugemap("mount", self.source, self.target + "/no"), 1, "mkdir")
        self.check(hugemap("mount", self.source, file), 1, "not a directory")

    @ROOT_ONLY
    def test_a_source_that_is_on_a_mount_of_hugemap(self):
        mount = FakeMount()
        self.addCleanup(mount.remove)
        self.check(mount.hugemap("mount", mount.directory, self.target), 1, "already")

    @ROOT_ONLY
    def test_a_remount_of_something_else(self):
        self.check(hugemap("mount", "-o", "remount,pool=1G", self.target), 1, "no mount of HugeMap")
        self.check(hugemap("mount", "-o", "remount,ro", self.source, self.target), 1,
                   "no mount of HugeMap")

    @ROOT_ONLY
    def test_umount_of_something_else(self):
        self.check(hugemap("umount", self.target), 1, "no mount of HugeMap")
        self.check(hugemap("umount", "/proc"), 1, "no mount of HugeMap")
        self.check(hugemap("umount", "/nonexistent"), 1, "/nonexistent")

    @ROOT_ONLY
    def test_umount_of_a_directory_on_a_mount(self):
        mount = FakeMount()
        self.addCleanup(mount.remove)
        with tempfile.TemporaryDirectory(dir=mount.directory) as below:
            self.check(mount.hugemap("umount", below), 1, f"that is {mount.directory}")

    @ROOT_ONLY
    def test_without_a_module(self):
        """Where there is one, this would mount."""
        engine = json.loads(hugemap("doctor", "--json").stdout)["checks"]["kernel_engine"]
        if engine["module_loaded"] or engine["module_installed"]:
            self.skipTest("the module is installed here")
        for args in (["-f"], [], ["--persist"], ["--persist", "--fake"]):
            result = hugemap("mount", *args, self.source, self.target)
            self.check(result, 1, "hugemap doctor", os.uname().release)
            self.assertEqual(result.stdout, "")

    @ROOT_ONLY
    def test_without_rights(self):
        for command, args in (("mount", [self.source, self.target]), ("umount", [self.target]),
                              ("mount", ["--persist", self.source, self.target]),
                              ("umount", ["--forget", self.target])):
            os.chmod(self.dir.name, 0o755)
            self.check(hugemap(command, *args, user=65534, cwd="/"), 1, "root", "sudo")

    def test_help(self):
        for command in ("mount", "umount"):
            result = hugemap(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(hugemap("help", command).stdout, result.stdout)


class Fstab(unittest.TestCase):
    """--persist and --forget, with a file of their own in place of /etc/fstab."""

    OTHERS = "# others\nUUID=1 /\text4  defaults 0 1 # last\n\ttmpfs /tmp tmpfs"

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.fstab = os.path.join(self.dir.name, "fstab")
        self.target = os.path.join(self.dir.name, "target dir")
        self.escaped = self.target.replace(" ", "\\040")
        os.mkdir(self.target)
        self.env = {**os.environ, "LIBMOUNT_FSTAB": self.fstab}

    def put(self, text):
        with open(self.fstab, "w") as file:
            file.write(text)

    def hugemap(self, *args, text, after, status):
        """Run it, and see what the file is like then."""
        self.put(text)
        result = hugemap(*args, env=self.env)
        self.assertEqual(result.returncode, status, result.stderr)
        with open(self.fstab) as file:
            self.assertEqual(file.read(), after)
        self.assertEqual(sorted(os.listdir(self.dir.name)), ["fstab", "target dir"])
        return result

    @ROOT_ONLY
    def test_a_line_is_taken_away_after_it_was_shown(self):
        line = f"/data {self.escaped} hugemap pool=4G,nofail 0 0"
        result = self.hugemap("umount", "--forget", self.target, status=0,
                              text=f"{line}\n{self.OTHERS}", after=self.OTHERS)
        self.assertEqual(result.stderr, "")
        self.assertIn(f"line 1 of {self.fstab}:\n\n    {line}\n\n", result.stdout)
        self.assertIn("It is taken away.", result.stdout)

    @ROOT_ONLY
    def test_nothing_to_forget(self):
        result = self.hugemap("umount", "--forget", self.target, status=1, text=self.OTHERS,
                              after=self.OTHERS)
        self.assertIn("no mount of HugeMap", result.stderr)
        self.assertEqual(result.stdout, "")

    @ROOT_ONLY
    def test_a_line_stays_without_forget(self):
        text = f"/data {self.escaped} hugemap pool=4G 0 0"
        self.hugemap("umount", self.target, status=1, text=text, after=text)

    @ROOT_ONLY
    def test_lines_of_others(self):
        """They are seen before anybody asks for the module."""
        for line, words in ((f"/dev/sdb1 {self.escaped} ext4 defaults 0 2", "something else"),
                            (f"/srv {self.escaped}/ hugemap pool=1G", "mounts /srv at"),
                            (f"/etc {self.escaped} hugemap x\n/etc {self.escaped} hugemap y",
                             "2 lines")):
            with self.subTest(line):
                text = f"{self.OTHERS}\n{line}\n"
                for args in ([], ["--fake"], ["-o", "pool=1G"]):
                    result = self.hugemap("mount", "--persist", *args, "/etc", self.target,
                                          status=1, text=text, after=text)
                    self.assertIn(words, result.stderr)
                    self.assertTrue(is_sentence(result.stderr), result.stderr)
                    self.assertEqual(result.stdout, "")

    @ROOT_ONLY
    def test_a_line_that_cannot_be_shown_stays(self):
        """Whether the reader of a pipe is gone, or the disk full that it is written to."""
        text = f"/data {self.escaped} hugemap pool=4G\n"
        reader, pipe = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, pipe)
        for output in (pipe, os.open("/dev/full", os.O_WRONLY)):
            self.put(text)
            result = subprocess.run([HUGEMAP, "umount", "--forget", self.target], env=self.env,
                                    stdout=output, stderr=subprocess.PIPE, text=True)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("could not be shown", result.stderr)
            self.assertTrue(is_sentence(result.stderr), result.stderr)
            with open(self.fstab) as file:
                self.assertEqual(file.read(), text)
            self.assertEqual(sorted(os.listdir(self.dir.name)), ["fstab", "target dir"])
        os.close(output)

    @ROOT_ONLY
    def test_nul_bytes(self):
        text = f"/data {self.escaped} hugemap pool=4G\n\0\n"
        for args in (["mount", "--persist", "/etc"], ["umount", "--forget"]):
            result = self.hugemap(*args, self.target, text=text, after=text, status=1)
            self.assertIn("line 2 of", result.stderr)
            self.assertTrue(is_sentence(result.stderr), result.stderr)
            self.assertEqual(result.stdout, "")

    def test_noauto(self):
        for options in ("noauto", "pool=4G,noauto", "noauto,auto,x-systemd.automount"):
            result = self.hugemap("mount", "--persist", "-o", options, "/etc", self.target,
                                  text=self.OTHERS, after=self.OTHERS, status=2)
            self.assertIn("noauto does not", result.stderr)
            self.assertEqual(result.stdout, "")
        # That is another option, and one for mounts that are in no file.
        for args in (["--persist", "-o", "x-noauto"], ["-o", "noauto"]):
            result = hugemap("mount", *args, "/nonexistent", self.target, env=self.env)
            self.assertEqual(result.returncode, 1, result.stderr)

    @ROOT_ONLY
    def test_a_file_that_cannot_be_written(self):
        self.env["LIBMOUNT_FSTAB"] = "/proc/self/fstab"
        result = hugemap("mount", "--persist", "/etc", self.target, env=self.env)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no file can be written beside", result.stderr)


class Helper(unittest.TestCase):
    """The same program under the name that mount(8) calls."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.name = os.path.join(self.dir.name, "mount.hugemap")
        os.symlink(HUGEMAP, self.name)

    def helper(self, *args):
        return subprocess.run([self.name, *args], capture_output=True, text=True)

    def test_nonsense_is_1(self):
        for args in ([], ["/data"], ["a", "b", "c"], ["a", "b", "-x"], ["a", "b", "-o"]):
            with self.subTest(args):
                result = self.helper(*args)
                self.assertEqual(result.returncode, 1)
                self.assertIn("usage: mount.hugemap", result.stderr)

    @ROOT_ONLY
    def test_what_fails_is_32(self):
        for args in (["-sfnv"], ["-o", "rw,nofail,x-systemd.automount,pool=64M"], ["-n"],
                     ["-N", "/proc/self/ns/mnt"], ["-t", "hugemap"]):
            with self.subTest(args):
                result = self.helper("/nonexistent", self.dir.name, *args)
                self.assertEqual(result.returncode, 32)
                self.assertTrue(is_sentence(result.stderr), result.stderr)

    @ROOT_ONLY
    def test_mount_calls_it(self):
        """If it is where mount(8) looks."""
        if not os.path.exists("/sbin/mount.hugemap"):
            self.skipTest("mount.hugemap is not installed here")
        result = subprocess.run(["mount", "-t", "hugemap", "/nonexistent", self.dir.name],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 32)
        self.assertIn("/nonexistent", result.stderr)


if __name__ == "__main__":
    unittest.main()
