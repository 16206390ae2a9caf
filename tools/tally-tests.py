#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Count single tests in meson's logs: tally-tests.py RESULTS BUILD

RESULTS holds a copy of testlog.json for each tree (plain.json, asan.json, ...), one for the
tests in guests (vm.json), of the module (module.json) and in bare systems (roots.json), and an
empty TREE.broken for a tree that did not build. BUILD is the directory of the plain tree. Prints
the reasons of skipped tests, the failed tests with the end of their output, and as its last line
`N passed, N failed, N skipped`.
"""
import json
import os
import re
import sys

LINE = re.compile(r"^\[\s+(RUN|OK|FAILED|SKIPPED)\s+\] (\w+)$")
# The suffix of BUILD for each tree, and the name of its log.
TREES = {
    "plain": ("", "testlog.txt"),
    "vm": ("", "vm.txt"),
    "module": ("", "module.txt"),
    "roots": ("", "roots.txt"),
    "asan": ("-asan", "testlog.txt"),
    "tsan": ("-tsan", "testlog.txt"),
}
TAIL = 25  # last lines of output that are printed for a failed test


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = []  # (where, log, text)
        self.skipped = []  # (where, reason)


def reason_in(lines):
    """The line with the reason why a test was skipped."""
    for line in lines:
        if "skip" in line.lower() and not LINE.match(line):
            return re.sub(r"^.*?skipped:\s*", "", line).strip()
    return "no reason given"


def last_lines(text):
    return "\n".join("    " + line for line in text.rstrip().splitlines()[-TAIL:])


def count_cases(where, test, lines, tally):
    """Count the tests of a cmocka program; return the number of failures."""
    running, since, failed = None, 0, 0
    for i, line in enumerate(lines):
        match = LINE.match(line)
        if not match:
            continue
        what, name = match.groups()
        if what == "RUN":
            running, since = name, i + 1
            continue
        if name != running:
            continue  # in the list at the end of the output
        running = None
        if what == "OK":
            tally.passed += 1
        elif what == "SKIPPED":
            tally.skipped.append((f"{where}/{name}", reason_in(lines[since:i])))
        else:
            failed += 1
            tally.failed.append([f"{where}/{name}", test["log"], ""])
    if running:
        failed += 1
        tally.failed.append([f"{where}/{running}", test["log"], ""])
    return failed


def count(tree, log, test, tally):
    where = f"{tree}: {test['name'].split(' / ')[-1]}"
    out, err = test.get("stdout") or "", test.get("stderr") or ""
    lines = out.splitlines()
    result = test["result"]
    test["log"] = log
    if result == "SKIP":
        tally.skipped.append((where, reason_in(lines + err.splitlines())))
        return
    cases = any(LINE.match(line) for line in lines)
    failed = count_cases(where, test, lines, tally) if cases else 0
    if result in ("OK", "EXPECTEDFAIL"):
        if not cases:
            tally.passed += 1
        return
    why = {"TIMEOUT": "it hung and was killed", "ERROR": "it crashed"}.get(result, "it failed")
    text = f"  {why} (exit status {test.get('returncode')}); its last output:\n"
    text += last_lines(out) + ("\n" if out else "") + last_lines(err)
    if not failed:
        tally.failed.append([where, log, text])
    else:
        tally.failed[-1][2] = text


def main():
    results, build = sys.argv[1:]
    tally = Tally()
    for tree, (suffix, name) in TREES.items():
        directory = build + suffix
        path = os.path.join(results, tree + ".json")
        if os.path.exists(os.path.join(results, tree + ".broken")):
            tally.failed.append([f"{tree}: build", directory, "  it did not build: see above"])
        if not os.path.exists(path):
            continue
        log = os.path.join(directory, "meson-logs", name)
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                count(tree, log, json.loads(line), tally)
    if tally.skipped:
        print("\nskipped:")
        for where, reason in tally.skipped:
            print(f"  {where}: {reason}")
    if tally.failed:
        print("\nfailed:")
        for where, log, text in tally.failed:
            print(f"  {where} (log: {log})")
            if text:
                print(text)
    print()
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
