# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A guest under QEMU that does what it is told over a serial port.

Two ports: the kernel's console, and the one that `init` talks on. What both say is
read line by line; a guest that says nothing in time is killed. Its disks are sparse
files in a scratch directory that is gone when the guest is.
"""
import os
import pathlib
import re
import selectors
import shutil
import socket
import subprocess
import tempfile
import time

from kernels import Kernel, Unavailable

# Anything of the kind in the kernel's log fails the test that it came with.
SPLAT = re.compile(
    r"\bBUG:|WARNING:|KASAN:|UBSAN:|kernel BUG at|Kernel panic|Oops:|general protection fault"
    r"|unable to handle|INFO: possible |INFO: task .* blocked|INFO: rcu.*(stall|detected)"
    r"|suspicious RCU usage|possible recursive locking|possible circular locking|inconsistent lock"
    r"|bad rss-counter|Bad page (state|map)|refcount_t:|Objects remaining|still has objects"
    r"|DEBUG_LOCKS_WARN_ON|list_(add|del) corruption|cut here|soft lockup|hard LOCKUP",
    re.IGNORECASE,
)
BOOT_S = 120
ATTEMPTS = 4


class Died(Exception):
    """The guest ended, or was killed because it did not answer."""


def qemu_version() -> int:
    """The major version, 0 without QEMU."""
    try:
        said = subprocess.run(["qemu-system-x86_64", "--version"], stdout=subprocess.PIPE, text=True).stdout
    except FileNotFoundError:
        return 0
    match = re.search(r"version (\d+)", said)
    return int(match[1]) if match else 0


def acceleration() -> list[str]:
    """$HM_ACCEL: `tcg`, as a default, runs everywhere; `kvm` is much faster where it works."""
    version = qemu_version()
    if not version:
        raise Unavailable("no QEMU (package qemu-system-x86)")
    if os.environ.get("HM_ACCEL") == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    # With several threads QEMU 7.2 crashes guests now and then.
    return ["-accel", "tcg" + (",thread=single" if version < 8 else ""), "-cpu", "max"]


def make_disk(path: pathlib.Path, size: int, kind: str = "", tree: pathlib.Path | None = None) -> None:
    """A sparse file, with a file system made by this machine's mkfs; ext4 may get a copy of a tree."""
    with open(path, "wb") as file:
        file.truncate(size)
    if kind == "ext4":
        command = ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
        command += [*(["-d", str(tree)] if tree else []), str(path)]
    elif kind == "xfs":
        command = ["mkfs.xfs", "-q", "-f", str(path)]
    else:
        return
    program = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not program:
        raise Unavailable(f"no {command[0]}")
    subprocess.run([program, *command[1:]], check=True, stdout=subprocess.DEVNULL)


def command_line(
    kernel: Kernel,
    initrd: pathlib.Path,
    memory_mb: int,
    disks: dict[str, pathlib.Path],
    append: str = "",
    counted: bool = False,
    cpus: int = 0,
) -> list[str]:
    """QEMU's, but for where the serial ports lead.

    counted: one CPU whose time stamp counter counts instructions; cpus: 0 = as many as here.
    """
    words = ["qemu-system-x86_64", "-m", str(memory_mb)]
    if counted:
        # sleep=off: time jumps over what the guest waits for.
        words += ["-accel", "tcg", "-cpu", "max", "-smp", "1", "-icount", "shift=0,sleep=off"]
    else:
        words += [*acceleration(), "-smp", str(cpus or os.cpu_count() or 1)]
    words += ["-nodefaults", "-display", "none", "-nic", "none", "-no-reboot"]
    words += ["-kernel", str(kernel.image), "-initrd", str(initrd)]
    for serial, path in disks.items():
        # What a guest's disk holds need not survive this machine's power cut.
        words += ["-drive", f"if=none,id={serial},file={path},format=raw,cache=unsafe,discard=unmap"]
        words += ["-device", f"virtio-blk-pci,drive={serial},serial={serial}"]
    # The watchdogs allow for a busy host; an oops ends the guest at once.
    if "quiet" not in append:
        append += " ignore_loglevel"
    append += " console=ttyS0 panic=-1 oops=panic rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60"
    append += " random.trust_cpu=on mitigations=off nokaslr"
    return [*words, "-append", append.strip()]


class Guest:
    def __init__(
        self,
        kernel: Kernel,
        initrd: pathlib.Path,
        memory_mb: int = 2048,
        disks: dict[str, tuple[int, str] | pathlib.Path] | None = None,
        append: str = "",
        counted: bool = False,
        cpus: int = 0,
        more: list[str] | None = None,
    ) -> None:
        """Boot it, and return once `init` speaks.

        disks: name: (size, file system) for a new one, or an image that stays; append: for
        the kernel; counted, cpus: see command_line(); more: words for QEMU.
        """
        self.kernel = kernel
        self.console: list[str] = []  # lines of the kernel's log so far
        self.scratch = make_scratch()
        self.process: subprocess.Popen | None = None
        self.boot_s = 0.0
        try:
            files = {}
            for name, disk in (disks or {}).items():
                if isinstance(disk, pathlib.Path):
                    files[name] = disk
                    continue
                files[name] = self.scratch / name
                make_disk(files[name], *disk)
            command = command_line(kernel, initrd, memory_mb, files, append, counted, cpus) + (more or [])
            for attempt in range(ATTEMPTS):
                try:
                    self._start(command)
                    break
                except Died as error:
                    # Only a guest whose init never spoke is given another chance.
                    self.kill()
                    if attempt == ATTEMPTS - 1:
                        last = "\n".join(self.console[-30:])
                        raise Died(f"{error}; the last it said while it started:\n{last}") from error
        except BaseException:
            self.close()
            raise

    def _start(self, command: list[str]) -> None:
        begin = time.monotonic()
        self.console = []
        self.selector = selectors.DefaultSelector()
        self.partial = {"console": b"", "agent": b""}
        self.answers: list[str] = []
        listeners = {}
        words = list(command)
        for name in ("console", "agent"):
            path = self.scratch / f"{name}.socket"
            path.unlink(missing_ok=True)
            listeners[name] = socket.socket(socket.AF_UNIX)
            listeners[name].bind(os.fspath(path))
            listeners[name].listen(1)
            listeners[name].settimeout(30)
            words += ["-chardev", f"socket,id={name},path={path}", "-serial", f"chardev:{name}"]
        self.log = open(self.scratch / "qemu.log", "w+", encoding="utf-8", errors="replace")
        # It must not outlive us, whatever ends us.
        words = ["setpriv", "--pdeathsig", "KILL", *words]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.sockets = {}
            for name, listener in listeners.items():
                self.sockets[name] = listener.accept()[0]
                self.sockets[name].setblocking(False)
                self.selector.register(self.sockets[name], selectors.EVENT_READ, name)
        except TimeoutError:
            raise Died(f"QEMU did not start: {self.qemu_said()}") from None
        finally:
            for listener in listeners.values():
                listener.close()
        deadline = time.monotonic() + BOOT_S * (5 if self.kernel.slow else 1)
        while not self.read_answer(deadline).startswith("@@ up"):
            pass
        self.boot_s = time.monotonic() - begin

    def qemu_said(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read().strip() or "nothing was said"

    def _read(self, seconds: float) -> bool:
        """Take what the ports have to say, or wait for it. False: nothing in time."""
        events = self.selector.select(max(seconds, 0))
        for key, _ in events:
            try:
                data = key.fileobj.recv(65536)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                self.selector.unregister(key.fileobj)
                if not self.selector.get_map():
                    self.kill()
                    raise Died(f"the guest ended (QEMU: {self.qemu_said()})")
                continue
            *lines, self.partial[key.data] = (self.partial[key.data] + data).split(b"\n")
            into = self.console if key.data == "console" else self.answers
            said = [line.decode(errors="replace").rstrip("\r") for line in lines]
            into += said
            self.follow(said)
        return bool(events)

    @staticmethod
    def follow(said: list[str]) -> None:
        """$HM_VM_LOG: a file in which a test of an hour can be watched."""
        path = os.environ.get("HM_VM_LOG")
        if path and said:
            with open(path, "a", encoding="utf-8") as log:
                log.writelines(line + "\n" for line in said)

    def read_answer(self, deadline: float) -> str:
        """The next line that init says."""
        while not self.answers:
            if not self._read(deadline - time.monotonic()):
                self.kill()
                raise Died("the guest did not answer in time and was killed")
        return self.answers.pop(0)

    def wait_console(self, text: str, since: int, seconds: float) -> None:
        """Wait until the kernel's log has text after line `since`; not for ever."""
        deadline = time.monotonic() + seconds
        while not any(text in line for line in self.console[since:]):
            if not self._read(deadline - time.monotonic()):
                return

    def ask(self, command: str, seconds: float, lines: list[str] | None = None) -> str:
        """Send a command, return what stands after "@@"; lines gets those before it."""
        deadline = time.monotonic() + seconds
        data = command.encode() + b"\n"
        # No faster than a serial port of 16 bytes takes them in without an overrun.
        for start in range(0, len(data), 16):
            self.sockets["agent"].setblocking(True)
            try:
                self.sockets["agent"].sendall(data[start : start + 16])
            except OSError as error:
                raise Died(f"the guest ended (QEMU: {self.qemu_said()})") from error
            finally:
                self.sockets["agent"].setblocking(False)
        while True:
            line = self.read_answer(deadline)
            if line.startswith("@@"):
                return line[2:].strip()
            if lines is not None:
                lines.append(line)

    def wait_end(self, seconds: float) -> bool:
        """Wait until it has powered off. False: not in time; it is killed."""
        deadline = time.monotonic() + seconds
        try:
            while self._read(deadline - time.monotonic()):
                pass
        except Died:
            return True
        self.kill()
        return False

    def kill(self) -> None:
        process, self.process = self.process, None
        if process:
            process.kill()
            process.wait()

    def close(self) -> None:
        self.kill()
        for sock in getattr(self, "sockets", {}).values():
            sock.close()
        if hasattr(self, "log"):
            self.log.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_scratch() -> pathlib.Path:
    """A new scratch directory; those of runs that were killed are removed."""
    parent = scratch_parent()
    for old in pathlib.Path(parent).glob("hugemap-vm-*"):
        pid = old.name.split("-")[2]
        if not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(old, ignore_errors=True)
    return pathlib.Path(tempfile.mkdtemp(prefix=f"hugemap-vm-{os.getpid()}-", dir=parent))


def scratch_parent() -> str:
    """Where disks fit: not in memory, if there is a choice."""
    for path in (os.environ.get("HM_TEST_DIR"), "/var/tmp"):
        if path and os.access(path, os.W_OK):
            return path
    return tempfile.gettempdir()
