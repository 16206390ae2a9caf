#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap-attach@.service: systemd accepts it, and its capabilities suffice for its command."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [os.fspath(HERE.parent)]

import cases

HUGEMAP = os.environ["HUGEMAP"]
UNIT = pathlib.Path(os.environ["UNIT"])
MB = 1 << 20
# Read a new mapping again and again, for two seconds: a page at a time, so that it is watched.
PROGRAM = f"""
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    size = {64 * MB}
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        mapped = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        print("mapped", flush=True)
        for at in range(0, size, 4096):
            mapped[at]
        time.sleep(0.2)
"""


def settings() -> dict[str, str]:
    return dict(re.findall(r"(?m)^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8")))


def try_systemd(tell: cases.Cases, work: pathlib.Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    with tell.case("systemd_accepts_the_unit"):
        name = "hugemap-attach@a-b.service"
        (work / name).write_text(text, encoding="utf-8")
        (work / "a-b.service").write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", work / name], capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), done
    with tell.case("the_unit_starts_and_stops_with_the_service"):
        found = settings()
        assert {found[key] for key in ("BindsTo", "After", "WantedBy")} == {"%i.service"}, found
    with tell.case("systemd_rates_the_unit_as_hardened"):
        done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=25", work / name],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-400:] + done.stderr


def try_command(tell: cases.Cases, work: pathlib.Path) -> None:
    with tell.case("the_command_of_the_unit_attaches_with_its_capabilities"):
        if os.geteuid():
            raise cases.Skipped("only root can run a program as another user")
        found = settings()
        work.chmod(0o755)
        data = work / "data"
        data.write_bytes(bytes(64 * MB))
        data.chmod(0o644)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        with subprocess.Popen([*user, "python3", "-c", PROGRAM, data], stdout=subprocess.PIPE) as program:
            program.stdout.readline()
            systemctl = work / "systemctl"
            systemctl.write_text(f'#!/bin/sh\n[ "$*" = "show --property=MainPID --value -- a-b.service" ] && '
                                 f"echo {program.pid}\n", encoding="utf-8")
            systemctl.chmod(0o755)
            command = found["ExecStart"].replace("%i", "a-b").replace("$$", "$")
            command = re.sub(r"\S+/hugemap(?= attach)", HUGEMAP, command)
            rights = ",".join("+" + name.removeprefix("CAP_").lower()
                              for name in found["CapabilityBoundingSet"].split())
            limit = ["setpriv", "--no-new-privs", f"--bounding-set=-all,{rights}", "--inh-caps=-all"]
            done = subprocess.run([*limit, *shlex.split(command)], capture_output=True, text=True,
                                  env={**os.environ, "PATH": f"{work}:{os.environ['PATH']}"})
            program.stdout.read()
        assert done.returncode == 0 and os.fspath(data) in done.stdout, done


def main() -> int:
    tell = cases.Cases()
    with tempfile.TemporaryDirectory(prefix="hugemap-unit-", dir="/var/tmp") as work:
        try_systemd(tell, pathlib.Path(work))
        try_command(tell, pathlib.Path(work))
    return tell.status()


if __name__ == "__main__":
    sys.exit(main())
