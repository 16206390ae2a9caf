# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap doctor: what this machine allows, whether pools can be made, what would help."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from common import HUGEMAP, documented_keys, hugemap, is_sentence

# A root directory that ends with the command, where /dev/userfaultfd is of a group, and
# where no mark of a container is.
DEVICE_ROOT = r"""
set -e
root=$1 mode=$2 gid=$3 rule=$4
shift 4
mount -t tmpfs -o mode=755 root "$root"
for dir in /usr /bin /sbin /lib /lib64 /proc /sys "$(dirname "$HUGEMAP")"; do
	[ -d "$dir" ] || continue
	mkdir -p "$root$dir"
	mount --rbind "$dir" "$root$dir"
done
mkdir -p "$root/dev/shm" "$root/etc/udev/rules.d" "$root/home"
chmod 1777 "$root/dev/shm" "$root/home"
mknod "$root/dev/userfaultfd" c $(stat -c '%Hr %Lr' /dev/userfaultfd)
chown "0:$gid" "$root/dev/userfaultfd"
chmod "$mode" "$root/dev/userfaultfd"
printf '%s\n' root:x:0:0::/: ann:x:4321:4321::/: bob:x:4322:4322::/: >"$root/etc/passwd"
printf '%s\n' root:x:0: ann:x:4321: bob:x:4322: hugemap:x:4444:bob >"$root/etc/group"
if [ "$rule" = yes ]; then
	mkdir -p "$root/run/udev"
	: >"$root/etc/udev/rules.d/60-hugemap.rules"
fi
exec chroot "$@" "$root" "$HUGEMAP" doctor --json --dir /home
"""
ANN, BOB, HUGEMAP_GROUP = 4321, 4322, 4444
MARKS = {"ok": "ok", "slow": "slow", "no": "NO"}


def run(*args, **kwargs):
    return hugemap("doctor", *args, **kwargs)


class Doctor(unittest.TestCase):
    def check_no_complaint(self, result):
        """A line on what it is at is none: it comes where a check takes seconds."""
        for line in result.stderr.splitlines():
            self.assertTrue(re.fullmatch(r"hugemap doctor: [a-z_ ]+", line), line)

    def check_json(self, result):
        self.check_no_complaint(result)
        data = json.loads(result.stdout)
        self.assertIn(data["engine"], ("pool", "steer"))
        self.assertEqual(result.returncode, 0 if data["engine"] == "pool" else 1)
        self.assertIn(data["io"], ("io_uring", "threads"))
        self.assertGreater(len(data["reason"].split()), 3)
        for name, check in data["checks"].items():
            with self.subTest(name):
                self.assertIn(check["state"], MARKS)
                self.assertTrue(check["text"])
        self.assertEqual(data["checks"]["pool"]["state"] == "no", data["engine"] == "steer")
        if data["improve"]:
            self.assertEqual(set(data["improve"]), {"command", "benefit"})
            self.assertTrue(all(data["improve"].values()))
        return data

    def check_text(self, result, data):
        """Text says what JSON says."""
        self.check_no_complaint(result)
        self.assertEqual(result.returncode, 0 if data["engine"] == "pool" else 1)
        lines, _, rest = result.stdout.partition("\n\n")
        lines = lines.splitlines()
        self.assertEqual(len(lines), len(data["checks"]))
        for line, (name, check) in zip(lines, data["checks"].items()):
            if name in ("memory", "huge_pages"):
                continue  # how much is had differs from run to run
            self.assertTrue(line.startswith(f"  {MARKS[check['state']]} "), line)
            self.assertTrue(line.endswith(check["text"]), line)
        if data["engine"] == "pool":
            self.assertIn("a program can make a pool", rest)
        else:
            self.assertIn("a program cannot make a pool", rest)
            self.assertIn(data["reason"], rest)
        if data["improve"]:
            self.assertIn(f"\n    {data['improve']['command']}\n", rest)
            self.assertIn(data["improve"]["benefit"], rest)
        else:
            self.assertNotIn("would help", rest)

    def test_json_has_what_the_page_promises(self):
        data = self.check_json(run("--json"))
        wanted = documented_keys("hugemap-doctor.1") - {"command", "benefit"}
        shallow = set(data) | set(data["checks"])
        for check in data["checks"].values():
            shallow |= set(check) & wanted
        self.assertEqual(shallow, wanted)

    def test_text_and_json_agree(self):
        self.check_text(run(), self.check_json(run("--json")))

    def test_a_directory_of_ones_own(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            data = self.check_json(run("--json", "--dir", directory))
            self.assertEqual(data["checks"]["direct_io"]["dir"], directory)
            self.assertEqual(os.listdir(directory), [])

    @unittest.skipIf(os.getuid(), "only root can become another user")
    def test_without_rights(self):
        for where in ("/tmp", "/"):  # where it may make files, and where not
            with self.subTest(where):
                data = self.check_json(run("--json", user=65534, cwd=where))
                self.check_text(run(user=65534, cwd=where), data)
                if data["engine"] == "steer":
                    self.assertIn("/dev/userfaultfd", run(user=65534, cwd=where).stdout)

    def with_device(self, user, mode="0660", group=HUGEMAP_GROUP, groups=(), rule=False):
        """What a user is told where the device is so."""
        with tempfile.TemporaryDirectory() as root:
            data = self.check_json(subprocess.run(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c", DEVICE_ROOT, "sh",
                 root, mode, str(group), "yes" if rule else "no", f"--userspec={user}:{user}",
                 "--groups=" + ",".join(map(str, groups))],
                capture_output=True, text=True))
        faults = data["checks"]["userfaultfd"]
        self.assertEqual(faults["device_mode"], mode)
        return data, faults

    def need_device(self):
        if os.getuid() or not os.path.exists("/dev/userfaultfd"):
            self.skipTest("only root can make devices, and there must be /dev/userfaultfd")
        if self.with_device(ANN, "0600", 0)[1]["via"] == "syscall":
            self.skipTest("everybody may use userfaultfd here")

    def test_the_group_of_the_device_is_told(self):
        self.need_device()
        data, faults = self.with_device(ANN)
        self.assertEqual(data["engine"], "steer")
        self.assertEqual(faults["device_group"], "hugemap")
        self.assertIn("the group hugemap may use /dev/userfaultfd", faults["text"])
        self.assertEqual(data["improve"]["command"], "sudo adduser ann hugemap")
        self.assertIn("logged in again", data["improve"]["benefit"])

    def test_who_joined_after_login_is_told(self):
        self.need_device()
        data, faults = self.with_device(BOB)
        self.assertEqual(data["engine"], "steer")
        self.assertEqual(data["improve"]["command"], "newgrp hugemap")

    def test_members_of_the_group_may(self):
        self.need_device()
        data, faults = self.with_device(BOB, groups=[HUGEMAP_GROUP])
        self.assertEqual(faults["via"], "device")
        self.assertEqual(data["engine"], "pool")
        self.assertEqual(faults["device_group"], "hugemap")
        self.assertNotIn("the group", faults["text"])
        for data in (data, self.with_device(HUGEMAP_GROUP)[0]):
            improve = (data["improve"] or {}).get("command", "")
            self.assertNotRegex(improve, "hugemap$|userfaultfd")

    def test_a_rule_that_udev_has_not_read(self):
        self.need_device()
        data, faults = self.with_device(ANN, "0600", 0, rule=True)
        self.assertIsNone(faults["device_group"])
        self.assertNotIn("the group", faults["text"])
        command = data["improve"]["command"]
        self.assertIn("udevadm trigger --name-match=userfaultfd", command)
        self.assertIn("adduser ann hugemap", command)

    def test_a_device_of_no_group(self):
        """Of root alone, by its mode or by its group."""
        self.need_device()
        for mode, group in (("0600", HUGEMAP_GROUP), ("0640", HUGEMAP_GROUP),
                            ("0620", HUGEMAP_GROUP), ("0660", 0)):
            with self.subTest(mode=mode, group=group):
                data, faults = self.with_device(ANN, mode, group)
                self.assertIsNone(faults["device_group"])
                self.assertNotIn("adduser", data["improve"]["command"])

    def test_help(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, "")
        self.assertEqual(hugemap("help", "doctor").stdout, result.stdout)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--nonsense"], ["word"], ["--dir"], ["--dir", "/nonexistent"], ["-x"],
                     ["--json=yes"]):
            with self.subTest(args):
                result = run(*args)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                self.assertTrue(is_sentence(result.stderr), result.stderr)
                self.assertIn(args[0].split("=")[0], result.stderr)

    def test_output_that_cannot_be_written_is_told(self):
        for args in ([], ["--json"]):
            with self.subTest(args), open("/dev/full", "w") as full:
                result = subprocess.run([HUGEMAP, "doctor", *args], stdout=full,
                                        stderr=subprocess.PIPE, text=True)
                self.assertEqual(result.returncode, 1)
                self.assertTrue(is_sentence(result.stderr), result.stderr)


if __name__ == "__main__":
    unittest.main()
