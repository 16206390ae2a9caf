#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Install the Python package as `pip install ./python` does, and run its tests.

    run.py [PYTEST ARGUMENTS]

It uses Debian's packages and downloads nothing. It installs below the build directory
(BUILD_ROOT), which keeps the object files. Each test is reported in cmocka's form.
HM_PYTHON names the interpreter; the default is /usr/bin/python3 if it has all packages of
NEEDED, otherwise the interpreter of this script. Exit status 77: neither has them.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("SOURCE_ROOT", HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get("BUILD_ROOT", SOURCE / "build")).absolute() / "python"
NEEDED = "pip mesonpy numpy pytest"


def find_python():
    given = os.environ.get("HM_PYTHON")
    for python in [given] if given else ["/usr/bin/python3", sys.executable]:
        code = f"import {NEEDED.replace(' ', ', ')}"
        if os.path.exists(python) and not subprocess.run(
                [python, "-c", code], stderr=subprocess.DEVNULL).returncode:
            return python
    return None


def pip_install(python, site):
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
         "--no-build-isolation", "--disable-pip-version-check",
         f"--config-settings=builddir={BUILD / 'meson'}", "--target", site, SOURCE / "python"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # meson-python of Debian 12 leaves this file in the source directory.
    (SOURCE / "python" / ".mesonpy-native-file.ini").unlink(missing_ok=True)
    return done


def install(python, site):
    """Install into a separate directory, not among the packages of the system or the user."""
    shutil.rmtree(site, ignore_errors=True)
    kept = (BUILD / "meson").exists()
    (BUILD / "meson").mkdir(parents=True, exist_ok=True)
    done = pip_install(python, site)
    if done.returncode and kept:
        # It reads the names of files before it builds, and fails if they have changed.
        shutil.rmtree(BUILD / "meson")
        (BUILD / "meson").mkdir()
        done = pip_install(python, site)
    if done.returncode:
        print(done.stdout)
        sys.exit("run.py: the package could not be installed: see above")


def name_of(case):
    module = case.get("classname").split(".")[0]
    return re.sub(r"\W+", "_", f"{module}_{case.get('name')}").strip("_")


def report(results):
    """Print each test in cmocka's form, with the reason of a skip."""
    for case in xml.etree.ElementTree.parse(results).iter("testcase"):
        name = name_of(case)
        print(f"[ RUN      ] {name}")
        skipped = case.find("skipped")
        if skipped is not None:
            print(f"skipped: {skipped.get('message')}")
            print(f"[  SKIPPED ] {name}")
        elif case.find("failure") is not None or case.find("error") is not None:
            print(f"[  FAILED  ] {name}")
        else:
            print(f"[       OK ] {name}")


def main():
    python = find_python()
    if not python:
        print(f"skipped: no Python here has all of: {NEEDED}")
        return 77
    site, results = BUILD / "site", BUILD / "results.xml"
    install(python, site)
    results.unlink(missing_ok=True)
    env = {**os.environ, "PYTHONPATH": str(site), "SOURCE_ROOT": str(SOURCE),
           "TMPDIR": os.environ.get("HM_TEST_DIR", "/var/tmp")}
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=120",
         f"--junitxml={results}", f"--rootdir={HERE}", *(sys.argv[1:] or [HERE])],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=env, cwd=HERE)
    if results.exists():
        report(results)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
