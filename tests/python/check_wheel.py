#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Check the wheel that `make wheel` makes: its tags, its contents, and that it works alone.

    check_wheel.py

The build uses tools from PyPI. Exit status 77: PyPI cannot be reached.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, os.fspath(HERE.parent))

import cases  # noqa: E402

SOURCE = pathlib.Path(os.environ.get("SOURCE_ROOT", HERE.parent.parent))
OUT = pathlib.Path(os.environ.get("BUILD_ROOT", SOURCE / "build")).absolute() / "wheel"
PYTHON = os.environ.get("HM_PYTHON", "/usr/bin/python3")
UNREACHABLE = 3  # the exit status of tools/build-wheel.sh then

# The libraries of glibc, and the loader.
LIBC = re.compile(r"(libc|libm|libpthread|librt|libdl|ld-linux[\w-]*)\.so\.\d+")

USE = """
import pathlib, sys
import numpy
import hugemap
from hugemap import _hugemap

path, site = sys.argv[1], sys.argv[2]
assert _hugemap.__file__.startswith(site), _hugemap.__file__
array = hugemap.memmap(path, dtype="<i8", mode="w+", shape=(700000,))
array[:] = numpy.arange(700000)
array[5] = -1
array.flush()
del array
again = hugemap.memmap(path, dtype="<i8", mode="r")
assert again.shape == (700000,)
wanted = numpy.arange(700000)
wanted[5] = -1
assert (again == wanted).all()
assert (numpy.fromfile(path, "<i8") == wanted).all()
maps = pathlib.Path("/proc/self/maps").read_text()
assert "_hugemap.abi3.so" in maps
assert "libhugemap.so" not in maps
hugemap.install()
assert "/hugemap/libhugemap-run.so" in pathlib.Path("/proc/self/maps").read_text()
print(again.stat().engine, again.stat().reason)
"""


def run(*command, **how):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


def test_the_tag_fits_the_wheel(wheel, tree):
    assert re.fullmatch(r"hugemap-[\d.]+-cp311-abi3-manylinux_2_\d+_\w+\.whl", wheel.name)
    [meta] = tree.glob("*.dist-info")
    tags = re.findall(r"(?m)^Tag: (.*)$", (meta / "WHEEL").read_text())
    assert ["hugemap", meta.name.split("-")[1].removesuffix(".dist"), *tags[0].split("-")] == \
        wheel.stem.split("-") and len(tags) == 1, tags
    metadata = (meta / "METADATA").read_text()
    assert "\nRequires-Python: >=3.11\n" in metadata
    # The page of the package on PyPI.
    assert "\nDescription-Content-Type: text/markdown\n" in metadata
    assert "\n\n# HugeMap for Python\n" in metadata and "\nKeywords: mmap," in metadata


def test_it_has_the_files_of_the_package(_, tree):
    libraries = {str(file.relative_to(tree)) for file in tree.rglob("*") if ".so" in file.name}
    assert libraries == {"hugemap/_hugemap.abi3.so", "hugemap/libhugemap-run.so"}
    for file in (SOURCE / "python" / "hugemap").glob("*.py*"):
        assert (tree / "hugemap" / file.name).read_bytes() == file.read_bytes()
    licenses = {file.name for file in tree.glob("*.dist-info/licenses/*")}
    assert licenses == {"GPL-2.0-only.txt", "MIT.txt"}


def test_it_needs_only_allowed_libraries(_, tree):
    module = tree / "hugemap" / "_hugemap.abi3.so"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", module))
    assert "libc.so.6" in needed
    alien = [name for name in needed if not LIBC.fullmatch(name)]
    assert not alien, alien
    assert not re.search(r"\((RPATH|RUNPATH)\)", run("readelf", "-d", module))


def test_it_uses_only_the_stable_abi(_, tree):
    """By the headers of Python; tools/build-wheel.sh runs abi3audit."""
    listed = run("nm", "-D", "--undefined-only", tree / "hugemap" / "_hugemap.abi3.so")
    used = set(re.findall(r"(?m)^ +[Uw] (_?Py\w+)", listed))
    assert len(used) > 30, listed
    headers = run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('include'))").strip()
    known = run("cc", "-E", "-P", "-I", headers, "-DPy_LIMITED_API=0x030b0000",
                "-DPY_SSIZE_T_CLEAN", "-include", "Python.h", "-x", "c", "/dev/null")
    unknown = used - set(re.findall(r"\w+", known))
    assert not unknown, unknown


def test_a_second_build_has_the_same_bytes(wheel, tree):
    """Built in another directory, at another time."""
    [again] = (tree.parent / "again").glob("*.whl")
    assert again.name == wheel.name and again.read_bytes() == wheel.read_bytes()


def test_it_works_in_a_new_environment(wheel, tree):
    """In a new environment without a compiler."""
    place = tree.parent / "venv"
    run(PYTHON, "-m", "venv", place)
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("PYTHON", "LD_", "PKG_CONFIG"))}
    env["PATH"] = str(place / "bin")
    python = place / "bin" / "python"
    run(python, "-c", "import shutil; assert not any(map(shutil.which, ['cc', 'gcc', 'meson']))",
        env=env)
    run(python, "-m", "pip", "install", "--only-binary", ":all:", wheel, env=env)
    file = pathlib.Path(os.environ.get("HM_TEST_DIR", "/var/tmp")) / f"wheel-{os.getpid()}"
    try:
        print(run(python, "-c", USE, file, place, env=env, cwd="/").strip())
    finally:
        file.unlink(missing_ok=True)


def build(out, **env):
    return subprocess.Popen([SOURCE / "tools" / "build-wheel.sh", out], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **env})


def check(place):
    elsewhere = place / "a" / "longer" / "name"
    elsewhere.mkdir(parents=True)
    one = build(OUT)
    time.sleep(3)  # the times in a zip file have a resolution of 2 s
    two = build(place / "again", TMPDIR=str(elsewhere))
    outputs = [one.communicate()[0], two.communicate()[0]]
    if UNREACHABLE in (one.returncode, two.returncode):
        print(*outputs, sep="\n", file=sys.stderr)
        print("skipped: PyPI cannot be reached: it has the tools that make a wheel")
        return 77
    if one.returncode or two.returncode:
        print(*outputs, sep="\n", file=sys.stderr)
        return 1
    [wheel] = OUT.glob("*.whl")
    assert str(wheel) in outputs[0]
    zipfile.ZipFile(wheel).extractall(place / "tree")
    tell = cases.Cases()
    for test in (test_the_tag_fits_the_wheel, test_it_has_the_files_of_the_package,
                 test_it_needs_only_allowed_libraries, test_it_uses_only_the_stable_abi,
                 test_a_second_build_has_the_same_bytes, test_it_works_in_a_new_environment):
        with tell.case("wheel_" + test.__name__):
            test(wheel, place / "tree")
    return tell.status()


def main():
    with tempfile.TemporaryDirectory() as place:
        return check(pathlib.Path(place))


if __name__ == "__main__":
    sys.exit(main())
