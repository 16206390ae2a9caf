# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap doctor: whether mappings can be steered, and the rest of the machine."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from common import HUGEMAP, documented_keys, hugemap, is_sentence

# Run the command in a mount name space in which /proc/self/pagemap cannot be opened.
WITHOUT_PAGEMAP = r"""
set -e
mount -t tmpfs none /proc
mkdir /proc/self
exec "$HUGEMAP" doctor "$@"
"""
# Run the command in a root of its own, outside a container, on a kernel that can load modules, with
# settings of security: the file lockdown, the variable of Secure Boot, sig_enforce, and "installed"
# if modprobe finds the module.
SIGNED = r"""
set -e
mount -t tmpfs none "$ROOT"
cd "$ROOT"
mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work none root
cd root
rm -f .dockerenv run/.containerenv
mkdir -p ".$(dirname "$HUGEMAP")"
mount --bind "$(dirname "$HUGEMAP")" ".$(dirname "$HUGEMAP")"
mount -t tmpfs none proc
mkdir proc/real
mount --rbind /proc proc/real
for name in /proc/*; do ln -s "real/${name##*/}" "proc/${name##*/}"; done
[ -e proc/modules ] || : >proc/modules
mount -t tmpfs none sys
mkdir -p sys/kernel/security sys/firmware/efi/efivars sys/module/module/parameters
[ -z "$1" ] || echo "$1" >sys/kernel/security/lockdown
printf "\006\000\000\000\00$2" >sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
echo "$3" >sys/module/module/parameters/sig_enforce
dep=lib/modules/$(uname -r)/modules.dep
mkdir -p "${dep%/*}"
[ "$4" = missing ] || echo updates/dkms/hugemap.ko: >"$dep"
printf '#!/bin/sh\necho "$SIGNER"\n' >usr/bin/modinfo
chmod +x usr/bin/modinfo
PATH=/usr/bin:$PATH chroot . "$HUGEMAP" doctor --json --dir /var/tmp
"""
MARKS = {"ok": "ok", "slow": "slow", "no": "NO"}


def run(*args, **kwargs):
    return hugemap("doctor", *args, **kwargs)


class Doctor(unittest.TestCase):
    def check_no_complaint(self, result):
        """Progress is no complaint: it appears if a check takes seconds."""
        for line in result.stderr.splitlines():
            self.assertTrue(re.fullmatch(r"hugemap doctor: [A-Za-z_ ]+", line), line)

    def check_json(self, result, works=True):
        self.check_no_complaint(result)
        data = json.loads(result.stdout)
        self.assertIs(data["works"], works)
        self.assertEqual(result.returncode, 0 if works else 1)
        for name, check in data["checks"].items():
            with self.subTest(name):
                self.assertIn(check["state"], MARKS)
                self.assertTrue(check["text"])
        self.assertEqual(any(c["state"] == "no" for c in data["checks"].values()), not works)
        return data

    def check_text(self, result, data):
        """The text has the results of the JSON."""
        self.check_no_complaint(result)
        self.assertEqual(result.returncode, 0 if data["works"] else 1)
        lines, _, rest = result.stdout.partition("\n\n")
        self.assertLessEqual(max(map(len, lines.splitlines())), 80)
        lines = re.sub(r"\n {21}(?=\S)", " ", lines).splitlines()
        self.assertEqual(len(lines), len(data["checks"]))
        for line, (name, check) in zip(lines, data["checks"].items()):
            self.assertTrue(line.startswith(f"  {MARKS[check['state']]} "), line)
            if name != "memory":  # differs from run to run
                self.assertTrue(line.endswith(check["text"]), line)
        self.assertIn("can be steered" if data["works"] else "cannot be steered", rest)
        if data["works"]:
            self.assertRegex(rest, r"Next: hugemap check PROGRAM\n")

    def test_json_has_the_documented_keys(self):
        data = self.check_json(run("--json"))
        found = set(data) | set(data["checks"])
        for check in data["checks"].values():
            found |= set(check) & {"state", "text"}
        self.assertEqual(found, documented_keys("hugemap-doctor.1"))

    def test_text_and_json_agree(self):
        self.check_text(run(), self.check_json(run("--json")))

    def test_read_ahead_is_reported_with_its_meaning(self):
        check = self.check_json(run("--json", "--dir", "/var/tmp"))["checks"]["read_ahead"]
        self.assertEqual(check["state"], "ok")
        dev = os.stat("/var/tmp").st_dev
        path = f"/sys/dev/block/{os.major(dev)}:{os.minor(dev)}/bdi/read_ahead_kb"
        if not os.path.exists(path):
            self.skipTest("/var/tmp is not on a plain block device")
        with open(path) as file:
            kb = int(file.read())
        self.assertEqual(check["read_ahead_kb"], kb)
        self.assertIn(f"is {kb}", check["text"])
        self.assertIn("usual" if kb >= 128 else "HugeMap", check["text"])
        in_memory = self.check_json(run("--json", "--dir", "/proc"))["checks"]["read_ahead"]
        self.assertIsNone(in_memory["read_ahead_kb"])

    def test_another_directory_is_checked_and_left_empty(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            data = self.check_json(run("--json", "--dir", directory))
            self.assertEqual(data["checks"]["direct_io"]["dir"], directory)
            self.assertIsInstance(data["checks"]["direct_io"]["works"], bool)
            self.assertEqual(data["checks"]["huge_files"]["places"][0]["dir"], directory)
            self.assertEqual(os.listdir(directory), [])

    @unittest.skipIf(os.getuid(), "only root can become another user")
    def test_it_works_without_rights(self):
        data = self.check_json(run("--json", user=65534, cwd="/tmp"))
        self.check_text(run(user=65534, cwd="/tmp"), data)
        self.assertIsInstance(data["checks"]["direct_io"]["works"], bool)
        data = self.check_json(run("--json", user=65534, cwd="/"))
        self.assertIsNone(data["checks"]["direct_io"]["works"])
        self.assertIn("no file can be made in /", data["checks"]["direct_io"]["text"])

    @unittest.skipIf(os.getuid(), "only root can hide /proc")
    def test_without_pagemap_steering_is_reported_as_impossible(self):
        def hidden(*args):
            return subprocess.run(["unshare", "--mount", "sh", "-c", WITHOUT_PAGEMAP, "sh", *args],
                                  capture_output=True, text=True)
        data = self.check_json(hidden("--json"), works=False)
        self.assertEqual(data["checks"]["steering"]["state"], "no")
        self.check_text(hidden(), data)

    @unittest.skipIf(os.getuid(), "only root can mount")
    def test_a_kernel_that_loads_only_signed_modules(self):
        def run_with(*args, **kwargs):
            with tempfile.TemporaryDirectory() as root:
                result = subprocess.run(["unshare", "--mount", "sh", "-c", SIGNED, "sh", *args], text=True,
                                        capture_output=True, env={**os.environ, **kwargs, "ROOT": root})
            self.assertEqual(result.stderr, "")
            return json.loads(result.stdout)["checks"]["kernel_engine"]

        locked = "none [integrity] confidentiality"
        unlocked = "[none] integrity confidentiality"
        for lockdown, boot, enforce, needed in (
                (locked, 0, "N", True), (locked, 1, "N", True), (unlocked, 1, "N", False),
                (unlocked, 0, "N", False), (unlocked, 0, "Y", True), ("", 1, "N", True), ("", 0, "N", False)):
            with self.subTest(lockdown=lockdown, boot=boot, enforce=enforce):
                found = run_with(lockdown, f"{boot}", enforce, "installed", SIGNER="")
                self.assertEqual((found["secure_boot"], found["needs_signature"], found["state"]),
                                 (bool(boot), needed, "ok"))
                self.assertEqual(found["lockdown"], "integrity" if lockdown == locked else "none")
                self.assertEqual("has no signature" in found["text"], needed, found["text"])
                self.assertEqual("Secure Boot" in found["text"], needed and bool(boot))
        signed = run_with(locked, "1", "N", "installed", SIGNER="the builder's key")
        self.assertEqual(signed["signer"], "the builder's key")
        self.assertRegex(signed["text"], "signed by the builder's key.*mokutil --import")
        missing = run_with(locked, "1", "N", "missing", SIGNER="")
        self.assertRegex(missing["text"], "Secure Boot.*dkms.*mokutil --import")

    def test_help_is_printed_in_both_ways(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, "")
        self.assertEqual(hugemap("help", "doctor").stdout, result.stdout)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--nonsense"], ["word"], ["--dir"], ["--dir", "/nonexistent"], ["-x"],
                     ["--json=yes"]):
            with self.subTest(args):
                result = run(*args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertTrue(is_sentence(result.stderr), result.stderr)
                self.assertIn(args[0].split("=")[0], result.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for args in ([], ["--json"]):
            with self.subTest(args), open("/dev/full", "w") as full:
                result = subprocess.run([HUGEMAP, "doctor", *args], stdout=full,
                                        stderr=subprocess.PIPE, text=True)
                self.assertEqual(result.returncode, 1)
                self.assertTrue(is_sentence(result.stderr), result.stderr)


if __name__ == "__main__":
    unittest.main()
