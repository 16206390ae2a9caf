# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the tests of the command line share."""
import json
import os
import re
import subprocess

HUGEMAP = os.environ["HUGEMAP"]
ROOT = os.environ["SOURCE_ROOT"]


def hugemap(*args, **kwargs):
    return subprocess.run([HUGEMAP, *args], capture_output=True, text=True, **kwargs)


def user_engine_works():
    return json.loads(hugemap("doctor", "--json").stdout)["engine"] == "user"


def documented_keys(page):
    """The names in the section on JSON of a page."""
    with open(f"{ROOT}/man/{page}") as file:
        section = re.split(r"\n\.S[sh] ", file.read().split("\n.Ss JSON\n")[1])[0]
    found = set()
    for line in re.findall(r"(?m)^\.(?:It )?Va (.*)$", section):
        found |= set(re.findall(r"\w+", line))
    return found


def keys(value):
    """All keys of a JSON value, at any depth."""
    found = set()
    if isinstance(value, dict):
        found |= set(value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            found |= keys(item)
    return found


def is_sentence(text):
    """Whether a complaint says what is wrong, in one line."""
    return bool(re.fullmatch(r"hugemap[ a-z]*: .*\S \S+ \S.*\n", text))
