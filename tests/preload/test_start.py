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
             "posix_spawn posix_spawnp pidfd_spawn system popen vfork").split()
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
        """Returns what the program does, with and without."""
        plain = self.end_of(*args, **kwargs)
        self.assertEqual(self.end_of(HUGEMAP, "run", *args, **kwargs), plain, args)
        return plain

    def served(self, *args, **kwargs):
        """The library is in the program that is started at last."""
        plain = self.end_of(*args, **kwargs)
        done = self.end_of(HUGEMAP, "run", *args, **kwargs)
        self.assertEqual((done[0], done[2]), (plain[0], plain[2]), args)
        self.assertIn("library 0", plain[1], args)
        self.assertIn("library 1", done[1], args)


class Library(unittest.TestCase):
    # Each has the version of the first glibc for the machine, wherever it was built.
    ALLOWED = set("__errno_location __register_atfork _r_debug dlsym environ fnmatch getpid "
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


if __name__ == "__main__":
    unittest.main()
