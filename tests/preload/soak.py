#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Disturb the programs of programs.py for an hour: soak.py [--minutes N] [--seed N] [--container] [NAME ...]

Two programs at a time, which the seed selects, run under `hugemap run`. Sometimes another
process stores the same bytes to a file that a program only reads. Some programs are killed,
terminated, or stopped and continued: all of their processes or one. While they are stopped,
other processes read their files. An undisturbed program must end within a minute plus three
times its time without HugeMap, with the same exit status, output and files. A minute after a
program was killed or terminated, none of its processes may be left. The script prints a line for
each run. The exit status is 1 if a program hung or its results differed. With --container,
everything runs in a container that container.py makes.

    make soak SOAK_MINUTES=60 SEED=n CONTAINER=1
"""
import argparse
import collections
import contextlib
import difflib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from program import Different, MemoryGroup, Skip, digest, full_command, prepared, run_once, sync
from programs import PROGRAMS, ROOT, default_python

CONTAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "container.py")
SLOTS = 2
MINUTE = 60
TAG = "HUGEMAP_SOAK"

# Read blocks of a file and store the same bytes, by write() and by a mapping.
WRITER = """
import mmap, os, random, sys
fd = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(fd).st_size
source = random.Random(int(sys.argv[2]))
memory = mmap.mmap(fd, size)
while True:
    at = source.randrange(max(size - 65536, 1))
    kind = source.randrange(10)
    if kind < 5:
        os.pwrite(fd, os.pread(fd, 65536, at), at)
    elif kind < 9:
        memory[at:at + 4096] = memory[at:at + 4096]
    else:
        os.fsync(fd)
"""


class Hung(Exception):
    """The program did not end in time."""


def stat_of(pid):
    """The state letter of a process ("Z" is a zombie, "T" is stopped) and its session."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return fields[0], int(fields[3])


def processes_of(tag, session):
    """
    The processes of a run: those of its session, and those with its tag in their environment. A
    daemon has left the session. A program that writes its title (redis-server) overwrites the tag.
    """
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, its_session = stat_of(name)
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            if state != "Z" and (its_session == session or f"{TAG}={tag}".encode() in variables):
                found.append(int(name))
    return found


def is_stopped(pid):
    try:
        return stat_of(pid)[0] == "T"
    except OSError:
        return False


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def where(pids):
    """The state and the kernel stack of each thread."""
    lines = []
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                top = f"/proc/{pid}/task/{thread}"
                with open(f"{top}/stat") as stat, open(f"{top}/stack") as stack:
                    calls = [line.split()[-1].split("+")[0] for line in stack]
                    lines.append(" ".join(stat.read().split()[:3] + calls[:6]))
    return "; ".join(lines)


class Soak:
    """The shared state of all slots: read-only files, results without HugeMap, counts."""

    def __init__(self, args, stack):
        self.args = args
        self.stack = stack
        self.end = time.monotonic() + args.minutes * MINUTE
        self.number = itertools.count(1)
        self.lock = threading.Lock()
        self.locks = {name: threading.Lock() for name in PROGRAMS}
        self.expected = {}
        self.kept = {}
        self.skipped = {}
        self.counts = collections.Counter()
        self.bad = 0

    def say(self, line):
        print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

    def reference(self, name, kind):
        """Create the files of each program once, and run it without HugeMap and undisturbed."""
        with self.locks[name]:
            if name in self.expected:
                return
            with contextlib.ExitStack() as stack:
                program = stack.enter_context(prepared(kind, self.args))
                sync(program.dir, forget=True)
                self.expected[name] = run_once(program, self.args.hugemap, False)
                if kind.only_reads and kind.together and not program.files():
                    self.kept[name] = program
                    self.stack.push(stack.pop_all())

    @contextlib.contextmanager
    def program(self, name, kind):
        if name in self.kept:
            yield self.kept[name]
            return
        with contextlib.ExitStack() as stack:
            with self.locks[name]:
                program = stack.enter_context(prepared(kind, self.args))
            yield program

    def slot(self, index):
        source = random.Random(f"{self.args.seed}.{index}")
        names = self.args.names or list(PROGRAMS)
        while time.monotonic() < self.end:
            name = source.choice([name for name in names if name not in self.skipped])
            try:
                self.reference(name, PROGRAMS[name])
                with self.program(name, PROGRAMS[name]) as program:
                    self.turn(name, program, source)
            except Skip as why:
                self.skipped[name] = str(why)
                self.say(f"{name}: skipped: {why}")
            except (Different, Hung) as why:
                with self.lock:
                    self.bad += 1
                self.say(f"{name}: {type(why).__name__.upper()}: {why}")
            except Exception:
                with self.lock:
                    self.bad += 1
                self.say(f"{name}: the soak itself failed: {traceback.format_exc()}")
                return

    def turn(self, name, program, source):
        what = source.choices(["nothing", "kill", "terminate", "stop"], [5, 2, 1, 2])[0]
        beside = name in self.kept and os.path.isfile(program.path("data")) and source.random() < .5
        if source.random() < .5:
            sync(program.dir, forget=True)
        run = Run(self, name, program, f"{os.getpid()}.{next(self.number)}", source)
        start = time.monotonic()
        writer = beside and subprocess.Popen([sys.executable, "-c", WRITER, program.path("data"),
                                              str(source.randrange(1 << 30))])
        try:
            done = run.run(what)
        finally:
            run.clean()
            if writer:
                writer.kill()
                writer.wait()
        with self.lock:
            self.counts[done] += 1
            self.counts["beside a writer"] += beside
        self.say(f"{name}: {done}{', beside a writer' if beside else ''}, "
                 f"{time.monotonic() - start:.1f} s")


class Run:
    """A program that runs under HugeMap and is disturbed."""

    def __init__(self, soak, name, program, tag, source):
        self.soak = soak
        self.program = program
        self.expected = soak.expected[name]
        self.tag = tag
        self.source = source
        self.stopped = 0  # seconds
        self.child = None

    def run(self, what):
        program = self.program
        group = MemoryGroup(program.memory) if program.memory else contextlib.nullcontext()
        with (tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, group):
            command = full_command(program, self.soak.args.hugemap, True)
            self.child = subprocess.Popen(
                group.wrap(command) if program.memory else command, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, cwd=program.dir, env=os.environ | {TAG: self.tag},
                start_new_session=True)
            self.start = time.monotonic()
            ended = self.disturb(what) if what != "nothing" else None
            if ended:
                self.gone(signal.SIGTERM if ended == "asked to end" else signal.SIGKILL)
                return ended
            self.wait()
            out.seek(0)
            err.seek(0)
            self.compare(out.read(), err.read())
            self.clean()
        return "stopped, right" if self.stopped else "right"

    def processes(self):
        return processes_of(self.tag, self.child.pid)

    def wait(self, until=None):
        """Wait until the program has ended (True), or until a time (False)."""
        while self.child.poll() is None:
            now = time.monotonic()
            if now - self.start - self.stopped > 3 * self.expected.seconds + MINUTE:
                raise Hung(f"{now - self.start:.0f} s, {self.expected.seconds:.1f} without: "
                           + where(self.processes()))
            if until and now >= until:
                return False
            time.sleep(0.01)
        return True

    def chosen(self):
        """All processes of the program, or one of them."""
        pids = self.processes()
        return pids if not pids or self.source.random() < .6 else [self.source.choice(pids)]

    def disturb(self, what):
        """Disturb the program. Returns how it ended by that; None: it continues or had ended."""
        for _ in range(self.source.randint(1, 4) if what == "stop" else 1):
            moment = self.source.random() * max(self.expected.seconds, .1)
            if self.wait(until=time.monotonic() + moment):
                return None
            pids = self.chosen()
            if not pids:
                return None
            if what == "kill":
                send(pids, signal.SIGKILL)
                if self.wait(until=time.monotonic() + 1):  # the other processes may exit, too
                    return "killed"
                send(self.processes(), signal.SIGKILL)
                return "killed"
            if what == "terminate":
                send(self.processes(), signal.SIGTERM)
                return "asked to end"
            self.stop(pids)
        return None

    def stop(self, pids):
        start = time.monotonic()
        send(pids, signal.SIGSTOP)
        try:
            for path in self.program.files() + [self.program.path("data")]:
                if os.path.isfile(path):
                    try:
                        subprocess.run(["head", "-c", "32M", path], stdout=subprocess.DEVNULL,
                                       timeout=MINUTE)
                    except subprocess.TimeoutExpired:
                        raise Hung(f"head of {path} while it is stopped: {where(pids)}") from None
            time.sleep(self.source.random() * 2)
        finally:
            send(pids, signal.SIGCONT)
            self.stopped += time.monotonic() - start
            self.go_on()

    def go_on(self):
        """Continue processes that stop together with a child a little later, as su does."""
        end = time.monotonic() + 1
        while time.monotonic() < end:
            send(filter(is_stopped, self.processes()), signal.SIGCONT)
            time.sleep(.1)

    def gone(self, number):
        """Signal all processes until none is left: during execve() they have no environment."""
        end = time.monotonic() + MINUTE
        seen = time.monotonic()
        while time.monotonic() - seen < 1:
            self.child.poll()
            if left := self.processes():
                seen = time.monotonic()
                if seen > end:
                    raise Hung(f"it was ended a minute ago: {where(left)}")
                send(left, number)
            time.sleep(0.25)
        self.child.wait()

    def compare(self, output, errors):
        if self.child.returncode:
            raise Different(f"exit status {self.child.returncode}: {errors[-400:]} {output[-200:]}")
        program = self.program
        if program.text and program.clean(output) != self.expected.output:
            lines = difflib.unified_diff(str(self.expected.output).split("\n"),
                                         str(program.clean(output)).split("\n"), n=0)
            raise Different("the output differs\n    " + "\n    ".join(itertools.islice(lines, 20)))
        if digest(program.files()) != self.expected.digest:
            raise Different("its files differ")

    def clean(self):
        """Kill all remaining processes."""
        end = time.monotonic() + MINUTE
        while self.child and time.monotonic() < end and (left := self.processes()):
            send(left, signal.SIGKILL)
            time.sleep(0.05)
            self.child.poll()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dir", default=os.environ.get("HM_TEST_DIR", "/var/tmp"))
    parser.add_argument("--hugemap", default=f"{ROOT}/build/hugemap")
    parser.add_argument("--python", default=default_python())
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--container", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.container:
        arguments = [argument for argument in sys.argv if argument != "--container"]
        os.execv(sys.executable, [sys.executable, CONTAINER, sys.executable, *arguments])
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    if not shutil.which(args.hugemap):
        parser.error(f"{args.hugemap} is not there: make build")
    with contextlib.ExitStack() as stack:
        soak = Soak(args, stack)
        soak.say(f"seed {args.seed}, {args.minutes:g} minutes")
        slots = [threading.Thread(target=soak.slot, args=(index,)) for index in range(SLOTS)]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join()
        soak.say(", ".join(f"{name} {count}" for name, count in soak.counts.most_common())
                 + f"; {len(soak.expected)} programs; {soak.bad} different or hung; "
                 f"seed {args.seed}")
    return 1 if soak.bad else 0


if __name__ == "__main__":
    sys.exit(main())
