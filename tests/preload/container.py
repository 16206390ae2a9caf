#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Run a command as in a Docker container: container.py COMMAND...

The command gets its own mounts, process IDs, IPC and host name, the capabilities that Docker
leaves, and a seccomp filter that refuses the system calls that Docker's default profile refuses.
The filter also refuses all calls that are newer than Linux 5.17. It needs root and a C compiler,
which knows the numbers of the calls. The exit status is the command's; it is 77 without root.
"""
import ctypes
import errno
import os
import re
import struct
import subprocess
import sys

CAPABILITIES = ("chown dac_override fsetid fowner mknod net_raw setgid setuid setfcap setpcap "
                "net_bind_service sys_chroot kill audit_write").split()
REFUSED = """
    _sysctl acct add_key afs_syscall bpf clock_settime create_module delete_module fanotify_init
    finit_module fsconfig fsmount fsopen fspick get_kernel_syms get_mempolicy getpmsg init_module
    ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount
    mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open
    pidfd_getfd pivot_root process_madvise putpmsg query_module quotactl quotactl_fd reboot
    request_key security set_mempolicy set_mempolicy_home_node setdomainname sethostname setns
    settimeofday swapoff swapon sysfs syslog tuxcall umount2 unshare uselib userfaultfd ustat
    vhangup vserver""".split()
NEWEST = "set_mempolicy_home_node"
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

CLONE_NEW = 0x7E020000  # all flags for new name spaces
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID = 0x20000, 0x4000000, 0x8000000, 0x20000000
PR_SET_PDEATHSIG, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 1, 22, 2
LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_SET, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
NUMBER, MACHINE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
ALLOW, ERROR = 0x7FFF0000, 0x00050000

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def call_numbers():
    text = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-xc", "/dev/null"],
                          capture_output=True, text=True, check=True).stdout
    return {name: int(number)
            for name, number in re.findall(r"#define __NR_(\w+) (\d+)$", text, re.M)}


def filter_program():
    """The filter, as an array of struct sock_filter."""
    numbers = call_numbers()

    def step(code, value, if_true=0, if_false=0):
        return struct.pack("HBBI", code, if_true, if_false, value)

    def refuse(code, value, error):
        return step(code, value, 0, 1) + step(RETURN, ERROR | error)

    return b"".join([
        step(LOAD, MACHINE), step(JUMP_EQUAL, MACHINES[os.uname().machine], 1, 0),
        step(RETURN, ERROR | errno.EPERM),
        step(LOAD, NUMBER), refuse(JUMP_GREATER, numbers[NEWEST], errno.ENOSYS),
        refuse(JUMP_EQUAL, numbers["clone3"], errno.ENOSYS),
        *(refuse(JUMP_EQUAL, numbers[name], errno.EPERM) for name in REFUSED if name in numbers),
        step(JUMP_EQUAL, numbers["clone"], 1, 0), step(RETURN, ALLOW),
        step(LOAD, FIRST_ARGUMENT), refuse(JUMP_SET, CLONE_NEW, errno.EPERM), step(RETURN, ALLOW)])


def install_filter():
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]

    steps = filter_program()
    program = Program(len(steps) // 8, steps)
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0))


def start(command):
    install_filter()
    names = ",".join(["-all", *(f"+{name}" for name in CAPABILITIES)])
    os.execvp("setpriv", ["setpriv", f"--bounding-set={names}", "--", *command])


def end_with(child):
    """End as the child does. As the first process of its name space, reap all others too."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if os.geteuid():
        print("container.py: this needs root", file=sys.stderr)
        return 77
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID))
    if first := os.fork():
        end_with(first)
    libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    if child := os.fork():
        end_with(child)
    start(sys.argv[1:])
    return 1


if __name__ == "__main__":
    sys.exit(main())
