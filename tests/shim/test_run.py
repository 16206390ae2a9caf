# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`hugemap run`: settings from all places, exit statuses, rungs in `hugemap stat`."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

HUGEMAP = os.environ["HUGEMAP"]
LIBRARY = os.environ["LIBRARY"]
SHOW = ["sh", "-c", "env | grep -E '^(HUGEMAP_RUN_|LD_PRELOAD)' | sort"]


class Run(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.home)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("HUGEMAP_RUN_") and k != "LD_PRELOAD"}
        self.env["XDG_CONFIG_HOME"] = self.home

    def run_it(self, *args, **env):
        return subprocess.run([HUGEMAP, "run", *args], capture_output=True, text=True,
                              env={**self.env, **env})

    def settings(self, *args, **env):
        done = self.run_it(*args, *SHOW, **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    def configure(self, text):
        os.makedirs(f"{self.home}/hugemap", exist_ok=True)
        with open(f"{self.home}/hugemap/run.conf", "w") as file:
            file.write(text)

    def test_options_come_after_environment_after_files(self):
        self.configure("# mine\npool = 1G\nmin-size=2M # small\npage = 4K\n")
        found = self.settings("--pool", "3G", HUGEMAP_RUN_MIN_SIZE="5M")
        self.assertEqual(found["HUGEMAP_RUN_POOL"], "3G")
        self.assertEqual(found["HUGEMAP_RUN_MIN_SIZE"], "5M")
        self.assertEqual(found["HUGEMAP_RUN_PAGE"], "4K")
        self.assertNotIn("HUGEMAP_RUN_VERBOSE", found)
        self.assertNotIn("HUGEMAP_RUN_USER_MODE", found)

    def test_a_flag_from_all_places(self):
        self.assertEqual(self.settings("--user-mode")["HUGEMAP_RUN_USER_MODE"], "1")
        self.configure("user-mode = yes\n")
        self.assertEqual(self.settings()["HUGEMAP_RUN_USER_MODE"], "yes")
        self.assertEqual(self.settings(HUGEMAP_RUN_USER_MODE="0")["HUGEMAP_RUN_USER_MODE"], "0")

    def test_globs_add_up(self):
        found = self.settings("--include", "*.a", "--include", "/b/*", HUGEMAP_RUN_INCLUDE="*.c")
        self.assertEqual(found["HUGEMAP_RUN_INCLUDE"], "*.a:/b/*")

    def test_the_library_is_the_first(self):
        found = self.settings(LD_PRELOAD="")
        self.assertEqual(os.path.realpath(found["LD_PRELOAD"]), os.path.realpath(LIBRARY))
        found = self.settings("--heap", self.home)
        self.assertIn("libhugemap-heap.so", found["LD_PRELOAD"].split(":")[1])

    def test_options_of_the_program_are_its_own(self):
        done = self.run_it("printf", "%s", "--pool")
        self.assertEqual(done.stdout, "--pool")
        done = self.run_it("--", "printf", "%s", "-v")
        self.assertEqual(done.stdout, "-v")

    def test_exit_statuses(self):
        self.assertEqual(self.run_it("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_it("/nowhere/at/all").returncode, 127)
        self.assertEqual(self.run_it("/etc/passwd").returncode, 126)
        for wrong in ([], ["--page", "3M", "true"], ["--pool", "much", "true"], ["--no", "true"]):
            done = self.run_it(*wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertRegex(done.stderr, r"^hugemap run: .*\n$")
        self.configure("pol = 1G\n")
        done = self.run_it("true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1", done.stderr)

    def test_the_engine_calls_nothing_that_is_taken_over(self):
        """Or it would come back to the shim with its locks held."""
        def symbols(path, *options):
            text = subprocess.run(["nm", *options, path], capture_output=True, text=True,
                                  check=True).stdout
            return {line.split()[-1].split("@")[0] for line in text.splitlines()}
        wanted = symbols(os.environ["ENGINE"], "-u")
        taken = symbols(LIBRARY, "-D", "--defined-only")
        self.assertGreater(len(taken), 100)
        self.assertEqual(wanted & taken, set())

    def test_rungs_in_stat(self):
        path = f"{self.home}/data"
        with open(path, "wb") as file:
            file.truncate(8 << 20)
        program = ("import mmap, os, sys\n"
                   "fd = os.open(sys.argv[1], os.O_RDWR)\n"
                   "m = mmap.mmap(fd, 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)\n"
                   "print('ready', flush=True)\nsys.stdin.read()\n")
        child = subprocess.Popen([HUGEMAP, "run", "--min-size", "1M", "--summary", "python3", "-c",
                                  program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=self.env)
        self.assertEqual(child.stdout.readline(), "ready\n")
        done = subprocess.run([HUGEMAP, "stat", str(child.pid), "--json"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        maps = json.loads(done.stdout)["run"]
        self.assertEqual([m["file"] for m in maps], [path])
        self.assertEqual(maps[0]["rung"], "plain")
        self.assertEqual(maps[0]["reason"], "it is executable")
        text = subprocess.run([HUGEMAP, "stat", str(child.pid)], capture_output=True, text=True)
        self.assertRegex(text.stdout, rf"plain +8.0 MB  {re.escape(path)}: it is executable")
        errors = child.communicate("")[1]
        self.assertEqual(child.returncode, 0)
        self.assertRegex(errors, rf"plain +8\.0 +0 +0 .*{re.escape(path)} \(it is executable\)")

    def test_nothing_to_sum_up(self):
        self.assertEqual(self.run_it("--summary", "sh", "-c", "true; /bin/true").stderr, "")

    def test_a_heap_in_a_file(self):
        program = ("b = bytearray(40 << 20)\n"
                   "b[::4096] = bytes(i & 255 for i in range(len(b) // 4096))\n"
                   "b.extend(bytes(8 << 20))\n"
                   "assert b[4096 * 77] == 77 and b[-1] == 0\n"
                   "import os\npid = os.fork()\n"
                   "b[5] = 9 if pid else 8\n"
                   "if not pid: os._exit(0 if b[5] == 8 else 1)\n"
                   "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
                   "assert b[5] == 9 and b[4096 * 78] == 78\n")
        done = self.run_it("-v", "--heap", f"{self.home}/heap", "--pool", "16M", "python3", "-c",
                           program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.home), [])
        if "(heap): engine" not in done.stderr:
            self.skipTest("the engine does not work here: " + done.stderr)


if __name__ == "__main__":
    unittest.main()
