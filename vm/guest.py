# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A guest under QEMU that runs commands from a serial port.

The first port is the kernel's console. Commands and answers go over the second one, to and
from `init`. A guest that does not answer in time is killed. Its disks are sparse files in a
scratch directory, which is removed with the guest.
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

# Such a line in the kernel's log fails the test that ran at that time.
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
    """The major version; 0: QEMU is not installed."""
    try:
        output = subprocess.run(["qemu-system-x86_64", "--version"], stdout=subprocess.PIPE, text=True).stdout
    except FileNotFoundError:
        return 0
    match = re.search(r"version (\d+)", output)
    return int(match[1]) if match else 0


def acceleration() -> list[str]:
    """The options for $HM_ACCEL: `tcg`, the default, runs everywhere; `kvm` is much faster."""
    version = qemu_version()
    if not version:
        raise Unavailable("no QEMU (package qemu-system-x86)")
    if os.environ.get("HM_ACCEL") == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    # QEMU 7.2 sometimes crashes guests that run in several threads.
    return ["-accel", "tcg" + (",thread=single" if version < 8 else ""), "-cpu", "max"]


def make_disk(path: pathlib.Path, size: int, kind: str = "", tree: pathlib.Path | None = None) -> None:
    """Make a sparse file with a file system. ext4 may get a copy of a directory tree."""
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
    """The command line of QEMU, without the serial ports.

    counted: one CPU whose time stamp counter counts instructions. cpus: 0: as many as the host.
    """
    words = ["qemu-system-x86_64", "-m", str(memory_mb)]
    if counted:
        # sleep=off: virtual time skips the periods in which the guest is idle.
        words += ["-accel", "tcg", "-cpu", "max", "-smp", "1", "-icount", "shift=0,sleep=off"]
    else:
        words += [*acceleration(), "-smp", str(cpus or os.cpu_count() or 1)]
    words += ["-nodefaults", "-display", "none", "-nic", "none", "-no-reboot"]
    words += ["-kernel", str(kernel.image), "-initrd", str(initrd)]
    for serial, path in disks.items():
        # The disk need not survive a power cut of the host: cache=unsafe.
        words += ["-drive", f"if=none,id={serial},file={path},format=raw,cache=unsafe,discard=unmap"]
        words += ["-device", f"virtio-blk-pci,drive={serial},serial={serial}"]
    # The timeouts of the watchdogs suit a busy host. An oops ends the guest at once.
    if "quiet" not in append:
        append += " ignore_loglevel"
    append += " console=ttyS0 panic=-1 oops=panic rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60"
    append += " random.trust_cpu=on mitigations=off nokaslr"
    # On a busy machine, emulated timer interrupts come late. The kernel would report a broken timer.
    append += " no_timer_check"
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
        """Boot, and return when `init` answers.

        disks: name: (size, file system) of a new disk, or an image that is kept. append: options
        of the kernel. counted, cpus: see command_line(). more: options of QEMU.
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
                    # init has not answered yet, so no test is lost: try again.
                    self.kill()
                    if attempt == ATTEMPTS - 1:
                        last = "\n".join(self.console[-30:])
                        raise Died(f"{error}; the end of the boot log:\n{last}") from error
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
        # QEMU must not outlive this process, even if that is killed.
        words = ["setpriv", "--pdeathsig", "KILL", *words]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.sockets = {}
            for name, listener in listeners.items():
                self.sockets[name] = listener.accept()[0]
                self.sockets[name].setblocking(False)
                self.selector.register(self.sockets[name], selectors.EVENT_READ, name)
        except TimeoutError:
            raise Died(f"QEMU did not start: {self.qemu_output()}") from None
        finally:
            for listener in listeners.values():
                listener.close()
        deadline = time.monotonic() + BOOT_S * (5 if self.kernel.slow else 1)
        while not self.read_answer(deadline).startswith("@@ up"):
            pass
        self.boot_s = time.monotonic() - begin

    def qemu_output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read().strip() or "no output"

    def _read(self, seconds: float) -> bool:
        """Read from the ports, or wait for that. False: there was no output in time."""
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
                    raise Died(f"the guest ended (QEMU: {self.qemu_output()})")
                continue
            *lines, self.partial[key.data] = (self.partial[key.data] + data).split(b"\n")
            into = self.console if key.data == "console" else self.answers
            decoded = [line.decode(errors="replace").rstrip("\r") for line in lines]
            into += decoded
            self.follow(decoded)
        return bool(events)

    @staticmethod
    def follow(lines: list[str]) -> None:
        """Append output to $HM_VM_LOG, which shows the progress of a long test."""
        path = os.environ.get("HM_VM_LOG")
        if path and lines:
            with open(path, "a", encoding="utf-8") as log:
                log.writelines(line + "\n" for line in lines)

    def read_answer(self, deadline: float) -> str:
        """The next line from init."""
        while not self.answers:
            if not self._read(deadline - time.monotonic()):
                self.kill()
                raise Died("the guest did not answer in time and was killed")
        return self.answers.pop(0)

    def wait_console(self, text: str, since: int, seconds: float) -> None:
        """Wait for a text in the kernel's log after line `since`, but no longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while not any(text in line for line in self.console[since:]):
            if not self._read(deadline - time.monotonic()):
                return

    def send(self, command: str) -> None:
        data = command.encode() + b"\n"
        # Send 16 bytes at a time: more would overrun the FIFO of the serial port.
        for start in range(0, len(data), 16):
            self.sockets["agent"].setblocking(True)
            try:
                self.sockets["agent"].sendall(data[start : start + 16])
            except OSError as error:
                raise Died(f"the guest ended (QEMU: {self.qemu_output()})") from error
            finally:
                self.sockets["agent"].setblocking(False)

    def ask(self, command: str, seconds: float, lines: list[str] | None = None) -> str:
        """Send a command and return its answer, the text after "@@". lines: gets its output."""
        deadline = time.monotonic() + seconds
        self.send(command)
        while True:
            line = self.read_answer(deadline)
            if line.startswith("@@"):
                return line[2:].strip()
            if lines is not None:
                lines.append(line)

    def wait_end(self, seconds: float) -> bool:
        """Wait until the guest powers off. False: it did not in time, and was killed."""
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
    """Make a scratch directory, and remove those of runs that were killed."""
    parent = scratch_parent()
    for old in pathlib.Path(parent).glob("hugemap-vm-*"):
        pid = old.name.split("-")[2]
        if not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(old, ignore_errors=True)
    return pathlib.Path(tempfile.mkdtemp(prefix=f"hugemap-vm-{os.getpid()}-", dir=parent))


def scratch_parent() -> str:
    """A directory with space for disks: preferably not on tmpfs."""
    for path in (os.environ.get("HM_TEST_DIR"), "/var/tmp"):
        if path and os.access(path, os.W_OK):
            return path
    return tempfile.gettempdir()
