# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A program with ThreadSanitizer is steered by libhugemap: its monitor calls no interceptor."""
import os
import subprocess
import tempfile
import unittest

LIBRARY = os.environ["LIBRARY"]
STEER = os.environ["STEER"]
INCLUDE = os.environ["INCLUDE"]
PATIENCE = 60
SOURCE = """
    #include <fcntl.h>
    #include <hugemap.h>
    #include <stdio.h>
    #include <sys/mman.h>
    #include <unistd.h>

    int main(int argc, char **argv)
    {
        struct hugemap_stat stat = { .size = sizeof(stat) };
        const volatile char *map;
        long i, turn;

        map = hugemap_map(open(argv[1], O_RDWR), 0, 0, PROT_READ, 0);
        if (map == MAP_FAILED)
            return 1;
        for (turn = 0; turn < 1000 && !stat.accessed_bytes; turn++) {
            for (i = 0; i < 64 << 20; i += 4096)
                map[i];
            usleep(20000);
            if (hugemap_stat((const void *)map, &stat))
                return 2;
        }
        return stat.accessed_bytes ? 0 : 3;
    }"""


class Sanitizer(unittest.TestCase):
    def test_a_program_with_thread_sanitizer(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("HM_TEST_DIR", "/var/tmp")) as top:
            directory, name = os.path.split(LIBRARY)
            os.symlink(LIBRARY, f"{top}/libhugemap.so.0")
            subprocess.run(["cc", "-fsanitize=thread", "-xc", "-", f"-I{INCLUDE}", f"-L{directory}",
                            f"-l:{name}", f"-Wl,-rpath,{top}", "-o", f"{top}/program"],
                           input=SOURCE, text=True, check=True)
            with open(f"{top}/file", "wb") as file:
                file.truncate(64 << 20)
            done = subprocess.run([f"{top}/program", f"{top}/file"], capture_output=True, text=True,
                                  timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_steering_calls_no_function_of_string_h(self):
        text = subprocess.run(["nm", STEER], capture_output=True, text=True, check=True).stdout
        names = [line.split()[-1] for line in text.splitlines() if " U " in line]
        own = [name for name in names if name.startswith(("mem", "str")) and "_" not in name]
        self.assertIn("pthread_atfork", names)
        self.assertEqual(own, [])


if __name__ == "__main__":
    unittest.main()
