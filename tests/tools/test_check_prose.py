# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""tools/check-prose counts the idioms of sentences.txt, finds the prose of each language, and checks subjects."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tools"))
from prose import count_words, idioms  # noqa: E402
from prose_texts import texts  # noqa: E402

FILES = {
    "a.c": ('''
        // SPDX-License-Identifier: GPL-2.0-only OR MIT
        /*
         * First paragraph,
         * two lines.
         *
         * @field: second paragraph
         * - third
         */
        #include "not/a/message that counts.h"
        char *s = "a message in " "two pieces"; // a remark
        char *t = "no message", c = '"'; /* short */
        ''', {("comments", "First paragraph, two lines."), ("comments", "second paragraph"),
              ("comments", "third"), ("messages", "a message in two pieces"),
              ("comments", "a remark"), ("comments", "short")}),
    "a.py": ('''
        #!/usr/bin/env python3
        """The docstring."""
        # Two lines
        # of comment.
        print(f"a message with {x} in it")
        pattern = "(?:no message at all)"
        program = """
        line one of a program
        line two of a program"""
        ''', {("comments", "The docstring."), ("comments", "Two lines of comment."),
              ("messages", "a message with X in it")}),
    "script": ('''
        #!/bin/sh
        # One comment.
        echo "cannot mount $1 there, sorry" # a remark
        ''', {("comments", "One comment."), ("comments", "a remark"),
              ("messages", "cannot mount X there, sorry")}),
    "Makefile": ('''
        all: ## build it
        \tcc a.c
        ''', {("comments", "build it")}),
    "a.md": ('''
        # What it is
        Text with `who code` and a [link](who/what).

        ```
        who is not counted
        ```
        | one cell | another |
        ''', {("documents", "Text with X and a [link]."), ("documents", "one cell"), ("documents", "another")}),
    "a.1": ('''
        .\\" who comments
        .Sh NAME
        .Nm hugemap
        .Nd map files
        .Bd -literal
        who is not counted
        .Ed
        .Pp
        See
        .Xr mmap 2 ,
        too.
        ''', {("documents", "X map files"), ("documents", "See X, too.")}),
    "control": ('''
        Package: who
        Description: memory-mapped files
         in long pages
        ''', {("documents", "Description: memory-mapped files in long pages")}),
}
GOOD_SUBJECTS = ["preload: remove --heap", "lib, python: remove the pool engine", "kernel: fault: wait for the fill",
                 'Revert "docs: anything at all, however long it may have been when it was written at first"',
                 "tests/steer: x" + "y" * 58]
BAD_SUBJECTS = ["remove --heap", "kernel: who promotes waits", "What two readers found", "docs: what was measured",
                "Whoever: waits", "kernel:no space", "kernel: " + "x" * 65, "two words: remove it", ""]


class Prose(unittest.TestCase):
    def test_idioms_are_found_and_plain_sentences_pass(self):
        lines = [line for line in (TOP / "tests/tools/sentences.txt").read_text().splitlines() if line[:2] in ("- ", "+ ")]
        self.assertGreater(len(lines), 50)
        for line in lines:
            with self.subTest(line):
                self.assertEqual(bool(idioms(line[2:])), line[0] == "-", idioms(line[2:]))

    def test_words_are_counted(self):
        self.assertEqual(count_words("It's 2 MB (lower-case)."), 3)

    def test_prose_of_each_language_is_found(self):
        with tempfile.TemporaryDirectory() as top:
            for name, (content, expected) in FILES.items():
                path = pathlib.Path(top, name)
                path.write_text(textwrap.dedent(content).lstrip("\n"))
                with self.subTest(name):
                    found = texts(path)
                    self.assertEqual({(text.kind, text.words) for text in found if text.words}, expected)

    def test_line_numbers_are_those_of_the_file(self):
        with tempfile.TemporaryDirectory() as top:
            path = pathlib.Path(top, "a.c")
            path.write_text("\n/*\n * one\n *\n * two\n */\n")
            self.assertEqual([text.line for text in texts(path)], [3, 5])


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Gate(unittest.TestCase):
    """The tool in a repository of its own, with one area `one`."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.top = pathlib.Path(made.name)
        (self.top / "tools").mkdir()
        for name in ("check-prose", "prose.py", "prose_texts.py"):
            shutil.copy(TOP / "tools" / name, self.top / "tools")
        self.git("init", "--quiet", "--initial-branch=main")
        self.set("plain " * 96)

    def git(self, *words):
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_NAME": "test", f"GIT_{role}_EMAIL": "test@example.org"}
        subprocess.run(["git", "-C", self.top, *words], check=True, env=env)

    def set(self, comment):
        (self.top / "one").mkdir(exist_ok=True)
        (self.top / "one/file.sh").write_text(f"#!/bin/sh\n# {comment}\n")

    def run_tool(self, *words):
        return subprocess.run([self.top / "tools/check-prose", *words], capture_output=True, text=True)

    def assert_gate(self, passes):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0 if passes else 1, done.stdout + done.stderr)

    def test_an_area_above_its_limit_fails(self):
        # The limit is 3 in 1,000 words; one is never too many.
        for comment, passes in (("plain " * 996 + "nobody waits. " * 2, True), ("plain " * 996 + "nobody waits. " * 4, False),
                                ("plain " * 96 + "nobody waits. " * 2, False), ("plain " * 96 + "nobody waits.", True)):
            self.set(comment)
            self.assert_gate(passes)

    def test_idioms_are_printed_with_their_place(self):
        self.set("plain nobody waits")
        self.assertEqual(self.run_tool("one").stdout,
                         "one/file.sh:2: state the lock, the owner or the state: plain nobody waits\n")

    def test_subjects_in_a_file_are_checked(self):
        message = self.top / "message"
        for subjects, expected in ((GOOD_SUBJECTS, 0), (BAD_SUBJECTS, 1)):
            for subject in subjects:
                with self.subTest(subject):
                    message.write_text(subject + "\n\nWho reads the body?\n")
                    self.assertEqual(self.run_tool("--message", message).returncode, expected)

    def test_subjects_of_new_commits_are_checked(self):
        self.git("commit", "--quiet", "--allow-empty", "-m", "no area on main, long ago")
        self.git("commit", "--quiet", "--allow-empty", "-m", "docs: good")
        self.assertEqual(self.run_tool("--commits").returncode, 0, "the newest one on main")
        self.git("checkout", "--quiet", "-b", "branch")
        for _ in range(2):
            self.git("commit", "--quiet", "--allow-empty", "-m", "docs: good")
            self.assertEqual(self.run_tool("--commits").returncode, 0)
        self.git("commit", "--quiet", "--allow-empty", "-m", "no area")
        self.git("commit", "--quiet", "--allow-empty", "-m", "docs: good")
        done = self.run_tool("--commits")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no area\n", done.stdout)
        self.assertEqual(self.run_tool("--commits", "HEAD^..HEAD").returncode, 0)


if __name__ == "__main__":
    unittest.main()
