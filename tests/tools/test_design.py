# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""docs/design/ names only functions, files and links that exist."""
import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((TOP / "docs/design").glob("*.md"))
SOURCES = ("kernel", "steer", "lib", "preload", "cli")


def words_of_sources() -> set[str]:
    words: set[str] = set()
    for top in SOURCES:
        for path in (TOP / top).rglob("*.[ch]"):
            words.update(re.findall(r"\b\w+(?=\()", path.read_text()))
    # A system call has no function here.
    return words | {"mmap", "munmap", "mremap", "madvise", "msync", "fork", "unshare", "setuid"}


class Design(unittest.TestCase):
    def test_functions_exist(self):
        words = words_of_sources()
        for page in PAGES:
            # madvise(2) is a manual page.
            for name in re.findall(r"\b([a-z]\w+)\((?!\d\))", page.read_text()):
                with self.subTest(page=page.name, function=name):
                    self.assertIn(name, words)

    def test_files_exist(self):
        for page in PAGES:
            for name in re.findall(r"`([\w/]+(?:/|\.[ch]))`", page.read_text()):
                with self.subTest(page=page.name, file=name):
                    self.assertTrue((TOP / name).exists() or (TOP / "kernel" / name).exists())

    def test_links_lead_to_files(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
                with self.subTest(page=page.name, link=link):
                    self.assertTrue((page.parent / link).exists())

    def test_pages_exist(self):
        self.assertGreaterEqual(len(PAGES), 6)


if __name__ == "__main__":
    unittest.main()
