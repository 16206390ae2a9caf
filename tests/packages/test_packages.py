#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The packages of `make deb`, in bare systems: test_packages.py SUITE

The packages build, lintian accepts them, and (on trixie) a second build elsewhere gives the same
bytes. In a minimal root with their dependencies and a compiler everything works, and a purge
restores the root. On trixie, dkms builds the module for the newest kernel.
"""
import filecmp
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [os.fspath(HERE.parent), os.fspath(HERE.parents[1] / "tools")]

import build_deb
import cases
import debian_root
import sources

# The suite whose dkms builds the module, and the series of its newest kernel, which -backports has.
# On Debian 12, dkms builds a small module in the test module-install-dkms. The tests vm and
# module-6.12 build the whole module.
KERNELS = {"trixie": "7"}
# The suite whose packages are built twice. debian/rules is the same for both.
BUILT_AGAIN = "trixie"
DKMS = "hugemap-dkms"
PACKAGES = [DKMS, "hugemap", "libhugemap-dev", "libhugemap0", "python3-hugemap"]
# To build programs with the packages.
COMPILER = ["gcc", "libc6-dev", "pkgconf"]
# Files that dpkg and apt always change.
KEPT_BY_TOOLS = re.compile(
    r"var/lib/dpkg/(status|status-old|available|available-old|lock|lock-frontend|triggers/.*|diversions.*)|"
    r"var/lib/apt/(lists/|extended_states|periodic).*|var/cache/(apt|debconf|ldconfig|man)/.*|"
    r"var/log/(dpkg\.log|alternatives\.log|apt/.*)")


def names(packages: list[pathlib.Path]) -> list[str]:
    return [path.name.split("_")[0] for path in packages]


def arch_packages(packages: list[pathlib.Path]) -> list[pathlib.Path]:
    return [path for path in packages if not path.name.startswith(DKMS)]


def depends(packages: list[pathlib.Path]) -> list[str]:
    """Names of packages that these packages depend on."""
    fields = [subprocess.run(["dpkg-deb", "-f", path, field], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
              for path in packages for field in ("Pre-Depends", "Depends")]
    found = {re.match(r"[a-z0-9.+-]+", entry.strip())[0] for field in fields for entry in field.split(",")
             if entry.strip()}
    return sorted(found - set(names(packages)))


def debs(machine: debian_root.Machine, packages: list[pathlib.Path]) -> dict[pathlib.Path, str]:
    """Binds that show packages to a machine below /run/debs."""
    directory = machine.scratch / "debs"
    directory.mkdir(exist_ok=True)
    for path in packages:
        shutil.copyfile(path, directory / path.name)
    return {directory: "/run/debs"}


def install(machine: debian_root.Machine, packages: list[pathlib.Path]) -> None:
    """Install by apt. It must install no other package: the root has all dependencies."""
    output = machine.run("apt-get install -y -q --no-install-recommends /run/debs/*.deb",
                       binds=debs(machine, packages)).stdout
    new = re.search(r"NEW packages will be installed:\n((?:  .*\n)+)", output)[1].split()
    assert sorted(new) == sorted(names(packages)), output


def difference(now: pathlib.Path, before: pathlib.Path) -> str:
    """The difference of a file from before; "" = none."""
    mark = now.lstat()
    if stat.S_ISCHR(mark.st_mode) and mark.st_rdev == 0:  # overlayfs marks deleted files so
        return "is gone" if os.path.lexists(before) else ""
    if not os.path.lexists(before):
        return "is new"
    old = before.lstat()
    if (mark.st_mode, mark.st_uid, mark.st_gid) != (old.st_mode, old.st_uid, old.st_gid):
        return "has another owner or mode"
    if stat.S_ISLNK(mark.st_mode) and os.readlink(now) != os.readlink(before):
        return "has another target"
    if stat.S_ISREG(mark.st_mode) and not filecmp.cmp(now, before, shallow=False):
        return "has other contents"
    return ""


def changes(machine: debian_root.Machine) -> set[str]:
    """The differences of the root from its base."""
    found = set()
    for where, directories, files in os.walk(machine.upper):
        for name in directories + files:
            path = pathlib.Path(where) / name
            relative = os.fspath(path.relative_to(machine.upper))
            what = "" if KEPT_BY_TOOLS.fullmatch(relative) else difference(path, machine.base / relative)
            if what:
                found.add(f"/{relative} {what}")
    return found


def check_nothing_stays(machine: debian_root.Machine, before: set[str]) -> None:
    stayed = changes(machine) - before
    assert not stayed, "\n".join(sorted(stayed))


def try_build(tell: cases.Cases, suite: str, source: pathlib.Path, out: pathlib.Path) -> list[pathlib.Path]:
    packages = []
    with tell.case(f"{suite}_packages_and_lintian"):
        packages += build_deb.build(suite, source, out)
        assert names(packages) == PACKAGES, packages
        # An upgrade installs the package of the next release; Debian's own replaces both.
        version = packages[0].name.split("_")[1]
        assert version.endswith(build_deb.SUFFIXES[suite]), version
        order = [version.split("~")[0] + suffix for suffix in (*build_deb.SUFFIXES.values(), "")]
        for older, newer in zip(order, order[1:]):
            subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True)
    return packages


def try_again(tell: cases.Cases, suite: str, source: pathlib.Path, packages: list[pathlib.Path]) -> None:
    """Build as another user, in another directory, at another time."""
    with tell.case(f"{suite}_built_again_same_bytes"):
        first = packages[0].parent
        again = first.with_name("again")
        for path in source.rglob("*"):
            os.utime(path, follow_symlinks=False)
        build_deb.build(suite, source, again, lint=False, user="another", where="/srv/somewhere/else",
                        env={"TZ": "Asia/Kathmandu", "LC_ALL": "C", "HOME": "/nonexistent"})
        made = [path for path in sorted(first.iterdir()) if path.suffix in (".deb", ".xz", ".dsc")]
        assert len(made) == len(packages) + 2, made
        differ = [path.name for path in made if not filecmp.cmp(path, again / path.name, shallow=False)]
        assert not differ, f"not the same: {differ}"


def try_installed(tell: cases.Cases, suite: str, packages: list[pathlib.Path]) -> None:
    packages = arch_packages(packages)
    base = debian_root.base(suite, COMPILER + depends(packages))
    with tempfile.TemporaryDirectory(prefix="hugemap-packages-", dir=build_deb.SCRATCH) as work, \
            debian_root.Machine(base, build_deb.SCRATCH) as machine:
        binds = {HERE.parents[1] / "debian" / "tests": "/run/tests", work: "/run/work", **debs(machine, packages)}
        machine.run(["true"], binds=binds)
        before = changes(machine)
        with tell.case(f"{suite}_installed"):
            install(machine, packages)
        for what in ("command", "library", "python", "run"):
            with tell.case(f"{suite}_{what}_works"):
                print(machine.run(f"/run/tests/installed {what}", binds=binds,
                                  env={"TMPDIR": "/run/work"}).stdout)
        with tell.case(f"{suite}_purged_and_nothing_stays"):
            machine.run(f"apt-get purge -y -q {' '.join(names(packages))}")
            check_nothing_stays(machine, before)


def headers_known(base: pathlib.Path, series: str) -> list[str]:
    """Packages with headers of a series of kernels, the oldest first."""
    with debian_root.Machine(base, build_deb.SCRATCH) as machine:
        known = machine.run("apt-cache pkgnames linux-headers-").stdout.split()
    found = [name for name in known
             if re.fullmatch(rf"linux-headers-{re.escape(series)}\.\S*-cloud-\w+", name)]
    return sorted(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def headers(suite: str, series: str) -> str:
    found = headers_known(debian_root.base(suite), series)
    # The package lists of the root may be older than the kernel.
    found = found or headers_known(debian_root.base(suite, renew=True), series)
    assert found, f"{suite} has no headers of Linux {series}"
    return found[-1]


def try_dkms(tell: cases.Cases, suite: str, packages: list[pathlib.Path]) -> None:
    packages = [path for path in packages if path.name.startswith(DKMS)]
    version = packages[0].name.split("_")[1].split("~")[0]
    wanted = [headers(suite, KERNELS[suite])] if suite in KERNELS else []
    releases = [name.removeprefix("linux-headers-") for name in wanted]
    with debian_root.Machine(debian_root.base(suite, depends(packages) + wanted), build_deb.SCRATCH) as machine:
        # Like a machine that has the kernel, not only its headers.
        machine.run("; ".join(["true", *(f"depmod {release}" for release in releases)]),
                    binds=debs(machine, packages))
        before = changes(machine)
        with tell.case(f"{suite}_dkms_installed"):
            install(machine, packages)
            output = machine.run("dkms status hugemap").stdout
            assert releases or output == f"hugemap/{version}: added\n", output
        for release in releases:
            with tell.case(f"{suite}_dkms_built"):
                # If apt has built it already, dkms only reports that.
                machine.run(f"dkms build hugemap/{version} -k {release}")
                output = machine.run("dkms status hugemap").stdout
                assert re.search(rf"^hugemap/{version}, {re.escape(release)}, \w+: (built|installed)$",
                                 output, re.M), output
                magic = machine.run(f"modinfo -F vermagic $(find /var/lib/dkms/hugemap/{version}/{release} "
                                    "-name 'hugemap.ko*')").stdout
                assert magic.split()[0] == release, magic
        with tell.case(f"{suite}_dkms_purged_and_nothing_stays"):
            machine.run(f"apt-get purge -y -q {DKMS}")
            check_nothing_stays(machine, before)


def main() -> int:
    suite = sys.argv[1]
    debian_root.end_on_signals()
    tell = cases.Cases()
    try:
        with tempfile.TemporaryDirectory(prefix="hugemap-packages-", dir=build_deb.SCRATCH) as scratch:
            source = pathlib.Path(scratch) / "source"
            sources.working(source)
            packages = try_build(tell, suite, source, pathlib.Path(scratch) / "first")
            if packages and not tell.failed:
                try_installed(tell, suite, packages)
                try_dkms(tell, suite, packages)
                if suite == BUILT_AGAIN:
                    try_again(tell, suite, source, packages)
    except debian_root.Unavailable as error:
        print(f"skipped: {error}")
        return 77
    return tell.status()


if __name__ == "__main__":
    sys.exit(main())
