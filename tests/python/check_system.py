#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Check the module of -Dlibrary=system, which distributions build: it is linked to the
libhugemap of BUILD_ROOT, uses only its public functions, and works. install() finds the library of
`hugemap run` beside it.

    check_system.py
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("SOURCE_ROOT", HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get("BUILD_ROOT", SOURCE / "build")).absolute()

USE = """
import sys
import hugemap
array = hugemap.memmap(sys.argv[1], dtype="u1", mode="w+", shape=(3000000,))
array[:] = 7
array.flush()
assert open(sys.argv[1], "rb").read() == b"\\7" * 3000000
assert open("/proc/self/maps").read().count("/libhugemap.so.0") > 1
hugemap.install()
assert "/lib/hugemap/libhugemap-run.so" in open("/proc/self/maps").read()
"""


def run(*command, **how):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)
    if done.returncode:
        sys.exit(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("HM_TEST_DIR", "/var/tmp")) as place:
        place = pathlib.Path(place)
        env = {**os.environ, "PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled")}
        native = place / "native.ini"
        native.write_text("[binaries]\npython = '/usr/bin/python3'\n")
        run("meson", "setup", place / "build", SOURCE / "python", f"--native-file={native}",
            "-Dlibrary=system", f"-Dc_args=-I{SOURCE / 'include'}", env=env)
        built = run("ninja", "-C", place / "build")
        assert "warning:" not in built, built
        run("meson", "install", "-C", place / "build", "--destdir", place / "root")
        [module] = (place / "root").rglob("_hugemap.abi3.so")

        dynamic = run("readelf", "-d", module)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        assert "libhugemap.so.0" in needed, needed
        assert "RUNPATH" not in dynamic and "RPATH" not in dynamic, dynamic
        symbols = run("nm", "-D", module)
        used = set(re.findall(r"(?m)^ +U (hugemap_\w+)", symbols))
        public = set(re.findall(r"(?m)^\t\t(hugemap_\w+);",
                                (SOURCE / "lib" / "libhugemap.map").read_text()))
        assert "hugemap_map" in used and used <= public, used - public
        # It contains no copy of the library.
        own = set(re.findall(r"(?m)^\w+ [Tt] (hugemap_\w+)", run("nm", module))) & public
        assert not own, own

        (place / "lib" / "hugemap").mkdir(parents=True)
        shutil.copy(BUILD / "libhugemap.so.0", place / "lib")
        shutil.copy(BUILD / "libhugemap-run.so", place / "lib" / "hugemap")
        run("/usr/bin/python3", "-c", USE, place / "file", cwd="/",
            env={**os.environ, "PYTHONPATH": str(module.parent.parent),
                 "LD_LIBRARY_PATH": str(place / "lib")})


if __name__ == "__main__":
    main()
