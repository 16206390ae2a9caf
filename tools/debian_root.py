#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Bare Debian systems for tests and builds: debian_root.py SUITE [COMMAND...]

Makes a minimal root directory of a release (bookworm, trixie) by mmdebstrap, from the mirror
in this machine's configuration of apt, and prints its path. It is kept in ~/.cache/hugemap, or
$HM_CACHE, for a week. With a COMMAND, runs it as root in a temporary copy, which has no
software of this machine.

As a module: base() and Machine. Exits with 77 and a reason if no root can be made.
"""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

WEEK = 7 * 24 * 3600
LOCK_TIMEOUT = 900  # seconds that another process may take to make a root
SUITES = ("bookworm", "trixie")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
TAIL = 30  # last lines that are printed of a failed command
# Variables that let a program reach the package registries like this machine.
PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
             "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT")
CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
CERTIFICATES_INSIDE = "/run/hugemap-certificates.crt"  # where no package has a file
APT_PASSED_ON = re.compile(r'^(Acquire::(?:https?::Proxy(?:::\S+)?|Check-Valid-Until|Check-Date)) "(.+)";$')
# When this process ends for any reason, the kernel kills its children and their children.
TIED = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child",
        "--propagation", "private"]

# Runs in new mount and PID name spaces, so that no mount and no process survives it. /dev has no
# disk, and /sys is read-only.
ENTER = r"""
set -e
root=$1 lower=$2 scratch=$3 certificates=$4
shift 4
mount -t overlay -o "lowerdir=$lower,upperdir=$scratch/upper,workdir=$scratch/work" root "$root"
mount --bind "$scratch/archives" "$root/var/cache/apt/archives"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
for name in @DEVICES@; do
	# A new node of the same device: its permissions are independent of the machine's.
	[ ! -c "/dev/$name" ] || cp -a "/dev/$name" "$root/dev/$name"
done
bind() {
	if [ -d "$1" ]; then
		mkdir -p "$root$2"
	else
		mkdir -p "$root$(dirname "$2")"
		[ -e "$root$2" ] || : >"$root$2"
	fi
	mount --bind "$1" "$root$2"
}
bind /etc/resolv.conf /etc/resolv.conf
[ ! -f /etc/pip.conf ] || bind /etc/pip.conf /etc/pip.conf
[ -z "$certificates" ] || bind "$certificates" @CERTIFICATES@
while [ "$1" != -- ]; do
	bind "$1" "$2"
	shift 2
done
shift
exec chroot "$root" "$@"
""".replace("@DEVICES@", " ".join(DEVICES)).replace("@CERTIFICATES@", CERTIFICATES_INSIDE)


class Unavailable(Exception):
    """No root can be made here; the text has the reason."""


class Failed(Exception):
    """A command in a root failed; the text has its last lines."""


def cache() -> pathlib.Path:
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("HM_CACHE") or default / "hugemap")


def mirrors() -> tuple[str, str]:
    """The mirrors of Debian and of its security updates ("": none) that apt uses."""
    try:
        output = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable("apt-get is missing, or has no mirror") from error
    known = dict(reversed([line.split(" ", 1) for line in output.splitlines() if " " in line]))
    if "Debian" not in known:
        raise Unavailable("apt has no Debian mirror (apt-get update may help)")
    return known["Debian"], known.get("Debian-Security", "")


def sources(suite: str) -> list[str]:
    debian, security = mirrors()
    # apt installs from backports only packages that the release lacks.
    lines = [f"deb {debian} {suite}{part} main" for part in ("", "-updates", "-backports")]
    if security:
        lines.append(f"deb {security} {suite}-security main")
    return lines


def apt_options() -> list[str]:
    """The options of this machine's apt that concern access to its mirror."""
    output = subprocess.run(["apt-config", "dump"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [APT_PASSED_ON.match(line) for line in output.splitlines()]
    return [f'{match[1]} "{match[2]}"' for match in found if match]


def last_lines(text: str) -> str:
    return "\n".join("    " + line for line in text.rstrip().splitlines()[-TAIL:])


def make(suite: str, include: Sequence[str], root: pathlib.Path) -> None:
    """Make a root; after a failure there is no partial one."""
    if os.geteuid():
        raise Unavailable("only root can make root directories of other systems")
    if not shutil.which("mmdebstrap"):
        raise Unavailable("no mmdebstrap (package mmdebstrap)")
    new = root.with_name(root.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    # The root is temporary, so dpkg need not wait for the disk. Its mounts are private.
    words = [*TIED, "--mount-proc", "mmdebstrap", "--quiet", "--variant=minbase", "--mode=root",
             "--dpkgopt=force-unsafe-io",
             "--skip=cleanup/apt/lists", '--aptopt=Acquire::Languages "none"']
    words += [f"--aptopt={option}" for option in apt_options()]
    if include:
        words.append("--include=" + ",".join(include))
    words += [suite, os.fspath(new), *sources(suite)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        shutil.rmtree(new, ignore_errors=True)
        raise Unavailable(f"mmdebstrap could not make a root of {suite}:\n{last_lines(done.stdout)}")
    shutil.rmtree(root, ignore_errors=True)
    new.rename(root)


def name_of(suite: str, include: Sequence[str]) -> str:
    if not include:
        return suite
    return suite + "-" + hashlib.sha256(",".join(sorted(include)).encode()).hexdigest()[:8]


def age(root: pathlib.Path) -> float:
    return time.time() - root.stat().st_ctime


def fresh(root: pathlib.Path) -> bool:
    return root.exists() and age(root) < WEEK


def archives(suite: str) -> pathlib.Path:
    """The directory of downloaded packages for roots of this suite."""
    path = cache() / "archives" / suite
    path.mkdir(parents=True, exist_ok=True)
    return path


def lock_of(root: pathlib.Path) -> pathlib.Path:
    return root.with_name(root.name + ".lock")


@contextlib.contextmanager
def locked(path: pathlib.Path, how: int, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold a lock; BlockingIOError if other processes still hold it after `timeout` seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="ascii") as file:
        until, printed = time.monotonic() + timeout, False
        while True:
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
            if not printed:
                print(f"debian_root.py: waiting for {path}, up to {timeout:.0f} s", file=sys.stderr)
                printed = True
            time.sleep(0.5)
        yield


def base(suite: str, include: Sequence[str] = (), renew: bool = False) -> pathlib.Path:
    """The root directory of a suite, with the packages of `include`; made if it is missing.

    No process writes into it: see Machine. Raises Unavailable.
    """
    root = cache() / "roots" / name_of(suite, include)
    if fresh(root) and not renew:
        return root
    # A user of a root holds its lock, so the root is not replaced while it is in use.
    try:
        with locked(lock_of(root), fcntl.LOCK_EX, 0 if root.exists() else LOCK_TIMEOUT):
            if fresh(root) and not renew:
                return root  # another process has made it
            if renew_or_keep(suite, include, root):
                sweep()
    except BlockingIOError as error:
        if not root.exists():
            raise Unavailable(f"another process still makes {root} (it holds {lock_of(root)})") from error
    return root


def renew_or_keep(suite: str, include: Sequence[str], root: pathlib.Path) -> bool:
    """Make the root; True if that succeeds. If it fails and an old root exists, keep that one."""
    old = root.exists()
    try:
        make(suite, include, root)
    except Unavailable:
        if not old:
            raise
        print(f"debian_root.py: {root.name} is older than a week and could not be renewed", file=sys.stderr)
        return False
    if not include:
        # Machines have their own links to these files.
        shutil.rmtree(archives(suite), ignore_errors=True)
    return True


def sweep() -> None:
    """Remove roots that were not renewed for two weeks: their lists of packages are obsolete."""
    for root in (cache() / "roots").iterdir():
        if not root.is_dir() or root.suffix or age(root) < 2 * WEEK:
            continue
        with contextlib.suppress(BlockingIOError), locked(lock_of(root), fcntl.LOCK_EX, 0):
            shutil.rmtree(root, ignore_errors=True)


class Machine:
    """A temporary system that starts as a copy of `base`; changes persist from run to run.

    `scratch` is a directory on a file system that overlayfs accepts for its upper layer.
    """

    def __init__(self, base: pathlib.Path, scratch: pathlib.Path | str | None = None) -> None:
        self.base = base
        self.suite = base.name.split("-")[0]
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="hugemap-root-", dir=scratch or "/var/tmp"))
        for name in ("root", "upper", "work", "archives"):
            (self.scratch / name).mkdir()
        self.upper = self.scratch / "upper"  # differences from base; valid while no command runs
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> Machine:
        try:
            self.stack.enter_context(locked(lock_of(self.base), fcntl.LOCK_SH))
            if not self.base.exists():
                raise Unavailable(f"{self.base} was too old and has been removed: try again")
            self.bring_archives()
            probe = self.run(["true"], check=False)
            if probe.returncode:
                raise Unavailable(f"no root directory can be entered here:\n{last_lines(probe.stdout)}")
        except BlockingIOError as error:
            self.__exit__()
            raise Unavailable(f"another process still makes {self.base}") from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        self.stack.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def environment(self, user: str | None, env: Mapping[str, str]) -> tuple[dict[str, str], str]:
        certificates = next((os.environ[name] for name in CERTIFICATES
                             if os.path.isfile(os.environ.get(name, ""))), "")
        words = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        words |= {name: CERTIFICATES_INSIDE for name in CERTIFICATES if certificates}
        words |= {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": f"/home/{user}" if user else "/root",
            "USER": user or "root",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        return words | dict(env), certificates

    def run(
        self,
        command: Sequence[str | os.PathLike] | str,
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        binds: Mapping[str | os.PathLike, str] | None = None,
        check: bool = True,
        timeout: float = 900,
        output: int | None = subprocess.PIPE,
    ) -> subprocess.CompletedProcess:
        """Run words, or a line for sh; the output of both streams is in .stdout.

        user: the user in the root, root by default; binds: {path here: path in the root}.
        Raises Failed unless check is false.
        """
        words = ["sh", "-ec", command] if isinstance(command, str) else [os.fspath(w) for w in command]
        if user:
            words = ["runuser", "-u", user, "--", *words]
        environ, certificates = self.environment(user, env or {})
        enter = [*TIED, "sh", "-c", ENTER, "sh", self.scratch / "root", self.base, self.scratch, certificates]
        for outside, inside in (binds or {}).items():
            enter += [outside, inside]
        try:
            done = subprocess.run([os.fspath(word) for word in [*enter, "--", *words]], env=environ,
                                  stdin=subprocess.DEVNULL if output else None, stdout=output,
                                  stderr=subprocess.STDOUT if output else None, text=True,
                                  errors="replace", timeout=timeout)
        except subprocess.TimeoutExpired as error:
            output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout
            raise Failed(f"{' '.join(words)}: not done after {timeout} s\n{last_lines(output or '')}") from error
        self.keep_archives()
        if check and done.returncode:
            raise Failed(f"{' '.join(words)}: exit status {done.returncode}\n{last_lines(done.stdout or '')}")
        return done

    def bring_archives(self) -> None:
        """Link the packages that apt has downloaded before into the scratch directory."""
        for package in archives(self.suite).glob("*.deb"):
            with contextlib.suppress(OSError):  # another file system: apt downloads it again
                os.link(package, self.scratch / "archives" / package.name)

    def keep_archives(self) -> None:
        """Keep packages that apt has downloaded for the next machine; no reader sees a partial one."""
        for package in (self.scratch / "archives").glob("*.deb"):
            target = archives(self.suite) / package.name
            partial = target.with_name(f"{package.name}.{os.getpid()}")
            # Another process may renew the cache now; then the package is downloaded again.
            with contextlib.suppress(OSError):
                if not target.exists() or target.stat().st_size != package.stat().st_size:
                    shutil.copyfile(package, partial)
                    partial.rename(target)

    def install(self, *packages: str) -> None:
        """Install by apt with the package lists of the root; if these are too old, with new ones."""
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
        if self.run(command, check=False).returncode:
            self.run(["apt-get", "update", "-q"])
            self.run(command)


def end_on_signals() -> None:
    """Exit on signals, so that the program removes its temporary files."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *unused: sys.exit(1))


def main() -> int:
    end_on_signals()
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        root = base(sys.argv[1])
        if len(sys.argv) == 2:
            print(root)
            return 0
        with Machine(root) as machine:
            return machine.run(sys.argv[2:], check=False, output=None, timeout=None).returncode
    except Unavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77


if __name__ == "__main__":
    sys.exit(main())
