#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The RPM spec and the PKGBUILD: rpmlint and shellcheck accept them, and they build the packages.

The tools of Debian build them here, without optimization, in a temporary directory.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [os.fspath(HERE.parent), os.fspath(TOP / "tools")]

import cases
import sources

VERSION = re.search(r"^  version: '(.*)',$", (TOP / "meson.build").read_text(encoding="utf-8"), re.M)[1]
NOBODY = 65534
# Macros that Debian's rpm lacks, with the meaning that they have in Fedora.
MACROS = """
%dist .test
%debug_package %{nil}
%optflags -O0
%_vpath_builddir build-rpm
%python3_sitearch /usr/lib/python3/dist-packages
%meson CFLAGS="%{optflags}" meson setup --prefix=%{_prefix} --libdir=%{_libdir} --sbindir=%{_sbindir} \\\\\\
	--libexecdir=%{_libexecdir} %{_vpath_builddir}
%meson_build meson compile -C %{_vpath_builddir}
%meson_install DESTDIR=%{buildroot} meson install -C %{_vpath_builddir} --no-rebuild
%systemd_post() :
%systemd_preun() :
"""
# Files of packages, in the directories of RPM and of Arch.
EXPECTED = {
    "hugemap": ["bin/hugemap", "lib/systemd/system/hugemap-attach@.service", "mount.hugemap",
                "libhugemap-run.so", "man1/hugemap-attach.1", "report.py", "LICENSES/MIT.txt"],
    "python": ["hugemap/__init__.py", "_hugemap.abi3.so", f"hugemap-{VERSION}.dist-info/METADATA"],
    "dkms": [f"src/hugemap-{VERSION}/dkms.conf", f"src/hugemap-{VERSION}/Kbuild",
             f"src/hugemap-{VERSION}/kernel/cache/cache.h", f"src/hugemap-{VERSION}/include/hugemap_ioctl.h"],
}


def run(*words: str | os.PathLike, **how) -> str:
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **how)
    assert done.returncode == 0, f"{words[0]}: exit status {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout


def check_expected(kind: str, files: list[str]) -> None:
    for wanted in EXPECTED[kind]:
        wanted = wanted.replace("LICENSES/", "")
        assert any(wanted in name for name in files), f"{kind}: no {wanted} in {files}"


def try_rpm(tell: cases.Cases, work: pathlib.Path, archive: pathlib.Path) -> None:
    spec = TOP / "packaging/hugemap.spec"
    with tell.case("rpmlint_accepts_the_spec"):
        output = run("rpmlint", "--strict", "-r", TOP / "packaging/hugemap.rpmlintrc", spec)
        assert "0 errors, 0 warnings" in output, output
    with tell.case("rpmbuild_makes_packages_of_all_installed_files"):
        (work / "macros").write_text(MACROS, encoding="utf-8")
        (work / "SOURCES").mkdir()
        shutil.copy(archive, work / "SOURCES")
        run("rpmbuild", "-bb", "--nodeps", "--quiet", "--load", work / "macros", "--define", f"_topdir {work}", spec)
        packages = {path.name.rsplit("-", 2)[0]: path for path in work.glob("RPMS/*/*.rpm")}
        assert sorted(packages) == ["hugemap", "hugemap-devel", "hugemap-dkms", "hugemap-libs", "python3-hugemap"]
        files = {name: run("rpm", "-qlp", path).split() for name, path in packages.items()}
        for kind, name in (("hugemap", "hugemap"), ("python", "python3-hugemap"), ("dkms", "hugemap-dkms")):
            check_expected(kind, files[name])
        assert "/usr/include/hugemap.h" in files["hugemap-devel"]
        assert f"/usr/lib64/libhugemap.so.{VERSION}" in files["hugemap-libs"]
        needed = run("rpm", "-qRp", packages["hugemap"])
        assert "libjansson.so.4" in needed and "python3" not in needed, needed
        # The package is built without hugemap-ycsb, so it needs no store.
        assert not re.search("lmdb|rocksdb", needed), needed
        assert "libhugemap.so.0" in run("rpm", "-qRp", packages["python3-hugemap"])


def try_arch(tell: cases.Cases, work: pathlib.Path, archive: pathlib.Path) -> None:
    script = TOP / "packaging/PKGBUILD"
    with tell.case("shellcheck_accepts_the_pkgbuild"):
        # makepkg reads the variables, and sets those that are not set here.
        run("shellcheck", "-s", "bash", "-e", "SC2034,SC2154", script)
    with tell.case("makepkg_makes_packages"):
        work.chmod(0o755)
        for path in (script, archive):
            shutil.copy(path, work)
        as_user = []
        if not os.geteuid():  # makepkg refuses to run as root
            for path in (work, *work.iterdir()):
                os.chown(path, NOBODY, NOBODY)
            as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        # There is no pacman, and no package of Arch.
        run(*as_user, "makepkg", "--nodeps", cwd=work,
            env={**os.environ, "HOME": os.fspath(work), "PACMAN": "true", "CFLAGS": "-O0"})
        for kind, name in (("hugemap", "hugemap"), ("python", "python-hugemap"), ("dkms", "hugemap-dkms")):
            [path] = work.glob(f"{name}-{VERSION}-1-*.pkg.tar.*")
            with tarfile.open(path) as file:
                files = file.getnames()
            check_expected(kind, files)
            # Arch has no sbin and no libexec.
            assert not [name for name in files if re.search("sbin|libexec|dist-info.*None", name)], files


def main() -> int:
    tell = cases.Cases()
    with tempfile.TemporaryDirectory(prefix="hugemap-packages-", dir="/var/tmp") as scratch:
        work = pathlib.Path(scratch)
        work.chmod(0o755)
        sources.working(work / f"hugemap-{VERSION}")
        archive = work / f"hugemap-{VERSION}.tar.gz"
        run("tar", "-C", work, "-czf", archive, f"hugemap-{VERSION}")
        for name, attempt in (("rpm", try_rpm), ("arch", try_arch)):
            (work / name).mkdir()
            attempt(tell, work / name, archive)
    return tell.status()


if __name__ == "__main__":
    sys.exit(main())
