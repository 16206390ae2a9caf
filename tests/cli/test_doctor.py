# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap doctor: what this machine allows, which engine, why, what would help."""
import json
import os
import subprocess
import unittest

HUGEMAP = os.environ["HUGEMAP"]


def run(*args):
    return subprocess.run([HUGEMAP, "doctor", *args], capture_output=True, text=True)


class Doctor(unittest.TestCase):
    def test_json_has_what_the_page_promises(self):
        result = run("--json")
        self.assertIn(result.returncode, (0, 1))
        data = json.loads(result.stdout)
        for key in ("version", "engine", "io", "reason", "checks"):
            self.assertIn(key, data)
        self.assertIn(data["engine"], ("user", "mmap"))
        for name in ("kernel", "userfaultfd", "huge_pages", "io_uring"):
            self.assertIn(data["checks"][name]["state"], ("ok", "note", "bad", "warn", "no"))
            self.assertTrue(data["checks"][name]["text"])

    def test_text_and_json_agree(self):
        text = run().stdout
        data = json.loads(run("--json").stdout)
        self.assertIn("user-space engine" if data["engine"] == "user" else "mmap", text)
        self.assertIn(data["checks"]["userfaultfd"]["text"], text)
        self.assertIn("Next:", text)

    def test_without_rights_it_names_one_command(self):
        if os.getuid():
            self.skipTest("only root can become another user")
        result = subprocess.run([HUGEMAP, "doctor", "--json"], capture_output=True, text=True,
                                user=65534, cwd="/tmp")
        data = json.loads(result.stdout)
        if data["engine"] == "user":
            self.skipTest("everybody may use userfaultfd here")
        self.assertEqual(data["engine"], "mmap")
        self.assertGreater(len(data["reason"].split()), 5)
        text = subprocess.run([HUGEMAP, "doctor"], capture_output=True, text=True, user=65534,
                              cwd="/tmp").stdout
        self.assertIn("/dev/userfaultfd", text)

    def test_nonsense_is_refused(self):
        result = run("--nonsense")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nonsense", result.stderr)


if __name__ == "__main__":
    unittest.main()
