# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Programs that cannot load the library of `hugemap run` start just as they do without."""
import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

HUGEMAP = os.environ["HUGEMAP"]
LIBRARY = os.environ["LIBRARY"]
SOURCES = os.path.dirname(os.path.abspath(__file__))
NOBODY = 65534
PATIENCE = 60
FUNCTIONS = ("execve execv execvp execvpe execl execlp execle execveat execveat-fd fexecve "
             "posix_spawn posix_spawnp pidfd_spawn system popen vfork syscall-execve "
             "syscall-execveat").split()
MUSL_FUNCTIONS = set(FUNCTIONS) - {"execveat", "execveat-fd"} | {"setuid"}
# How a program that cannot load the library, or must not, is built, and the word for it.
STRANGERS = {
    "static": (["cc", "-static"], "static"),
    "static-pie": (["cc", "-static-pie"], "static"),
    "32-bit": (["cc", "-m32"], "32 bits"),
    "32-bit-static": (["cc", "-m32", "-static"], "32 bits"),
    "musl": (["musl-gcc"], "C library"),
    "musl-static": (["musl-gcc", "-static"], "static"),
    "asan": (["cc", "-fsanitize=address"], "sanitizer"),
    "tsan": (["cc", "-fsanitize=thread"], "sanitizer"),
    "lsan": (["cc", "-fsanitize=leak"], "sanitizer"),
}
FRIENDS = {
    "plain": ["cc"],
    "no-pie": ["cc", "-no-pie"],
    "static-asan": ["cc", "-fsanitize=address", "-static-libasan"],
    "static-tsan": ["cc", "-fsanitize=thread", "-static-libtsan"],
    "ubsan": ["cc", "-fsanitize=undefined"],
}


def setUpModule():
    global top, built
    top = tempfile.mkdtemp(dir=os.environ.get("HM_TEST_DIR", "/var/tmp"))
    unittest.addModuleCleanup(shutil.rmtree, top)
    os.chmod(top, 0o755)
    built = {}
    for name, command in {**{k: v[0] for k, v in STRANGERS.items()}, **FRIENDS}.items():
        if build(command, "started.c", name):
            built[name] = f"{top}/{name}"
        else:
            print(f"{' '.join(command)} builds nothing here: {name} is left out")
    assert build(["cc"], "starter.c", "starter")
    machine = os.uname().machine
    build(["musl-gcc", "-idirafter", "/usr/include", "-idirafter",
           f"/usr/include/{machine}-linux-gnu"], "starter.c", "musl-starter")


def build(command, source, name):
    if not shutil.which(command[0]):
        return False
    return subprocess.run([*command, "-w", "-o", f"{top}/{name}", f"{SOURCES}/{source}"],
                          stderr=subprocess.DEVNULL).returncode == 0


class Case(unittest.TestCase):
    def setUp(self):
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("HUGEMAP_RUN_") and k != "LD_PRELOAD"}
        self.env["XDG_CONFIG_HOME"] = top
        self.env["PATH"] = f"{top}:{self.env['PATH']}"

    def end_of(self, *args, **kwargs):
        """The status, and the bytes on both outputs."""
        kwargs.setdefault("env", self.env)
        done = subprocess.run(args, capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, **kwargs)
        return done.returncode, done.stdout, done.stderr

    def same(self, *args, **kwargs):
        """Run a program without the library and with it. Fail if the two runs differ. Return the first result."""
        plain = self.end_of(*args, **kwargs)
        self.assertEqual(self.end_of(HUGEMAP, "run", *args, **kwargs), plain, args)
        return plain

    def served(self, *args, **kwargs):
        """Check that the library is loaded in the last program that @args starts."""
        plain = self.end_of(*args, **kwargs)
        done = self.end_of(HUGEMAP, "run", *args, **kwargs)
        self.assertEqual((done[0], done[2]), (plain[0], plain[2]), args)
        self.assertIn("library 0", plain[1], args)
        self.assertIn("library 1", done[1], args)


class Library(unittest.TestCase):
    # Each has the version of the first glibc for the machine, wherever it was built.
    ALLOWED = set("__errno_location __register_atfork _r_debug dl_iterate_phdr dlsym environ fnmatch "
                  "program_invocation_short_name snprintf vsnprintf".split())

    def test_it_needs_no_library_and_no_version(self):
        text = subprocess.run(["objdump", "-T", "-p", LIBRARY], capture_output=True, text=True,
                              check=True).stdout
        self.assertNotIn("NEEDED", text)
        self.assertNotIn("Version References", text)
        self.assertNotIn("GLIBC", text)
        undefined = {line.split()[-1] for line in text.splitlines() if "*UND*" in line}
        self.assertLessEqual(undefined, self.ALLOWED)
        self.assertIn("__errno_location", undefined)

    def test_musl_can_load_it(self):
        if "musl" not in built:
            self.skipTest("musl-gcc is not installed")
        env = {"LD_PRELOAD": LIBRARY, "PATH": top}
        done = subprocess.run([built["musl"], "text"], capture_output=True, text=True, env=env)
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertIn("library 1", done.stdout)
        for function in MUSL_FUNCTIONS:
            done = subprocess.run([f"{top}/musl-starter", function, built["musl"]],
                                  capture_output=True, text=True, env=env)
            self.assertEqual(done.returncode, 3, (function, done.stderr))


class Started(Case):
    def test_strangers_by_hugemap_run(self):
        for name in STRANGERS.keys() & built.keys():
            with self.subTest(name):
                status, out, _ = self.same(built[name], "text")
                self.assertEqual((status, out), (3, "text, LD_PRELOAD=-, library 0\n"))

    def test_strangers_by_each_function(self):
        for name in STRANGERS.keys() & built.keys():
            for function in FUNCTIONS:
                with self.subTest(name, function=function):
                    status, out, _ = self.same(f"{top}/starter", function, built[name])
                    self.assertEqual((status, out), (3, f"{function}, LD_PRELOAD=-, library 0\n"))

    def test_friends_load_it(self):
        for name in FRIENDS.keys() & built.keys():
            with self.subTest(name):
                self.served(built[name], "text")
                for function in FUNCTIONS:
                    self.served(f"{top}/starter", function, built[name])

    def test_friends_are_steered(self):
        """The monitor thread runs in a process whose C library is replaced in parts."""
        self.env["HUGEMAP_RUN_MIN_SIZE"] = "1M"
        path = f"{top}/mapped"
        with open(path, "wb") as file:
            file.truncate(32 << 20)
        for name in FRIENDS.keys() & built.keys():
            with self.subTest(name):
                status, out, err = self.end_of(HUGEMAP, "run", "-v", built[name], "map", path)
                self.assertEqual(status, 3, err)
                self.assertIn("library 1", out)
                self.assertIn(path, err)

    def test_a_relative_path_in_a_directory_for_the_child(self):
        for name in built:
            for function in ("spawn-directory", "spawnp-directory"):
                with self.subTest(name, function=function):
                    status, out, _ = self.same(f"{top}/starter", function, built[name])
                    self.assertEqual((status, out), (3, f"{function}, LD_PRELOAD=-, library 0\n"))

    def test_shells_and_python(self):
        code = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
        for starter in (["sh", "-c", '"$@"', "sh"], ["bash", "-c", '"$@"; exit $?', "bash"],
                        ["env"], ["nice"], ["timeout", "60"], ["xargs", "-a", "/dev/null"],
                        ["python3", "-c", code]):
            for name in STRANGERS.keys() & built.keys():
                self.same(*starter, built[name])
            self.served(*starter, built["plain"])

    def test_scripts(self):
        for name in built:
            script, inner = f"{top}/script-{name}", f"{top}/inner-{name}"
            for path, first in ((inner, f"#! {built[name]} text"), (script, f"#!{inner}\nx")):
                with open(path, "w") as file:
                    file.write(first + "\n")
                os.chmod(path, 0o755)
            for path in (inner, script):
                if name in FRIENDS:
                    self.served(path)
                    self.served("sh", "-c", path)
                else:
                    self.same(path)
                    self.same("sh", "-c", path)

    def test_a_program_that_changes_is_checked_again(self):
        """Each file has the same path and inode as the one before."""
        names = [name for name in ("static", "plain", "static") if name in built]
        code = ("import os, shutil, sys\n"
                "for name in sys.argv[2:]:\n"
                "    shutil.copy(name, sys.argv[1])\n"
                "    for _ in range(2):\n"
                "        child = os.posix_spawn(sys.argv[1], [name, 'text'], os.environ)\n"
                "        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3\n")
        status, out, err = self.end_of(HUGEMAP, "run", "python3", "-c", code, f"{top}/changes",
                                       *(built[name] for name in names))
        self.assertEqual(status, 0, err)
        self.assertEqual(re.findall("library [01]", out),
                         [f"library {int(name == 'plain')}" for name in names for _ in range(2)])

    def test_only_a_program_without_the_library_is_checked_once(self):
        """Another file may have the same inode, size and time of change."""
        code = ("import os, re, sys\n"
                "def reads():\n"
                "    with open('/proc/self/io') as file:\n"
                "        return int(re.search('syscr: ([0-9]+)', file.read())[1])\n"
                "def start(name):\n"
                "    before = reads()\n"
                "    os.waitpid(os.posix_spawn(name, [name, 'text'], os.environ), 0)\n"
                "    return reads() - before\n"
                "print(*(start(name) for name in sys.argv[1:] for _ in range(2)))\n")
        status, out, err = self.end_of(HUGEMAP, "run", "python3", "-c", code, "/bin/true", built["plain"])
        self.assertEqual(status, 0, err)
        first, again, loading, loading_again = map(int, out.splitlines()[-1].split())
        self.assertLess(again, first)
        self.assertEqual(loading_again, loading)

    def test_no_program(self):
        text = f"{top}/text"
        with open(text, "w") as file:
            file.write("echo text of a shell\n")
        os.chmod(text, 0o755)
        os.mkfifo(f"{top}/fifo", 0o755)
        for name in (text, f"{top}/fifo", top, "/nowhere", "", f"{top}/starter/x"):
            for function in set(FUNCTIONS) - {"system", "popen", "fexecve"}:
                with self.subTest(name, function=function):
                    plain = self.end_of(f"{top}/starter", function, name)
                    self.assertEqual(self.end_of(HUGEMAP, "run", f"{top}/starter", function, name),
                                     plain)

    def test_other_libraries_of_ld_preload_stay(self):
        other = f"{top}/other.so"
        # Its constructor calls a function of this library, before the constructor of this one.
        code = "int setuid(); int getuid(); __attribute__((constructor)) static void begin(void) " \
               "{ setuid(getuid()); }"
        subprocess.run(["cc", "-w", "-shared", "-o", other, "-xc", "-"], input=code, text=True,
                       check=True)
        self.env["LD_PRELOAD"] = other
        for name in built:
            if "32" in name or "san" in name:
                continue
            out = self.end_of(HUGEMAP, "run", "sh", "-c", built[name])[1]
            path = f"{other}:{LIBRARY}" if name in FRIENDS else other
            self.assertIn(f"LD_PRELOAD={path},", out)

    def test_a_sanitizer_of_ld_preload_is_the_first(self):
        path = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True,
                              text=True).stdout.strip()
        if not os.path.exists(path):
            self.skipTest("there is no libasan.so")
        self.env["LD_PRELOAD"] = path
        self.served(built["plain"])

    def test_nested(self):
        status, out, err = self.end_of(HUGEMAP, "run", HUGEMAP, "run", "sh", "-c", built["plain"])
        self.assertEqual((status, err), (3, ""))
        self.assertEqual(out.count("libhugemap-run"), 1)
        self.same(HUGEMAP, "run", built["static"])

    def test_a_glibc_of_its_own(self):
        linker = re.search(r"interpreter: (\S+)]", subprocess.run(
            ["readelf", "-l", built["plain"]], capture_output=True, text=True).stdout)[1]
        own = f"{top}/own"
        os.mkdir(own)
        for path in (linker, self.libc()):
            shutil.copy(path, own)
        self.assertTrue(build(["cc", f"-Wl,--dynamic-linker={own}/{os.path.basename(linker)}",
                               f"-Wl,-rpath,{own}"], "started.c", "own-glibc"))
        self.served(f"{top}/own-glibc")
        self.served("sh", "-c", f"{top}/own-glibc")

    @staticmethod
    def libc():
        return re.search(r"libc\.so\.6 => (\S+)", subprocess.run(
            ["ldd", built["plain"]], capture_output=True, text=True).stdout)[1]


class Cost(Case):
    """Each page fault makes a process start up to a microsecond later."""
    CODE = """
import os, sys
def faults(name, environment):
    child = os.posix_spawn(name, [name, "text"], environment)
    return os.wait4(child, 0)[2].ru_minflt
preload = {"LD_PRELOAD": sys.argv[2]}
print(*(min(faults(sys.argv[1], env) for _ in range(10)) for env in ({}, preload)))
"""

    def test_a_start_takes_few_page_faults_more(self):
        status, out, err = self.end_of("python3", "-c", self.CODE, built["plain"], LIBRARY)
        self.assertEqual(status, 0, err)
        self.assertIn("library 1", out)
        plain, steered = map(int, out.splitlines()[-1].split())
        self.assertLessEqual(steered - plain, 12)


class Unaffected(Case):
    """Programs that can neither map a file nor start a program are started without the library."""
    # The library replaces these functions, but a program that calls only these does not need it.
    HARMLESS = set("chroot initgroups madvise munmap posix_madvise prctl setegid seteuid setgid "
                   "setgroups setns setregid setresgid setresuid setreuid setuid unshare".split())
    OTHERS = set("dlopen dlmopen dlsym dlvsym popen syscall system wordexp".split())
    SOURCE = """
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #ifdef CALL
        void called() __asm__(CALL);
        void *volatile kept = called;
        #endif
        int main(void)
        {
            const char *preload = getenv("LD_PRELOAD");
            FILE *maps = fopen("/proc/self/maps", "r");
            char line[1024];
            int found = 0;

            while (maps && fgets(line, sizeof(line), maps))
                found |= strstr(line, "libhugemap-run") != NULL;
            printf("LD_PRELOAD=%s, library %d\\n", preload ? preload : "-", found);
            return 0;
        }"""
    PLAIN = "LD_PRELOAD=-, library 0\n"

    def build(self, *options):
        path = f"{top}/unaffected"
        done = subprocess.run(["cc", "-w", "-fno-builtin", "-o", path, "-xc", "-", *options],
                              input=self.SOURCE, text=True, stderr=subprocess.DEVNULL)
        return path if done.returncode == 0 else None

    def by_shell(self, path):
        status, out, err = self.end_of(HUGEMAP, "run", "sh", "-c", f"{path}; :")
        self.assertEqual((status, err), (0, ""))
        return out

    def test_they_run_without_it(self):
        for options in ([], ["-no-pie"], ["-Wl,--hash-style=sysv"], ["-s"], ["-O2", "-lm"],
                        ["-Wl,--no-as-needed", "-lm"]):
            with self.subTest(options):
                self.assertEqual(self.by_shell(self.build(*options)), self.PLAIN)

    def test_by_each_function(self):
        path = self.build()
        for function in FUNCTIONS:
            with self.subTest(function=function):
                self.assertEqual(self.end_of(HUGEMAP, "run", f"{top}/starter", function, path)[1],
                                 self.PLAIN)

    def test_each_function_that_gives_it_something_to_do(self):
        text = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True,
                              text=True, check=True).stdout
        exported = {name for name in re.findall(r"\S+$", text, re.M)
                    if not name.startswith("hugemap_")}
        self.assertLess(self.HARMLESS, exported)
        for function in exported | self.OTHERS:
            path = self.build(f'-DCALL="{function}"')
            with self.subTest(function):
                if not path:
                    self.assertIn("pidfd_spawn", function)  # new in glibc 2.39
                elif function in self.HARMLESS:
                    self.assertEqual(self.by_shell(path), self.PLAIN)
                else:
                    self.assertIn("library 1", self.by_shell(path))
        for function in ("mmap", "execve"):
            path = self.build(f'-DCALL="{function}"', "-no-pie")
            self.assertIn("library 1", self.by_shell(path))

    def test_another_library_may_call_such_functions(self):
        other = f"{top}/another.so"
        subprocess.run(["cc", "-w", "-shared", "-o", other, "-xc", "-"], input="int another;",
                       text=True, check=True)
        path = self.build("-Wl,--no-as-needed", f"-Wl,-rpath,{top}", f"-L{top}", "-l:another.so")
        self.assertIn("library 1", self.by_shell(path))
        self.env["LD_PRELOAD"] = other
        path = self.build()
        self.assertEqual(self.by_shell(path), f"LD_PRELOAD={other}:{LIBRARY}, library 1\n")

    def test_the_first_program_loads_it(self):
        self.assertIn("library 1", self.end_of(HUGEMAP, "run", self.build())[1])


@unittest.skipIf(os.geteuid(), "takes root")
class Root(Case):
    def test_setuid(self):
        path = f"{top}/setuid"
        shutil.copy(built["plain"], path)
        os.chown(path, NOBODY, NOBODY)
        for mode in (0o4755, 0o2755):
            os.chmod(path, mode)
            self.same(path)
            self.same("sh", "-c", path)

    def test_chroot(self):
        root = f"{top}/root"
        libraries = re.findall(r"(?m)^\s.*?(/\S+) \(0x", subprocess.run(
            ["ldd", built["plain"]], capture_output=True, text=True).stdout)
        for path in (*libraries, "/bin/sh"):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        shutil.copy(built["plain"], f"{root}/started")
        self.env["PATH"] += ":/"
        for function in FUNCTIONS:
            if function != "fexecve":  # that the library is there is not seen without /proc
                self.same(f"{top}/starter", "chroot", root, function, "/started")
        self.same("chroot", root, "/started", "text")
        os.makedirs(root + os.path.dirname(LIBRARY))
        shutil.copy(LIBRARY, root + LIBRARY)
        done = self.end_of(HUGEMAP, "run", "chroot", root, "/started", "text")
        self.assertEqual((done[0], done[2]), (3, ""))
        self.assertIn(f"LD_PRELOAD={LIBRARY}", done[1])

    def test_another_user_cannot_reach_the_library(self):
        private = f"{top}/private"
        os.mkdir(private, 0o700)
        hugemap = shutil.copy(HUGEMAP, private)
        shutil.copy(LIBRARY, private)
        code = "import os, sys; os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
        args = ("python3", "-c", code, built["plain"])
        self.assertEqual(self.end_of(hugemap, "run", *args), self.end_of(*args))

    def test_a_filter(self):
        """The filter ends a process that opens the program to examine it."""
        for name in ("execve", "execvp", "posix_spawn"):
            self.assertEqual(self.same(f"{top}/starter", "filter", name, "/nowhere")[0], 1)


class Outside(Case):
    """Programs that do not load the library are helped by another process."""

    def start(self, *options, name="static", user=None, args=("alone",)):
        program = subprocess.Popen([HUGEMAP, "run", *options, built[name], *args], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.env, user=user, cwd=top)
        self.addCleanup(self.end, program)
        return program

    @staticmethod
    def end(program):
        program.kill()
        program.communicate()

    @staticmethod
    def helper_of(pid):
        """The process that has opened the page tables of another one, or None."""
        for entry in os.listdir("/proc"):
            try:
                for fd in os.listdir(f"/proc/{entry}/fd") if entry.isdigit() else ():
                    if os.readlink(f"/proc/{entry}/fd/{fd}") == f"/proc/{pid}/pagemap":
                        return int(entry)
            except OSError:
                continue
        return None

    @staticmethod
    def wait_gone(pid):
        for _ in range(1000):
            if not os.path.exists(f"/proc/{pid}"):
                return True
            time.sleep(0.01)
        return False

    def test_reasons(self):
        for name, (_, word) in STRANGERS.items():
            if name not in built:
                continue
            status, out, err = self.end_of(HUGEMAP, "run", "-v", built[name], "text")
            self.assertEqual((status, out), (3, "text, LD_PRELOAD=-, library 0\n"))
            self.assertRegex(err, rf"^hugemap run: \d+: {built[name]} [^\n]*{word}[^\n]*"
                                  r"it is (not )?helped from outside[^\n]*\n$")
        self.assertEqual(self.end_of(HUGEMAP, "run", "-v", built["plain"], "text")[2], "")

    @unittest.skipIf(os.geteuid(), "takes root")
    def test_the_program_does_not_see_the_helper(self):
        plain = subprocess.Popen([built["static"], "alone"], stdin=subprocess.PIPE, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, plain)
        program = self.start()
        line = program.stdout.readline()
        self.assertEqual(line, plain.stdout.readline())
        self.assertIn(f"wait -1 {os.strerror(errno.ECHILD)}, any child -1", line)
        # The program has closed it, and no other process has it open.
        self.assertEqual(program.stdout.read(), "")
        self.assertIsNone(program.poll())
        helper = self.helper_of(program.pid)
        self.assertIsNotNone(helper)
        with open(f"/proc/{program.pid}/task/{program.pid}/children") as file:
            self.assertEqual(file.read(), "")
        links = {os.readlink(f"/proc/{helper}/fd/{fd}") for fd in os.listdir(f"/proc/{helper}/fd")}
        self.assertFalse([link for link in links if "pipe" in link])
        self.assertEqual(os.readlink(f"/proc/{helper}/cwd"), "/")
        self.assertNotEqual(os.getsid(helper), os.getsid(program.pid))
        with open(f"/proc/{helper}/cmdline") as file:
            self.assertNotIn("static", file.read())
        program.send_signal(signal.SIGTERM)
        self.assertEqual(program.wait(PATIENCE), -signal.SIGTERM)
        self.assertTrue(self.wait_gone(helper))
        plain.communicate("")

    @unittest.skipIf(os.geteuid(), "takes root")
    def test_the_first_process_of_a_name_space(self):
        """Orphans become its children."""
        program = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", HUGEMAP, "run",
                                  "-v", built["static"], "alone"], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, env=self.env, timeout=PATIENCE)
        self.assertIn("it is helped from outside", program.stderr)
        self.assertIn(f"wait -1 {os.strerror(errno.ECHILD)}, any child 0", program.stdout)
        self.assertEqual(program.returncode, 0)

    @unittest.skipIf(os.geteuid(), "takes root")
    def test_a_helper_that_ends_is_no_child_of_the_first_process(self):
        """Without the right to help, the helper ends before the program starts."""
        program = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "setpriv",
                                  "--bounding-set=-sys_nice", HUGEMAP, "run", "-v",
                                  built["static"], "alone"], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, env=self.env, timeout=PATIENCE)
        self.assertIn("that takes CAP_SYS_NICE", program.stderr)
        self.assertIn(f"wait -1 {os.strerror(errno.ECHILD)}, any child -1", program.stdout)
        self.assertEqual(program.returncode, 0)

    @unittest.skipIf(os.geteuid(), "takes root")
    def test_pages_are_read_ahead(self):
        paths = [f"{top}/one", f"{top}/other"]
        for options in (["--exclude", "other"], ["--include", "on*"]):
            for path in paths:
                with open(path, "wb") as file:
                    file.truncate(64 << 30)
            program = self.start(*options, args=("stride", *paths))
            out, err = program.communicate()
            self.assertEqual((program.returncode, err), (0, ""))
            count, other = map(int, out.split())
            self.assertGreaterEqual(count, 3)
            self.assertEqual(other, 0, options)

    @unittest.skipIf(os.geteuid(), "takes root")
    def test_no_right_to_help(self):
        program = self.start("-v", user=NOBODY)
        self.assertIn("wait", program.stdout.readline())
        self.assertIsNone(self.helper_of(program.pid))
        self.assertIn("CAP_SYS_NICE", program.communicate("")[1])

    def test_off(self):
        self.env["HUGEMAP_RUN_OFF"] = "1"
        program = self.start("-v")
        self.assertIn("wait", program.stdout.readline())
        self.assertIsNone(self.helper_of(program.pid))
        self.assertEqual(program.communicate("")[1], "")


if __name__ == "__main__":
    unittest.main()
