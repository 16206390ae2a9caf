#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Build Debian packages of the last commit: build_deb.py [SUITE...]

For each suite (default: bookworm and trixie) it builds the packages in a bare root directory
that has only the Build-Depends, and puts them into build/deb/SUITE/ ($HM_BUILD/deb/SUITE/, if
set). The suite's lintian must find no errors and no warnings. Needs root: see
tools/debian_root.py.

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

# Suffixes of versions. An upgraded machine replaces 0.2.0~deb12u1 by 0.2.0~deb13u1, and both by
# a 0.2.0 of Debian itself.
SUFFIXES = {"bookworm": "~deb12u1", "trixie": "~deb13u1"}
BUILDER = "builder"
# The default of dpkg-buildpackage is one job. No packages with debug symbols are built.
OPTIONS = f"nocheck noautodbgsym parallel={os.cpu_count() or 1}"
# Overlayfs needs a file system that supports upper directories.
SCRATCH = os.environ.get("HM_TEST_DIR") or "/var/tmp"


class Failed(Exception):
    """The packages cannot be built; the text has the reason and the remedy."""


def build_depends() -> list[str]:
    """The names in Build-Depends; dpkg-buildpackage checks the versions."""
    control = (sources.TOP / "debian/control").read_text(encoding="utf-8")
    field = re.search(r"(?m)^Build-Depends:((?:.*\n)(?: .*\n)*)", control)[1]
    return re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9.+-]+)", field)


def base(suite: str) -> pathlib.Path:
    return debian_root.base(suite, ["build-essential", "lintian", *build_depends()])


def for_suite(suite: str, tree: pathlib.Path) -> str:
    """Turn the changelog of a source tree into that of a suite; return the version."""
    changelog = tree / "debian/changelog"
    text = changelog.read_text(encoding="utf-8")
    version = re.match(r"hugemap \(([^)]+)\) unstable;", text)[1]
    for name in ("meson.build", "python/meson.build"):
        other = re.search(r"^  version: '(.*)',$", (tree / name).read_text(encoding="utf-8"), re.M)[1]
        if other != version:
            raise Failed(f"debian/changelog has version {version}, {name} has {other}: make them equal, "
                         "and commit")
    version += SUFFIXES[suite]
    changelog.write_text(re.sub(r"^hugemap \(.*\) unstable;", f"hugemap ({version}) {suite};", text, count=1),
                         encoding="utf-8")
    # dpkg clamps times of files to that of the changelog. Older times would still differ from
    # build to build, so raise them to the same time.
    date = re.search(r"^ -- .*>  (.*)$", text, re.M)[1]
    since = email.utils.parsedate_to_datetime(date).timestamp()
    for path in [tree, *tree.rglob("*")]:
        if path.lstat().st_mtime < since:
            os.utime(path, (since, since), follow_symlinks=False)
    return version


def build(suite: str, source: pathlib.Path, to: pathlib.Path, *, lint: bool = True, user: str = BUILDER,
          where: str = "/build", env: dict[str, str] | None = None) -> list[pathlib.Path]:
    """Build a source tree; put the packages and a log into `to`.

    The directory in the root, the user and the variables have no effect on the packages.
    """
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    log = to / "build.log"
    with tempfile.TemporaryDirectory(prefix="hugemap-deb-", dir=SCRATCH) as work, \
            debian_root.Machine(base(suite), SCRATCH) as machine:
        # Build in a subdirectory. The UID of the builder may be that of a user of this machine; the
        # directory above, which only root can enter, keeps that user out.
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
        print(f"Unknown suite {unknown.pop()}: SUITE can be {' or '.join(SUFFIXES)}.",
              file=sys.stderr)
        return 2
    if os.geteuid():
        print("The bare systems in which packages are built need root: sudo make deb\n"
              "As a user on Debian with the Build-Depends of debian/control installed:\n"
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
