# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Test that systemd mounts HugeMap at boot and unmounts it at shutdown.

One guest boots three times from the same disks. Data stored in one boot must be there in the
next boot, and in the lower file system while the guest is off.
"""
import array
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

import guest
import initramfs
import kernels

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, os.fspath(HERE.parent / "tools"))
import debian_root  # noqa: E402  pylint: disable=wrong-import-position

PACKAGES = ("systemd", "systemd-sysv", "udev", "mount", "kmod", "e2fsprogs")
MODULES = ["virtio_pci", "virtio_blk", "ext4"]
POWEROFF_S = 120
ASK_S = 90
BYTES = (6 << 20) + 12288
APPEND = "systemd.unit=test.target systemd.log_target=kmsg systemd.show_status=0"
FSTAB = """\
# /etc/fstab: mounts at boot.
#
# <file system>\t<mount point>   <type>  <options>       <dump>  <pass>
/dev/disk/by-id/virtio-root\t/\text4\terrors=remount-ro\t0\t0
/dev/disk/by-id/virtio-data   /data   ext4   defaults   0   0   # not checked
"""
TARGET = """\
[Unit]
Description=Units of the test
DefaultDependencies=no
Requires=local-fs.target
After=local-fs.target
Wants=systemd-udevd.service systemd-udev-trigger.service agent.service
AllowIsolate=yes
"""
AGENT = """\
[Unit]
Description=Runs commands of the host
DefaultDependencies=no
After=local-fs.target
[Service]
ExecStart=/opt/hugemap/agent
"""
# The guest has no journal; the output of services goes to the console.
MASKED = ["systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket"]
MASKED += ["systemd-journald-audit.socket", "systemd-journal-flush.service", "dev-hugepages.mount"]


class Failed(Exception):
    """A step found an error."""


def fill(
    archive: initramfs.Archive,
    kernel: kernels.Kernel,
    module: pathlib.Path,
    hugemap: pathlib.Path,
    store: pathlib.Path,
) -> None:
    """Fill an archive with the boot programs and with the files to install on the disk."""
    archive.program("busybox")
    archive.copy(HERE / "boot" / "init", "/init")
    archive.modules(kernel.modules, MODULES)

    def install(path: str, data: bytes | pathlib.Path | str, mode: int = 0o644) -> None:
        if isinstance(data, pathlib.Path):
            archive.copy(data, "/payload" + path)
        else:
            archive.data("/payload" + path, data.encode() if isinstance(data, str) else data, mode)

    tree = f"/usr/lib/modules/{kernel.release}"
    install(f"{tree}/updates/hugemap.ko", module)
    for name in ("modules.order", "modules.builtin.modinfo"):  # for depmod
        install(f"{tree}/{name}", kernel.modules / name)
    # The command keeps the libraries of this machine, the guest its own.
    opt = "/opt/hugemap"
    install(f"{opt}/hugemap", hugemap)
    install(f"{opt}/store", store)
    install(f"{opt}/agent", HERE / "boot" / "agent")
    for library in archive.libraries(os.fspath(hugemap)):
        name = os.path.basename(library)
        name = "loader" if name.startswith("ld-linux") else name
        install(f"{opt}/{name}", pathlib.Path(os.path.realpath(library)))
    run = f'#!/bin/sh\nexec {opt}/loader --argv0 "$0" --library-path {opt} {opt}/hugemap "$@"\n'
    install("/usr/bin/hugemap", run, 0o755)
    archive.link("/payload/usr/sbin/mount.hugemap", "/usr/bin/hugemap")
    install("/etc/fstab", FSTAB)
    # Without a machine ID, systemd treats every boot as the first one.
    install("/etc/machine-id", f"{1:032x}\n")
    install("/etc/systemd/system/test.target", TARGET)
    install("/etc/systemd/system/agent.service", AGENT)
    install("/etc/systemd/system.conf.d/test.conf", "[Manager]\nDefaultStandardOutput=tty\n")
    for unit in MASKED:
        archive.link(f"/payload/etc/systemd/system/{unit}", "/dev/null")
    for directory in ("/data", "/mnt/fast", "/mnt/unit", "/mnt/odd-unit 1%", "/mnt/dev", "/mnt/gone"):
        archive.directory("/payload" + directory)


def make_system(image: pathlib.Path) -> None:
    """A disk with Debian 12 and its systemd, without a kernel."""
    try:
        root = debian_root.base("bookworm", PACKAGES)
    except debian_root.Unavailable as error:
        raise kernels.Unavailable(str(error)) from error
    with debian_root.locked(debian_root.lock_of(root), fcntl.LOCK_SH):
        guest.make_disk(image, 1 << 30, "ext4", root)


def documented_unit(source: str, dir_: str) -> str:
    """The mount unit of hugemap(5), with other directories."""
    page = (HERE.parent / "man" / "hugemap.5").read_text()
    unit = page.split("mnt-fast.mount :\n.Bd -literal -offset indent\n")[1].split(".Ed")[0]
    if unit.count("/data\n") != 2 or unit.count("/mnt/fast\n") != 1 or unit.count("pool=4G,") != 1:
        raise Failed(f"the mount unit of hugemap(5) differs from the expected one:\n{unit}")
    return unit.replace("/data\n", source + "\n").replace("/mnt/fast\n", dir_ + "\n").replace("pool=4G", "pool=16M")


class Machine:
    """The guest, its disks and the steps. Each step is a test."""

    def __init__(self, kernel: kernels.Kernel, initrd: pathlib.Path) -> None:
        self.kernel, self.initrd = kernel, initrd
        self.guest: guest.Guest | None = None
        self.console: list[str] = []  # of earlier boots
        self.boots: list[float] = []
        self.scratch = guest.make_scratch()
        try:
            self.disks = {name: self.scratch / name for name in ("root", "data", "spare")}
            make_system(self.disks["root"])
            guest.make_disk(self.disks["data"], 256 << 20, "ext4")
            guest.make_disk(self.disks["spare"], 32 << 20)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.guest:
            self.guest.close()
        self.guest = None
        shutil.rmtree(self.scratch, ignore_errors=True)

    # --- the guest ---

    def boot(self) -> None:
        self.guest = guest.Guest(self.kernel, self.initrd, 512, self.disks, APPEND, cpus=1)
        self.boots.append(self.guest.boot_s)
        self.run("settle")

    def console_now(self) -> list[str]:
        """All output of the kernel and systemd so far."""
        return self.console + (self.guest.console if self.guest else [])

    def ask(self, command: str) -> tuple[int, str]:
        """The exit status and the output of a command."""
        lines: list[str] = []
        # Redirect the output to a file: on a terminal some programs overwrite lines.
        answer = self.guest.ask(f"( {command} ) </dev/null >/run/output 2>&1; report $?", ASK_S, lines)
        return int(answer), "\n".join(lines).removesuffix("\n")

    def run(self, command: str) -> str:
        status, output = self.ask(command)
        if status:
            raise Failed(f"{command}: exit status {status}\n{output}")
        return output

    def expect(self, command: str, *words: str) -> str:
        output = self.run(command)
        for word in words:
            if word not in output:
                raise Failed(f"{command}: does not print {word!r}\n{output}")
        return output

    def refuse(self, command: str, *words: str) -> None:
        """The command must fail, with these words in its output."""
        status, output = self.ask(command)
        if status != 1 or not all(word in output for word in words):
            raise Failed(f"{command}: exit status {status}, expected 1 and {', '.join(words)}\n{output}")

    def expect_exactly(self, command: str, wanted: str) -> None:
        output = self.run(command)
        if output != wanted:
            raise Failed(f"{command}: prints\n{output}\nexpected\n{wanted}")

    def power_off(self) -> list[str]:
        """Power off, and return the console output of the shutdown."""
        since = len(self.guest.console)
        self.run("systemctl poweroff")
        ended = self.guest.wait_end(POWEROFF_S)
        self.console += self.guest.console
        output = self.guest.console[since:]
        self.guest.close()
        self.guest = None
        if not ended or not any("Power down" in line for line in output):
            raise Failed("the guest did not power off; the end of its console:\n" + "\n".join(output[-30:]))
        return output

    # --- the disks, while the guest is off ---

    def check_disk(self, name: str, files: dict[str, int]) -> None:
        """Check that the file system was unmounted, and that files have the stored data."""
        disk = self.disks[name]
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        tools = {tool: shutil.which(tool, path=path) for tool in ("dumpe2fs", "debugfs")}
        head = subprocess.run([tools["dumpe2fs"], "-h", disk], capture_output=True, text=True, check=True).stdout
        if not re.search(r"Filesystem state: +clean\n", head) or "needs_recovery" in head:
            raise Failed(f"the file system of {name} was not unmounted")
        for file, seed in files.items():
            with tempfile.NamedTemporaryFile(dir=self.scratch) as out:
                dump = [tools["debugfs"], "-R", f"dump {file} {out.name}", disk]
                subprocess.run(dump, capture_output=True, check=True)
                check_numbers(out.read(), seed, f"{file} of {name}")

    def store(self, file: str, seed: int, size: int = BYTES) -> None:
        self.run(f"store {file} {seed} {size}")

    def check(self, file: str, seed: int, size: int = BYTES) -> None:
        self.run(f"store {file} {seed} {size} check")

    def check_mounted(self, directory: str, source: str) -> None:
        self.expect_exactly(f"findmnt -n -o FSTYPE,SOURCE {directory} | tr -s ' '", f"hugemap {source}")

    # --- the steps ---

    def first_boot(self) -> None:
        self.boot()
        self.expect_exactly("findmnt -n -o FSTYPE /data", "ext4")
        self.run("mkdir /data/a /data/b")
        self.expect_exactly("cat /etc/fstab; echo .", f"{FSTAB}.")
        if "hugemap" in self.run("cat /proc/modules"):
            raise Failed("the module is loaded before the first use")

    LINE = "/data/a /mnt/fast hugemap pool=64M,nofail,x-systemd.requires-mounts-for=/data/a 0 0"

    def add_line(self, arguments: str, line: str) -> None:
        """Add the printed line to /etc/fstab, as an administrator does."""
        self.run(f"sh -c 'hugemap mount --persist {arguments} >>/etc/fstab'")
        self.expect_exactly("tail -n 1 /etc/fstab", line)

    def persist_prints_a_line(self) -> None:
        command = "hugemap mount --persist -o pool=64M /data/a /mnt/fast"
        # The first user is not root. The check of the options must still load the module.
        for user in ("setpriv --reuid 65534 --regid 65534 --clear-groups ", ""):
            self.expect_exactly(f"{user}{command} 2>/run/message", self.LINE)
            self.expect("cat /run/message", "/etc/fstab", "systemctl daemon-reload")
            for options in ("64M,nonsense", "1M", "1000000M"):
                wrong = f"{user}{command.replace('64M', options)}"
                status, output = self.ask(wrong)
                mounted, wanted = self.ask(f"hugemap mount -o pool={options} /data/a /mnt/fast")
                if (status, output) != (1, wanted) or mounted != 1:
                    raise Failed(f"{wrong}: exit status {status}\n{output}\na mount: {mounted}\n{wanted}")
        self.expect_exactly("cat /etc/fstab; echo .", f"{FSTAB}.")
        self.expect_exactly("findmnt -n /mnt/fast || echo none", "none")
        self.add_line("-o pool=64M /data/a /mnt/fast", self.LINE)
        self.expect_exactly("findmnt --verify >/dev/null 2>&1; echo $?", "0")
        # systemd reads the line at the next boot. Until then, mount by hand.
        self.run("mount /mnt/fast")
        self.check_mounted("/mnt/fast", "/data/a")

    def shutdown_keeps_stores(self) -> None:
        self.store("/mnt/fast/first", 1)
        self.power_off()
        self.check_disk("data", {"a/first": 1})

    def second_boot_mounts(self) -> None:
        self.boot()
        self.check_mounted("/mnt/fast", "/data/a")
        unit = self.run("systemctl show mnt-fast.mount -p ActiveState -p After -p Requires -p RequiresMountsFor")
        wanted = [("ActiveState", "active"), ("After", "data.mount"), ("Requires", "data.mount")]
        for name, word in [*wanted, ("RequiresMountsFor", "/data/a")]:
            if not re.search(rf"(?m)^{name}=(.* )?{word}( |$)", unit):
                raise Failed(f"{name} lacks {word}:\n{unit}")
        self.check("/mnt/fast/first", 1)
        self.store("/mnt/fast/first", 2)

    def persist_prints_a_unit(self) -> None:
        self.run("mkdir '/data/odd %n \"b'")
        for source, directory in (("/data/b", "/mnt/unit"), ('/data/odd %n "b', "/mnt/odd-unit 1%")):
            command = f"hugemap mount --persist --unit -o pool=16M '{source}' '{directory}'"
            # The message names the file. systemd refuses a unit with another name.
            self.run(f"{command} >/run/unit 2>/run/message; "
                     "file=$(cut -d \"'\" -f 2 /run/message); "
                     'cp /run/unit "$file" && systemctl daemon-reload && systemctl enable --now "${file##*/}"')
            self.check_mounted(f"'{directory}'", source)
        self.expect_exactly("cat /etc/systemd/system/mnt-unit.mount; echo .",
                            documented_unit("/data/b", "/mnt/unit") + ".")
        self.store("/mnt/unit/second", 3)

    def shutdown_unmounts_in_order(self) -> None:
        real = self.run("realpath /dev/disk/by-id/virtio-spare")
        line = "/dev/disk/by-id/virtio-spare /mnt/dev hugemap pool=16M,nofail 0 0"
        self.add_line(f"-o pool=16M {real} /mnt/dev", line)
        self.run("systemctl daemon-reload; mount /mnt/dev")
        file = self.run("cd /mnt/dev; ls")
        self.store(f"/mnt/dev/{file}", 4, 4 << 20)
        self.run("mkdir '/data/to go'")
        # x-systemd.requires-mounts-for= cannot contain a blank: the option names the mount /data.
        line = "/data/to\\040go /mnt/gone hugemap pool=16M,nofail,x-systemd.requires-mounts-for=/data 0 0"
        self.add_line('-o pool=16M "/data/to go" /mnt/gone', line)
        self.run("rmdir '/data/to go'")
        output = self.power_off()
        below = next((at for at, line in enumerate(output) if "Unmounting data.mount" in line), 0)
        for unit in ("mnt-fast.mount", "mnt-unit.mount", r"mnt-odd\x2dunit\x201\x25.mount"):
            if not any(f"Unmounted {unit}" in line for line in output[:below]):
                raise Failed(f"{unit} was not unmounted before data.mount:\n" + "\n".join(output))
        self.check_disk("data", {"a/first": 2, "b/second": 3})
        with open(self.disks["spare"], "rb") as disk:
            check_numbers(disk.read(4 << 20), 4, "the device", 4 << 20)

    def third_boot_survives_a_failing_mount(self) -> None:
        self.boot()
        self.check_mounted("/mnt/fast", "/data/a")
        self.check_mounted("/mnt/unit", "/data/b")
        self.check_mounted("'/mnt/odd-unit 1%'", '/data/odd %n "b')
        self.check_mounted("/mnt/dev", self.run("realpath /dev/disk/by-id/virtio-spare"))
        self.check("/mnt/fast/first", 2)
        self.check("/mnt/unit/second", 3)
        # The source of one mount is missing. That mount fails, and the boot goes on.
        self.expect_exactly("findmnt -n /mnt/gone || echo none", "none")
        self.expect_exactly("systemctl show -P ActiveState mnt-gone.mount", "failed")
        self.expect_exactly("systemctl show -P ActiveState local-fs.target", "active")

    def stopping_the_lower_mount_stops_hugemap(self) -> None:
        self.store("/mnt/fast/first", 5)
        # Closing a device makes udev send an event, and then systemd may mount it again.
        for _ in range(5):
            output = self.run("systemctl stop data.mount; findmnt -n -t hugemap -o TARGET; "
                            "findmnt -n -o TARGET /data || echo none")
            if output == "/mnt/dev\nnone":
                break
        else:
            raise Failed(f"data.mount and the mounts above it do not stop; still mounted:\n{output}\n"
                         + self.run("systemctl list-jobs; systemctl status data.mount || true"))
        # The start of the upper mount starts the lower one.
        status, output = self.ask("systemctl start mnt-fast.mount && store /mnt/fast/first 5 "
                                  f"{BYTES} check")
        if status:
            state = self.ask("systemctl status data.mount mnt-fast.mount; systemctl list-jobs; dmesg | tail -n 30")
            raise Failed(f"mnt-fast.mount does not start, or has other data: {output}\n{state[1]}")

    def unmount_by_hand_keeps_stores(self) -> None:
        self.refuse("cd /mnt/fast && hugemap umount .", "is in use")
        self.check_mounted("/mnt/fast", "/data/a")
        self.run("hugemap umount /mnt/fast")
        self.expect_exactly("findmnt -n /mnt/fast || echo none", "none")
        self.power_off()
        self.check_disk("data", {"a/first": 5, "b/second": 3})

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        steps = [self.first_boot, self.persist_prints_a_line, self.shutdown_keeps_stores, self.second_boot_mounts]
        steps += [self.persist_prints_a_unit, self.shutdown_unmounts_in_order]
        steps += [self.third_boot_survives_a_failing_mount, self.stopping_the_lower_mount_stops_hugemap]
        steps += [self.unmount_by_hand_keeps_stores]
        return [(f"boot_{step.__name__}", step) for step in steps]


def check_numbers(data: bytes, seed: int, where: str, size: int = BYTES) -> None:
    """Compare data with the numbers that boot/store.c stores."""
    words = array.array("Q", range(seed << 32, (seed << 32) + size // 8)).tobytes()
    if data == words:
        return
    at = next((i for i, (a, b) in enumerate(zip(data, words)) if a != b), min(len(data), len(words)))
    raise Failed(f"{where}: {len(data)} bytes, expected {len(words)}; they differ from offset {at} on")
