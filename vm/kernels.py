#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Find or fetch a kernel for guests, and print its paths: kernels.py NAME [--renew]

NAME is a series (6.1, 6.12, 7.2, or 7 for the newest 7.x) or `debug` (see debug-kernel.sh).
Debian's cloud kernels and their headers are fetched once and unpacked in ~/.cache/hugemap
or $HM_CACHE. Nothing is installed. Exits with 77 and a reason if the kernel is not available.
"""
import dataclasses
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, os.fspath(HERE.parent / "tools"))

from debian_root import cache  # noqa: E402

SERIES = ("6.1", "6.12", "7")


class Unavailable(Exception):
    """A kernel, or a program that it needs, is not available."""


@dataclasses.dataclass
class Kernel:
    name: str  # the NAME of the command line
    release: str  # uname -r
    image: pathlib.Path  # for QEMU
    modules: pathlib.Path  # lib/modules/RELEASE
    root: pathlib.Path | None  # root directory with the compiler; None: this machine's
    kdir: str  # the kernel's build directory, as a path inside root
    slow: bool = False  # the debug kernel


def by_version(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def of_series(releases: list[str], series: str) -> list[str]:
    """The releases of a series, oldest first."""
    return sorted((r for r in releases if re.match(re.escape(series) + r"[.\-]", r)), key=by_version)


def run(*command: str | os.PathLike, **kwargs) -> str:
    return subprocess.run(
        [os.fspath(word) for word in command],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    ).stdout


def newest_packaged(series: str) -> str | None:
    try:
        names = run("apt-cache", "pkgnames", f"linux-headers-{series}").split()
    except (OSError, subprocess.CalledProcessError):
        return None
    found = [re.match(r"linux-headers-(\d.*-cloud-amd64)$", name) for name in names]
    # `6.1-cloud-amd64` is a metapackage.
    releases = [match[1] for match in found if match and not match[1].startswith(series + "-")]
    return (of_series(releases, series) or [None])[-1]


def unpack(series: str, where: pathlib.Path) -> str:
    """Download the newest kernel of a series and unpack it in where/RELEASE."""
    release = newest_packaged(series)
    if not release and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-q"], stdout=subprocess.DEVNULL, check=False)
        release = newest_packaged(series)
    if not release:
        raise Unavailable(f"apt knows no cloud kernel {series}")

    new = where / f"{release}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        # The packages of the common headers and of the build tools.
        depends = run("apt-cache", "depends", f"linux-headers-{release}")
        wanted = [f"linux-image-{release}", f"linux-headers-{release}"]
        wanted += sorted(set(re.findall(r"Depends: (linux-(?:headers-\S*common|kbuild-\S+))", depends)))
        for attempt in (1, 2):
            try:
                run("apt-get", "download", "-q", *wanted, cwd=new)
                break
            except subprocess.CalledProcessError as error:
                if attempt == 2 or os.geteuid():
                    last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
                    raise Unavailable(f"{wanted[0]} cannot be downloaded: {last}") from error
                # The package lists may be out of date.
                subprocess.run(["apt-get", "update", "-q"], stdout=subprocess.DEVNULL, check=False)
        for package in new.glob("*.deb"):
            run("dpkg-deb", "-x", package, new)
            package.unlink()
        run("depmod", "-b", new, release)
        # The makefiles include files of /usr/src.
        for makefile in new.glob("usr/src/*/Makefile"):
            text = makefile.read_text()
            makefile.write_text(text.replace("include /usr/src/", f"include {where / release}/usr/src/"))
        # vmlinux is for BTF in modules only, which nothing here uses.
        for vmlinux in new.glob("usr/src/*/vmlinux"):
            vmlinux.unlink()
        shutil.rmtree(where / release, ignore_errors=True)
        new.rename(where / release)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return release


def packaged(name: str, renew: bool) -> Kernel:
    where = cache() / "kernels"
    where.mkdir(parents=True, exist_ok=True)
    with open(where / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the result
        have = of_series([path.name for path in where.iterdir() if path.suffix != ".new"], name)
        if have and not renew:
            release = have[-1]
        else:
            release = unpack(name, where)
    top = where / release
    return Kernel(
        name,
        release,
        image=top / "boot" / f"vmlinuz-{release}",
        modules=top / "lib" / "modules" / release,
        root=None,
        kdir=f"{top}/usr/src/linux-headers-{release}",
    )


def from_script(script: str, *args: str) -> pathlib.Path:
    """Run a script of vm/ that makes a directory; return the path that it prints."""
    done = subprocess.run([HERE / script, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no reason given"]
        raise Unavailable(re.sub(r"^skipped: ", "", words[-1]))
    return pathlib.Path(done.stdout.strip().splitlines()[-1])


def of_trixie(name: str, renew: bool) -> Kernel:
    root = from_script("trixie-root.sh", *(["--renew"] if renew else []))
    releases = of_series((root / "kernel" / "releases").read_text().split(), name)
    if not releases:
        raise Unavailable(f"trixie-backports has no kernel {name}")
    release = releases[-1]
    return Kernel(
        name,
        release,
        image=root / "kernel" / "boot" / f"vmlinuz-{release}",
        modules=root / "kernel" / "lib" / "modules" / release,
        root=root,
        kdir=f"/usr/src/linux-headers-{release}",
    )


def debug(renew: bool) -> Kernel:
    build = from_script("debug-kernel.sh", *(["--renew"] if renew else []))
    release = (build / "include" / "config" / "kernel.release").read_text().strip()
    return Kernel(
        "debug",
        release,
        image=build / "arch" / "x86" / "boot" / "bzImage",
        modules=build / "lib" / "modules" / release,
        root=None,
        kdir=os.fspath(build),
        slow=True,
    )


def get(name: str, renew: bool = False) -> Kernel:
    """Find a kernel, or fetch it. Raises Unavailable with the reason.

    renew: look for a newer one.
    """
    if name == "debug":
        return debug(renew)
    if not re.fullmatch(r"\d+(\.\d+)?", name):
        raise Unavailable(f"there is no kernel {name}: 6.1, 6.12, 7, 7.2 ... or debug")
    try:
        find = of_trixie if int(name.split(".")[0]) >= 7 else packaged
        return find(name, renew)
    except FileNotFoundError as error:
        raise Unavailable(f"no program {error.filename}") from error


def build_module(
    kernel: Kernel, out: pathlib.Path, source: pathlib.Path | None = None, race: bool = False
) -> pathlib.Path:
    """Build hugemap.ko for a kernel; raises CalledProcessError if it does not build."""
    command = [HERE.parent / "tools" / "build-module.sh"]
    if kernel.root:
        command += ["--root", kernel.root]
    if source:
        command += ["--source", source]
    if race:
        command += ["--race"]
    subprocess.run([os.fspath(word) for word in [*command, kernel.kdir, out]], check=True)
    return out / "hugemap.ko"


def main() -> int:
    args = [arg for arg in sys.argv[1:] if arg != "--renew"]
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        kernel = get(args[0], "--renew" in sys.argv)
    except Unavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77
    for field in dataclasses.fields(kernel):
        print(f"{field.name}={getattr(kernel, field.name) or ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
