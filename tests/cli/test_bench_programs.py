# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""hugemap bench ycsb, direct, cached and graph: answers, and what they leave; no times."""
import collections
import glob
import itertools
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from common import BUILD, HUGEMAP, cgroups, read_text

YCSB = os.path.join(BUILD, "bench/ycsb/hugemap-ycsb")
DIRECT = os.path.join(BUILD, "bench/direct/hugemap-direct")
CACHED = os.path.join(BUILD, "bench/cached/hugemap-cached")
GRAPH = os.path.join(BUILD, "bench/graph/hugemap-graph")


def mixed(x):
    """As random_mix() of bench/random.c."""
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    x = (x ^ x >> 27) * 0x94d049bb133111eb % 2**64
    return x ^ x >> 31


def digest_of(values):
    return sum(mixed(v << 32 | value) for v, value in enumerate(values)) % 2**64


def rounded(x):
    """As a number of 32 bits."""
    return struct.unpack("f", struct.pack("f", x))[0]


def scores_of(neighbors):
    """The scores of three iterations of PageRank, as the words of 32-bit numbers."""
    n = len(neighbors)
    damping = rounded(0.85)
    base = rounded(rounded(1 - damping) / n)
    scores = [rounded(1 / n)] * n
    for _ in range(3):
        contributions = [rounded(score / len(found)) if found else 0
                         for score, found in zip(scores, neighbors)]
        sums = []
        for found in neighbors:
            total = 0.0
            for v in found:
                total = rounded(total + contributions[v])
            sums.append(total)
        scores = [rounded(base + rounded(damping * total)) for total in sums]
    return [struct.unpack("I", struct.pack("f", score))[0] for score in scores]


class Programs:
    """A benchmark of a program: its name, arguments of a small one, and the error without the program."""
    name, small, missing = "", [], ""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def bench(self, *args, command=HUGEMAP):
        return subprocess.run([command, "bench", self.name, "--dir", self.dir, "--runs", "1", *self.small, *args],
                              capture_output=True, text=True)

    def foreign(self, program):
        """A copy of the command that starts another program, or finds none."""
        path = f"{self.dir}/bin/bench/{self.name}/hugemap-{self.name}"
        os.makedirs(os.path.dirname(path))
        command = shutil.copy(HUGEMAP, f"{self.dir}/bin/hugemap")
        if program:
            with open(path, "w") as file:
                file.write(program)
            os.chmod(path, 0o755)
        return command

    def refuses(self, args):
        with self.subTest(args):
            result = self.bench(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertRegex(result.stderr, f"^hugemap bench {self.name}: .*\n$")

    def was_found_elsewhere(self, result):
        return result.returncode == 0

    def test_a_missing_program_is_explained(self):
        result = self.bench(command=self.foreign(None))
        if self.was_found_elsewhere(result):
            self.skipTest(f"hugemap-{self.name} is installed")
        self.assertEqual(result.returncode, 1)
        self.assertIn(self.missing, result.stderr)


@unittest.skipUnless(os.path.exists(YCSB), "hugemap-ycsb is not built: it needs LMDB and RocksDB")
class Ycsb(Programs, unittest.TestCase):
    """hugemap bench ycsb: answers, and what it leaves; no times."""

    name = "ycsb"
    small = ["--records", "2001", "--value", "504"]
    missing = "librocksdb-dev"

    def was_found_elsewhere(self, result):
        return "libexec" in result.stderr or super().was_found_elsewhere(result)

    def test_all_stores_and_modes_give_the_same_answers(self):
        table = self.bench("--workload", "c").stdout
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        result = self.bench("--threads", "2", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual((data["errors"], data["settings"]["records"]), ([], 2000))
        modes = {"plain", "random", "steered"}
        seen = {(row["workload"], row["store"], row["mode"]) for row in data["rows"]}
        for workload in ("load", *"abcdef"):
            self.assertLessEqual({(workload, store, mode) for store in ("lmdb", "rocksdb")
                                  for mode in modes}, seen)
            self.assertIn((workload, "rocksdb", "pread"), seen)
            runs = [run for row in data["rows"] if row["workload"] == workload
                    for run in row["runs"]]
            self.assertEqual({run["ops"] for run in runs}, {2000})
            self.assertEqual({run["digest"] for run in runs}, {runs[0]["expected"]}, workload)
            for run in runs:
                self.assertEqual(run["read_us"] is None, workload == "load")
                self.assertEqual(run["write_us"] is None, workload == "c")
        self.assertNotIn(("c", "lmdb", "pread"), seen)
        self.assertEqual(os.listdir(self.dir), [])

    def test_seeds_and_distributions_differ(self):
        def digests(*args):
            result = self.bench("--workload", "c", "--store", "lmdb", "--mode", "plain", "--json",
                                "-", "--runs", "2", *args)
            return {run["digest"] for run in json.loads(result.stdout)["rows"][0]["runs"]}

        self.assertEqual(len(digests() | digests("--distribution", "uniform")), 4)

    def test_a_wrong_byte_in_a_store_is_found(self):
        def run(workload):
            job = (f"store=0,workload={workload},threads=1,seed=0,uniform=1,pread=0,random=0,warm=0,"
                   "settle=0,records=500,operations=500,value=1000,buffer=0,milliseconds=0")
            done = subprocess.run([YCSB, self.dir, job], check=True, capture_output=True)
            return json.loads(done.stdout)

        def read():
            return run(3)

        run(0)
        before = read()
        self.assertEqual(before["digest"], before["expected"])
        with open(f"{self.dir}/data.mdb", "r+b") as file:
            data = bytearray(file.read())
            for at in range(0, len(data) - 4096, 4096):
                data[at + 4000] ^= 1  # in the value at the end of a leaf
            file.seek(3 * 4096)
            file.write(data[3 * 4096:])
        after = read()
        self.assertNotEqual(after["digest"], before["digest"])
        self.assertEqual(after["expected"], before["expected"])

    def test_a_wrong_answer_fails_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n{YCSB} \"$@\" | sed 's/\"digest\": \"./&x/'\n")
        result = self.bench("--workload", "c", "--store", "lmdb", "--mode", "plain", "--json", "-",
                            command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("c, lmdb, plain: an answer was wrong", result.stderr)
        self.assertEqual(json.loads(result.stdout)["rows"], [])

    def test_lost_records_fail_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n{YCSB} \"$@\" | sed '/expected/!s/\"ops\": ./&1/'\n")
        result = self.bench("--store", "rocksdb", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("load, rocksdb, without a limit: the store has other records", result.stderr)

    def test_a_store_that_cannot_be_copied_fails_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n{YCSB} \"$@\"\ncase $2 in *workload=7*) mv $1 $1.gone;; esac\n")
        result = self.bench("--workload", "a", "--store", "lmdb", "--mode", "plain", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("a, lmdb, plain: cp: cannot stat", result.stderr)

    def test_an_interruption_leaves_nothing(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            bench = subprocess.Popen([HUGEMAP, "bench", "ycsb", "--dir", self.dir, "--records",
                                      "100000"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            self.addCleanup(bench.kill)
            while not glob.glob(f"{self.dir}/*/*/*"):
                self.assertIsNone(bench.poll(), "the benchmark ended too early")
                time.sleep(0.005)
            children = read_text(f"/proc/{bench.pid}/task/{bench.pid}/children").split()
            guard, = [pid for pid in children if os.getsid(int(pid)) == int(pid)]
            descriptor = os.pidfd_open(int(guard))
            bench.send_signal(number)
            self.assertEqual(bench.wait(), status)
            select.select([descriptor], [], [])
            os.close(descriptor)
            self.assertEqual((os.listdir(self.dir), cgroups(bench.pid)), ([], []))

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--records", "5"], ["--value", "8"], ["--value", "1M"], ["--pool", "1M"],
                     ["--workload", "g"], ["--store", "x"], ["--mode", "fast"], ["--threads", "0"],
                     ["--distribution", "normal"], ["--mode", "pread", "--store", "lmdb"],
                     ["--dir", "/nonexistent"], ["--scenario", "rand-4k"], ["more"]):
            self.refuses(args)


@unittest.skipUnless(os.path.exists(DIRECT), "hugemap-direct is not built: it needs liburing")
@unittest.skipIf(os.geteuid(), "only root may register 64 MB")
class Direct(Programs, unittest.TestCase):
    """hugemap bench direct: data, and what it leaves; no times."""

    name = "direct"
    small = ["--size", "64M", "--seconds", "0.1"]
    missing = "liburing-dev"

    def read(self, *args):
        return subprocess.run([DIRECT, "read", f"{self.dir}/file", *args], capture_output=True, text=True)

    def test_all_memory_gets_the_right_data(self):
        table = self.bench("--block", "1M").stdout
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        result = self.bench("--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual((data["errors"], data["settings"]["depth"]), ([], 16))
        rows = {(row["block"], row["target"], row["buffers"]): row for row in data["rows"]}
        self.assertEqual(len(rows), 16)
        for (block, target, buffers), row in rows.items():
            with self.subTest((block, target, buffers)):
                if target == "mapping" and buffers == "registered":
                    self.assertIn(row["refused"], ("Bad address", "Operation not supported"))
                    self.assertEqual(row["mb_s"], 0)
                elif target != "hugetlb":
                    self.assertIsNone(row["refused"])
                    self.assertGreater(row["mb_s"], 0)
                    self.assertGreaterEqual(row["system_us_mb"], 0)
        self.assertEqual(max(row["ratio_best"] for row in rows.values()), 1)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_wrong_byte_is_found(self):
        subprocess.run([DIRECT, "make", f"{self.dir}/file", str(64 << 20)], check=True)
        arguments = ["small", "65536", "4", "plain", "0.3"]
        self.assertEqual(self.read(*arguments).returncode, 0)
        with open(f"{self.dir}/file", "r+b") as file:
            for at in range(0, 64 << 20, 65536):
                file.seek(at + 65528)
                file.write(b"x")
        found = self.read(*arguments)
        self.assertEqual((found.returncode, found.stdout), (1, ""))
        self.assertIn("wrong data in block", found.stderr)

    def test_an_error_of_the_program_fails_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n[ \"$3\" = thp ] && exit 1\nexec {DIRECT} \"$@\"\n")
        result = self.bench("--block", "1M", "--json", "-", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("1M, thp, plain: it ended with status 1", result.stderr)
        self.assertNotIn("thp", {row["target"] for row in json.loads(result.stdout)["rows"]})

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--size", "1M"], ["--block", "2M"], ["--target", "gpu"], ["--depth", "33"],
                     ["--depth", "0"], ["--seconds", "x"], ["--dir", "/nonexistent"], ["more"]):
            self.refuses(args)


class Cached(Programs, unittest.TestCase):
    """hugemap bench cached: data, and what it leaves; no times."""

    name = "cached"
    small = ["--size", "17M"]
    missing = "hugemap-cached is not there"
    operations = ["write", "rewrite", "read", "reread"]

    def test_each_size_and_operation_has_a_row_of_each_file_system(self):
        table = self.bench().stdout
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        with tempfile.TemporaryDirectory(dir="/dev/shm") as beside:
            result = self.bench("--json", "-", "--beside", beside)
            self.assertEqual(os.listdir(beside), [])
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual(data["errors"], [])
        own = data["file_system"]["type"]
        rows = [(row["size_bytes"] >> 20, row["operation"], row["file_system"]) for row in data["rows"]]
        self.assertEqual(rows, list(itertools.product((4, 16), self.operations, (own, "tmpfs"))))
        for row in data["rows"]:
            self.assertEqual(row["runs"][0]["bytes"], 64 << 20)
            self.assertAlmostEqual(row["mb_s"] * row["runs"][0][f"{row['operation']}_s"], 64, 1)
            self.assertEqual(row["ratio_tmpfs"] == 1, row["file_system"] == "tmpfs")
        self.assertEqual(os.listdir(self.dir), [])

    def test_without_a_tmpfs_its_rows_are_missing(self):
        for beside in self.dir, "/nonexistent":
            result = self.bench("--size", "4M", "--json", "-", "--beside", beside)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"no rows of tmpfs: {beside}: ", result.stderr)
            rows = json.loads(result.stdout)["rows"]
            self.assertEqual([(row["operation"], row["ratio_tmpfs"]) for row in rows],
                             [(operation, 0) for operation in self.operations])

    def test_a_wrong_byte_is_found(self):
        program = subprocess.Popen([CACHED, f"{self.dir}/file", "4194304", "4194304", "2000"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        while program.poll() is None:
            try:
                with open(f"{self.dir}/file", "r+b") as file:
                    file.seek(4095)
                    file.write(b"x")
            except FileNotFoundError:
                pass
        with program.stderr as errors:
            found = errors.read()
        self.assertEqual((program.returncode, found), (1, "hugemap-cached: wrong data at 0\n"))

    def test_an_error_of_the_program_fails_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\ncase $1 in /dev/shm/*) >$1; exit 1;; esac\nexec {CACHED} \"$@\"\n")
        before = os.listdir("/dev/shm")
        result = self.bench("--size", "4M", "--json", "-", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("4.0 MB, tmpfs: it ended with status 1", result.stderr)
        self.assertNotIn("tmpfs", {row["file_system"] for row in json.loads(result.stdout)["rows"]})
        self.assertEqual(os.listdir("/dev/shm"), before)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--size", "3M"], ["--runs", "0"], ["--dir", "/nonexistent"], ["more"]):
            self.refuses(args)


class Graph(Programs, unittest.TestCase):
    """hugemap bench graph: answers, and what it leaves; no times."""

    name = "graph"
    small = ["--scale", "12", "--degree", "5"]
    missing = "hugemap-graph is not there"

    def graph(self, *args):
        return subprocess.run([GRAPH, *args], check=True, capture_output=True).stdout

    def read_graph(self):
        """The neighbors of each vertex, from the file that the program makes."""
        path = f"{self.dir}/graph"
        self.graph("make", path, "10", "4")
        with open(path, "rb") as file:
            data = file.read()
        n, m = struct.unpack_from("QQ", data, 8)
        offsets = struct.unpack_from(f"{n + 1}Q", data, 4096)
        neighbors = struct.unpack_from(f"{m}I", data, 4096 + 8 * (n + 1))
        self.assertEqual((n, offsets[0], offsets[-1]), (1024, 0, m))
        return path, [neighbors[a:b] for a, b in itertools.pairwise(offsets)]

    def test_the_graph_has_each_edge_in_both_directions(self):
        neighbors = self.read_graph()[1]
        edges = collections.Counter((u, v) for u, all_of_u in enumerate(neighbors) for v in all_of_u)
        self.assertGreater(len(edges), 3000)
        for (u, v), count in edges.items():
            self.assertNotEqual(u, v)
            self.assertEqual(edges[v, u], count)
        degrees = sorted(map(len, neighbors))
        self.assertGreater(sum(degrees[-100:]), sum(degrees) / 3)  # a few vertices have very many

    def test_levels_and_scores_are_right(self):
        path, neighbors = self.read_graph()
        source = next(v for v, found in enumerate(neighbors) if found)
        levels = {source: 0}
        queue = [source]
        for u in queue:
            for v in neighbors[u]:
                if v not in levels:
                    levels[v] = levels[u] + 1
                    queue.append(v)
        values = [levels.get(v, 2**32 - 1) for v in range(1024)]
        for threads in "1", "4":
            found = json.loads(self.graph("bfs", path, "none", threads, "60"))
            self.assertEqual(found["edges"], sum(len(neighbors[v]) for v in levels))
            self.assertEqual(int(found["digest"], 16), digest_of(values))
            found = json.loads(self.graph("pagerank", path, "none", threads, "60"))
            self.assertEqual(found["edges"], 3 * sum(map(len, neighbors)))
            self.assertEqual(int(found["digest"], 16), digest_of(scores_of(neighbors)))

    def test_all_modes_give_the_same_answers(self):
        table = self.bench("--algorithm", "bfs").stdout
        self.assertLessEqual(max(map(len, table.splitlines())), 80, table)
        result = self.bench("--threads", "3", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)
        self.assertEqual((data["errors"], data["settings"]["scale"]), ([], 12))
        for algorithm in "bfs", "pagerank":
            rows = {row["mode"]: row for row in data["rows"] if row["algorithm"] == algorithm}
            self.assertLessEqual({"plain", "random", "hugepage", "steered"}, set(rows))
            self.assertEqual(len({row["runs"][0]["digest"] for row in rows.values()}), 1)
            self.assertGreater(rows["random"]["runs"][0]["read_bytes"], 0)  # it was not cached
            self.assertGreaterEqual(rows["hugepage"]["ratio_plain"], 0.001)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_wrong_answer_fails_the_benchmark(self):
        command = self.foreign("#!/bin/sh\ncase $3 in random) wrong=x;; esac\n"
                          f"{GRAPH} \"$@\" | sed \"s/digest.: ./&$wrong/\"\n")
        result = self.bench("--algorithm", "bfs", "--json", "-", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("bfs, random: the answer was wrong", result.stderr)
        self.assertNotIn("random", {row["mode"] for row in json.loads(result.stdout)["rows"]})

    def test_a_run_stops_after_its_time(self):
        path = f"{self.dir}/graph"
        self.graph("make", path, "18", "8")
        for name in "bfs", "pagerank":
            found = json.loads(self.graph(name, path, "none", "2", "0"))
            self.assertNotIn("digest", found)
            self.assertLess(found["edges"], 3 * 2 * 8 << 18)

    def test_a_stopped_run_is_marked_and_not_checked(self):
        command = self.foreign("#!/bin/sh\n[ \"$3\" = random ] && set -- "
                          f"\"$1\" \"$2\" \"$3\" \"$4\" 0\n{GRAPH} \"$@\" | sed 's/edges.: 0/edges\": 1/'\n")
        result = self.bench("--scale", "17", "--algorithm", "bfs", "--mode", "random", "--mode", "plain",
                            command=command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^\* random ")
        self.assertRegex(result.stdout, r"(?m)^  plain ")

    def test_a_run_without_an_edge_fails_the_benchmark(self):
        command = self.foreign(f"#!/bin/sh\n{GRAPH} \"$@\" | sed \"s/edges.: [0-9]*/edges\\\": 0/\"\n")
        result = self.bench("--algorithm", "bfs", "--mode", "plain", command=command)
        self.assertEqual(result.returncode, 1)
        self.assertIn("bfs, plain: no edge was followed", result.stderr)

    def test_another_graph_than_was_stored_is_found(self):
        path = self.read_graph()[0]
        with open(path, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            last, = struct.unpack("I", file.read())
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("I", last ^ 1))
        done = subprocess.run([GRAPH, "bfs", path, "memory", "1", "60"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("another graph than was stored", done.stderr)

    def test_a_damaged_graph_is_refused(self):
        path = f"{self.dir}/graph"
        for content in b"", b"x" * 8192:
            with open(path, "wb") as file:
                file.write(content)
            done = subprocess.run([GRAPH, "bfs", path, "none", "1", "60"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("not a graph", done.stderr)

    def test_nonsense_is_refused_with_a_sentence(self):
        for args in (["--scale", "5"], ["--scale", "28"], ["--degree", "0"], ["--pool", "1M"],
                     ["--algorithm", "dfs"], ["--mode", "fast"], ["--threads", "0"],
                     ["--seconds", "0"], ["--dir", "/nonexistent"], ["more"]):
            self.refuses(args)


if __name__ == "__main__":
    unittest.main()
