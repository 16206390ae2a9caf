# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap top: on a terminal, as plain text and as JSON."""
import contextlib
import json
import os
import signal
import subprocess
import time
import unittest

from common import (HUGEMAP, LONG, FakeMount, Screen, documented_keys, hugemap, is_sentence, keys,
                    mapped_file)

class Top(unittest.TestCase):
    def setUp(self):
        self.mount = FakeMount()
        self.addCleanup(self.mount.remove)

    def screen(self, *args, **kwargs):
        screen = Screen("top", *args, env=self.mount.env, **kwargs)
        self.addCleanup(screen.close)
        return screen

    def check_left_as_found(self, screen):
        self.assertEqual(screen.after, screen.before)
        self.assertIn("\x1b[?1049l", screen.seen)  # the other screen of xterm is left
        self.assertRegex(screen.seen, r"\x1b\[\?25h|\x1b\[\?12l\x1b\[\?25h")  # a cursor again

    def test_it_draws_and_ends(self):
        screen = self.screen()
        screen.wait_for("hugemap top: 1 mount")
        screen.wait_for("READ/S")
        screen.wait_for(self.mount.directory)
        screen.wait_for(r"q\)uit")
        screen.type("q")
        self.assertEqual(screen.end(), 0)
        self.check_left_as_found(screen)

    def test_keys_change_the_order(self):
        screen = self.screen("--interval", "0.2")
        screen.wait_for("by read")
        for key, word in (("w", "write"), ("f", "faults"), ("h", "hits"), ("d", "dirty"),
                          ("e", "evictions"), ("l", "latency"), ("n", "name")):
            # The program sends only differences, but everything after Ctrl-L.
            screen.type(key + "\f")
            screen.wait_for(f"by {word}\\b")
        screen.type("Q")
        self.assertEqual(screen.end(), 0)

    def test_mappings_can_be_hidden(self):
        with mapped_file(self.mount.directory) as (path, pid):
            screen = self.screen("--interval", "0.1")
            screen.wait_for(rf"{pid} python")
            screen.type("m")
            end, shown = time.monotonic() + LONG, str(pid)
            while str(pid) in shown:
                self.assertLess(time.monotonic(), end)
                screen.type("\f")
                shown = screen.wait_for(r"(?s)hugemap top.*?q\)uit").group()

    def test_numbers_are_renewed(self):
        screen = self.screen("--interval", "0.1")
        screen.wait_for(r"q\)uit")
        self.mount.put("dirty_bytes", 77 << 20)
        screen.wait_for("77 MB")

    def test_a_new_size_of_the_terminal_is_used(self):
        screen = self.screen("--interval", "0.1")
        screen.wait_for(r"q\)uit")
        self.assertNotIn("RESIDENT", screen.seen)
        screen.resize(50, 150)
        os.killpg(screen.program.pid, signal.SIGWINCH)
        screen.wait_for("RESIDENT")
        for rows, columns in ((24, 80), (3, 20), (1, 1), (24, 80)):
            screen.resize(rows, columns)
            os.killpg(screen.program.pid, signal.SIGWINCH)
            screen.read(0.2)
        screen.wait_for(r"q\)uit")
        screen.type("q")
        self.assertEqual(screen.end(), 0)
        self.check_left_as_found(screen)

    def test_signals_leave_the_terminal_as_it_was(self):
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)):
            with self.subTest(number):
                screen = self.screen()
                screen.wait_for(r"q\)uit")
                screen.program.send_signal(number)
                self.assertEqual(screen.end(), status)
                self.check_left_as_found(screen)

    def test_it_ends_after_the_count(self):
        screen = self.screen("--interval", "0.1", "--count", "2")
        self.assertEqual(screen.end(), 0)
        self.check_left_as_found(screen)

    def test_an_unknown_terminal_is_refused(self):
        screen = self.screen(term="nonsense-terminal")
        self.assertEqual(screen.end(), 1)
        self.assertIn("nonsense-terminal", screen.seen)
        self.assertEqual(screen.after, screen.before)

    def top(self, *args):
        result = self.mount.hugemap("top", "--interval", "0.1", "--count", "1", *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_plain_text_has_a_line_per_mount(self):
        lines = self.top().splitlines()
        self.assertTrue(lines[0].startswith("hugemap top: 1 mount,"), lines[0])
        self.assertRegex(lines[2], r"^MOUNT +READ/S .* POOL$")
        # Other processes whose mappings are steered have lines, too.
        self.assertRegex("\n".join(lines[3:]), rf"(?m)^{self.mount.directory} .*64 MB$")
        self.assertLessEqual(max(map(len, lines)), 100)

    def test_json_has_the_documented_keys(self):
        with mapped_file(self.mount.directory) as (path, pid), self.steered() as steered:
            data = json.loads(self.top("--json"))
            text = self.top()
        wanted = documented_keys("hugemap-top.1")
        of_stat = keys(json.loads(self.mount.hugemap("stat", "--json").stdout)["mounts"][0])
        self.assertLessEqual(wanted, keys(data))
        self.assertLessEqual(keys(data) - wanted, of_stat)
        mount, = data["mounts"]
        self.assertEqual(mount["mount"], self.mount.directory)
        user, = [user for user in mount["users"] if user["pid"] == pid]
        self.assertEqual(user["file"], path)
        self.assertEqual((user["mappings"], user["mapped_bytes"]), (1, 1 << 20))
        self.assertGreater(user["resident_bytes"], 0)
        name = os.path.basename(path)
        self.assertRegex(text, rf"(?m)^ +{pid} python\S* +{name} +1.0 MB in 1, ")
        process, = [process for process in data["processes"] if process["pid"] == steered]
        self.assertTrue(process["name"].startswith("python"), process)
        self.assertEqual((process["mappings"], process["mapped_bytes"]), (1, 1 << 20))
        self.assertGreaterEqual(process["faults"], process["major_faults"])
        self.assertLessEqual(keys(process), wanted)
        file, = process["files"]
        self.assertEqual(file["bytes"], 1 << 20)
        self.assertRegex(text, r"(?m)^PROCESS +READ/S +USED/S +FAULT/S +WAIT/S +MAPPED +HUGE$")
        self.assertRegex(text, rf"(?m)^{steered} python[^-]*\n +\w+ +1.0 MB, .* used, .*{file['file']}")

    @contextlib.contextmanager
    def steered(self):
        """The number of a process with a steered mapping."""
        if not os.access("/proc/self/pagemap", os.R_OK):
            self.skipTest("nothing can be steered here")
        with mapped_file("/var/tmp", HUGEMAP, "run", "--min-size", "1M") as (_, pid):
            end = time.monotonic() + LONG
            while '"touched_bytes"' not in hugemap("stat", "--json", str(pid)).stdout:
                self.assertLess(time.monotonic(), end)
            yield pid

    def test_count_and_interval_give_one_object_a_line(self):
        result = self.mount.hugemap("top", "--json", "--interval", "0.1", "--count", "3")
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertGreater(json.loads(line)["seconds"], 0)

    def test_a_file_that_cannot_be_shown_is_refused(self):
        for name, words in (("/nothing/there", "No such file"),
                            (HUGEMAP, "no file of a mount of HugeMap")):
            result = hugemap("top", name)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertTrue(is_sentence(result.stderr), result.stderr)
            self.assertIn(words, result.stderr)

    def test_help_is_printed(self):
        result = hugemap("top", "--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--nonsense"], ["--interval", "0"], ["--count", "0"],
                     ["--sort", "size"], ["--sort"]):
            with self.subTest(args):
                result = hugemap("top", *args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertTrue(is_sentence(result.stderr), result.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for args in ([], ["--json"]):
            with self.subTest(args), open("/dev/full", "w") as full:
                result = subprocess.run([HUGEMAP, "top", "--interval", "0.1", *args], stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=LONG)
                self.assertEqual(result.returncode, 1)
                self.assertTrue(is_sentence(result.stderr), result.stderr)


if __name__ == "__main__":
    unittest.main()
