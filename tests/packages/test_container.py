#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""packaging/Containerfile: its steps work in minimal systems, and the result has what it needs."""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [os.fspath(HERE.parent), os.fspath(HERE.parents[1] / "tools")]

import cases
import debian_root
import sources

SCRATCH = os.environ.get("HM_TEST_DIR") or "/var/tmp"
FILE = HERE.parents[1] / "packaging/Containerfile"


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage: pairs of a word and its arguments."""
    text = re.sub(r"(?m)^#.*\n", "", FILE.read_text(encoding="utf-8")).replace("\\\n", " ")
    lines = [tuple(line.split(None, 1)) for line in text.splitlines() if line]
    starts = [number for number, line in enumerate(lines) if line[0] == "FROM"]
    return [lines[begin:end] for begin, end in zip(starts, [*starts[1:], len(lines)])]


def copy(words: list[str], machine: debian_root.Machine, source: pathlib.Path,
         built: dict[str, debian_root.Machine]) -> None:
    """COPY [--from=STAGE] FROM TO: of the sources, or of the differences of a stage from its base."""
    stage = [word.removeprefix("--from=") for word in words if word.startswith("--from=")]
    begin, to = words[-2:]
    where = built[stage[0]].upper if stage else source
    shutil.copytree(where / begin.lstrip("/"), machine.upper / to.lstrip("/"), symlinks=True, dirs_exist_ok=True)


def perform(stage: list[tuple[str, str]], machine: debian_root.Machine, source: pathlib.Path,
            built: dict[str, debian_root.Machine]) -> list[str]:
    """Perform the instructions of a stage; return the command of the image."""
    command = []
    for word, rest in stage[1:]:
        if word == "RUN":
            machine.run(rest, env={"CFLAGS": "-O0"})
        elif word == "COPY":
            copy(rest.split(), machine, source, built)
        elif word in ("ENTRYPOINT", "CMD"):
            command += json.loads(rest)
        else:
            raise AssertionError(f"unknown instruction {word}")
    return command


def main() -> int:
    debian_root.end_on_signals()
    tell = cases.Cases()
    build, image = stages()
    suite = re.fullmatch(r"debian:(\w+)-slim AS build", build[0][1])[1]
    assert image[0][1] == f"debian:{suite}-slim"
    try:
        base = debian_root.base(suite)
        with tempfile.TemporaryDirectory(prefix="hugemap-container-", dir=SCRATCH) as scratch, \
                debian_root.Machine(base, SCRATCH) as first, debian_root.Machine(base, SCRATCH) as second:
            source = pathlib.Path(scratch) / "source"
            sources.working(source)
            with tell.case("first_stage_builds"):
                perform(build, first, source, {})
            with tell.case("image_runs_its_command_and_a_program"):
                command = perform(image, second, source, {"build": first})
                output = second.run(command).stdout
                assert re.search("ok +steering", output), output
                # The library that `run` loads has to be found.
                output = second.run([command[0], "run", "-v", "--summary", "/bin/sh", "-c", "echo yes"]).stdout
                assert "yes" in output, output
                second.run("! ls /usr/bin/gcc /var/lib/apt/lists/*_Packages")
    except debian_root.Unavailable as error:
        print(f"skipped: {error}")
        return 77
    return tell.status()


if __name__ == "__main__":
    sys.exit(main())
