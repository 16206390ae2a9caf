# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""docs/design/ names only functions, variables, files and links that exist."""
import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((TOP / "docs/design").glob("*.md"))
SOURCES = ("kernel", "steer", "lib", "preload", "cli", "include")
# System calls, which have no function here.
CALLS = {"munmap", "mremap", "madvise", "msync", "fork", "unshare", "setuid"}


def words_of_sources() -> tuple[set[str], set[str]]:
    """The words before a parenthesis, and all words."""
    calls, words = set(CALLS), set()
    for top in SOURCES:
        for path in (TOP / top).rglob("*.[ch]"):
            text = path.read_text()
            calls.update(re.findall(r"\b\w+(?=\()", text))
            words.update(re.findall(r"\w+", text))
    return calls, words


class Design(unittest.TestCase):
    def test_functions_and_variables_exist(self):
        calls, words = words_of_sources()
        for page in PAGES:
            text = page.read_text()
            # madvise(2) is a manual page.
            for name in sorted(set(re.findall(r"\b([a-z]\w+)\((?!\d\))", text))):
                with self.subTest(page=page.name):
                    self.assertTrue(name in calls, f"no source defines or calls {name}()")
            spans = " ".join(re.findall(r"`([^`]+)`", text))
            for name in sorted(set(re.findall(r"\b[a-z]\w*_\w*[a-z0-9]\b", spans))):
                with self.subTest(page=page.name):
                    self.assertTrue(name in words, f"no source has {name}")

    def test_files_exist(self):
        for page in PAGES:
            for name in re.findall(r"`([\w/]+(?:/|\.[ch]))`", page.read_text()):
                with self.subTest(page=page.name):
                    self.assertTrue((TOP / name).exists() or (TOP / "kernel" / name).exists(), name)

    def test_links_lead_to_files(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
                with self.subTest(page=page.name):
                    self.assertTrue((page.parent / link).exists(), link)

    def test_pages_exist(self):
        self.assertGreaterEqual(len(PAGES), 6)


if __name__ == "__main__":
    unittest.main()
