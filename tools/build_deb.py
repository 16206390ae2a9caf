#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Debian packages of what is committed: build_deb.py [SUITE...]

For each suite (default: bookworm and trixie), in a bare root directory of it that has the
Build-Depends alone, into build/deb/SUITE/ ($HM_BUILD instead of build, if set); the suite's
own lintian must find neither errors nor warnings. By root: see tools/debian_root.py.

As a module: build().
"""
from __future__ import annotations

import email.utils
import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence

import debian_root
import sources

# What packages of a release are called: 0.2.0~deb12u1 gives way to 0.2.0~deb13u1 when the
# machine is upgraded, and both to a 0.2.0 of Debian's own.
SUFFIXES = {"bookworm": "~deb12u1", "trixie": "~deb13u1"}
BUILDER = "builder"
# dpkg-buildpackage's own default is one job. What is told of symbols is for debuggers.
OPTIONS = f"nocheck noautodbgsym parallel={os.cpu_count() or 1}"
# On a real file system, as overlayfs wants it.
SCRATCH = os.environ.get("HM_TEST_DIR") or "/var/tmp"


class Failed(Exception):
    """No packages; the text says why, and what to do."""


def build_depends() -> list[str]:
    """Names only: what is not the version that is wanted, dpkg-buildpackage refuses."""
    control = (sources.TOP / "debian/control").read_text(encoding="utf-8")
    field = re.search(r"(?m)^Build-Depends:((?:.*\n)(?: .*\n)*)", control)[1]
    return re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9.+-]+)", field)


def base(suite: str) -> pathlib.Path:
    return debian_root.base(suite, ["build-essential", "lintian", *build_depends()])


def for_suite(suite: str, tree: pathlib.Path) -> str:
    """The changelog of a source tree becomes that of a suite; returns the version."""
    changelog = tree / "debian/changelog"
    text = changelog.read_text(encoding="utf-8")
    version = re.match(r"hugemap \(([^)]+)\) unstable;", text)[1]
    for name in ("meson.build", "python/meson.build"):
        said = re.search(r"^  version: '(.*)',$", (tree / name).read_text(encoding="utf-8"), re.M)[1]
        if said != version:
            raise Failed(f"debian/changelog is of version {version}, {name} of {said}: make them the same, "
                         "and commit")
    version += SUFFIXES[suite]
    changelog.write_text(re.sub(r"^hugemap \(.*\) unstable;", f"hugemap ({version}) {suite};", text, count=1),
                         encoding="utf-8")
    # dpkg makes what is newer than the changelog as old as that; what is older, too, is
    # different wherever it came from.
    date = re.search(r"^ -- .*>  (.*)$", text, re.M)[1]
    since = email.utils.parsedate_to_datetime(date).timestamp()
    for path in [tree, *tree.rglob("*")]:
        if path.lstat().st_mtime < since:
            os.utime(path, (since, since), follow_symlinks=False)
    return version


def build(suite: str, source: pathlib.Path, to: pathlib.Path, *, lint: bool = True, user: str = BUILDER,
          where: str = "/build", env: dict[str, str] | None = None) -> list[pathlib.Path]:
    """Build a source tree; what comes out, with a log, lies in `to` afterwards.

    Where in the root it is built, by whom and with which variables makes no difference.
    """
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    log = to / "build.log"
    with tempfile.TemporaryDirectory(prefix="hugemap-deb-", dir=SCRATCH) as work, \
            debian_root.Machine(base(suite), SCRATCH) as machine:
        # The directory around it stays root's: the builder's number is somebody's here, too.
        place = pathlib.Path(work) / "place"
        tree = place / "hugemap"
        shutil.copytree(source, tree, symlinks=True)
        version = for_suite(suite, tree)
        machine.run(f"useradd --create-home {user}; chown -R {user} {where}", binds={place: where})

        def step(what: str, command: str) -> None:
            done = machine.run(f"cd {where}/hugemap; {command}", user=user, binds={place: where}, check=False,
                               env={"DEB_BUILD_OPTIONS": OPTIONS, **(env or {})})
            with open(log, "a", encoding="utf-8") as file:
                file.write(done.stdout)
            if done.returncode:
                raise Failed(f"{what} for {suite} failed; the last lines of {log}:\n"
                             f"{debian_root.last_lines(done.stdout)}")

        step("dpkg-buildpackage", "dpkg-buildpackage --no-sign")
        if lint:
            step("lintian", f"lintian --fail-on error,warning --tag-display-limit 0 "
                            f"../hugemap_{version}_*.changes")
        for path in place.iterdir():
            if path.is_file() and not path.is_symlink():
                shutil.copyfile(path, to / path.name)
    return sorted(to.glob("*.deb"))


def main(suites: Sequence[str]) -> int:
    debian_root.end_on_signals()
    unknown = set(suites) - set(SUFFIXES)
    if unknown:
        print(f"There is no suite {unknown.pop()} here: SUITE can be {' or '.join(SUFFIXES)}.",
              file=sys.stderr)
        return 2
    if os.geteuid():
        print("Only root can make the bare systems that packages are built in: sudo make deb\n"
              "As you are, on Debian with the Build-Depends of debian/control installed:\n"
              "    dpkg-buildpackage -b --no-sign", file=sys.stderr)
        return 1
    out = pathlib.Path(os.environ.get("HM_BUILD") or sources.TOP / "build").absolute() / "deb"
    suites = suites or list(SUFFIXES)
    with tempfile.TemporaryDirectory(prefix="hugemap-deb-", dir=SCRATCH) as work:
        source = pathlib.Path(work) / "source"
        print(f"packages of {sources.committed(source)}, for {' and '.join(suites)}", flush=True)
        status = 0
        for suite in suites:
            try:
                for path in build(suite, source, out / suite):
                    print(os.path.relpath(path), flush=True)
            except (Failed, debian_root.Failed, debian_root.Unavailable) as error:
                print(f"{suite}: {error}", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
