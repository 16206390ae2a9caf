#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Run queries of TPC-H by DuckDB and polars, plain and under `hugemap run` in turns.

    analytics.py [--dir DIR] [--size SIZE] [--runs N] [--seconds N] [--query NAME] [--json FILE]

The data of TPC-H comes from tpchgen-cli, as Parquet and as Arrow IPC files. `--size` is about the size of
the table lineitem as Arrow. Decimals are stored as whole cents and percents, so that sums are exact in
every order. Q1 and Q6 scan and add up, and Q14 is a join.

Each run is a process in a memory control group. The limit of the group is the memory of the process, as
measured in a run without a limit, and a third of the columns that the query reads, but at least 16 MB for
these. The first query of a process is cold, since the page cache has dropped the files, and the second one is
warm. Every answer is compared with that of the run without a limit, and these with each other. A run of more
than --seconds is stopped, and its mode runs no more: its row has an asterisk, since its time is that limit and
its answer was not checked.

`tools/install-deps.sh analytics` installs the programs. Exit status: 0, 1 if a run failed or had another
answer, 2 if the command line is wrong.
"""
import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import platform
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, os.fspath(ROOT / "tests/preload"))

from program import CACHE, MB, MemoryGroup, Skip, warm_memory

LINEITEM_BYTES = 820 * MB  # as Arrow, at scale factor 1
BATCH = 128 << 10  # rows
OWN_MARGIN = 1.1  # the memory of a program differs a little from run to run
LEAST_ROOM = 16 * MB  # a short query's peak lies between two samples, and the group counts kernel memory
REFERENCE_SECONDS = 120
REFERENCE_MEMORY = 256 * MB
MAKE_SECONDS = 600
COLUMNS = {
    "q1": {"lineitem": ["l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax",
                        "l_shipdate"]},
    "q6": {"lineitem": ["l_extendedprice", "l_discount", "l_quantity", "l_shipdate"]},
    "q14": {"lineitem": ["l_partkey", "l_extendedprice", "l_discount", "l_shipdate"],
            "part": ["p_partkey", "p_type"]},
}
WAYS = [("duckdb", "arrow"), ("polars", "arrow"), ("polars", "parquet"), ("duckdb", "parquet")]
MODES = ["plain", "steered"]
SQL = {
    "q1": "select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),"
          " sum(l_extendedprice * (100 - l_discount)), sum(l_extendedprice * (100 - l_discount) * (100 + l_tax)),"
          " sum(l_discount), count(*) from lineitem where l_shipdate <= date '1998-09-02'"
          " group by all order by all",
    "q6": "select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= date '1994-01-01'"
          " and l_shipdate < date '1995-01-01' and l_discount between 5 and 7 and l_quantity < 2400",
    "q14": "select sum(case when starts_with(p_type, 'PROMO') then l_extendedprice * (100 - l_discount) else 0 end),"
           " sum(l_extendedprice * (100 - l_discount)) from lineitem join part on l_partkey = p_partkey"
           " where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'",
}


class Failed(Exception):
    """A run of a program failed."""


class Stopped(Failed):
    """A run took more than its time."""


# --- in a process of its own, with the packages of PyPI --------------------------------------------


def make(top: str, scale: str) -> None:
    """Store the tables as Parquet and as Arrow, and the bytes of the columns of each query in sizes.json."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    subprocess.run([os.path.join(sys.prefix, "bin/tpchgen-cli"), "parquet", "-s", scale, "--tables=lineitem,part",
                    f"--output-dir={top}"], check=True, stdout=sys.stderr)
    sizes = {"parquet": {}, "arrow": {}}
    for table in "lineitem", "part":
        path = f"{top}/{table}.parquet"
        source = pq.ParquetFile(path)
        schema = pa.schema([(field.name, plain_type(pa, field.type)) for field in source.schema_arrow])
        count = dict.fromkeys(schema.names, 0)
        with (pa.OSFile(f"{top}/{table}.arrow", "wb") as sink, pa.ipc.new_file(sink, schema) as arrow,
              pq.ParquetWriter(f"{top}/new", schema) as parquet):
            for batch in source.iter_batches(BATCH):
                columns = [whole_numbers(pa, column).cast(field.type) for column, field in zip(batch.columns, schema)]
                batch = pa.record_batch(columns, schema=schema)
                arrow.write_batch(batch)
                parquet.write_batch(batch)
                for name, column in zip(schema.names, columns):
                    count[name] += column.nbytes
        os.rename(f"{top}/new", path)
        sizes["arrow"][table] = count
        sizes["parquet"][table] = parquet_sizes(pq.ParquetFile(path).metadata)
    with open(f"{top}/sizes.json", "w") as file:
        json.dump(sizes, file)


def plain_type(pa, kind):
    if pa.types.is_decimal(kind):
        return pa.int64()
    return pa.string() if pa.types.is_string_view(kind) else kind


def whole_numbers(pa, column):
    """Cents in place of decimals."""
    import pyarrow.compute as pc

    if not pa.types.is_decimal(column.type):
        return column
    return pc.multiply(column, pa.scalar(100, pa.decimal128(3, 0)))


def parquet_sizes(metadata) -> dict[str, int]:
    count = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            count[column.path_in_schema] = count.get(column.path_in_schema, 0) + column.total_compressed_size
    return count


def query_duckdb(top: str, kind: str, name: str) -> list:
    import duckdb

    db = duckdb.connect(config={"threads": os.cpu_count()})
    for table in COLUMNS[name]:
        if kind == "parquet":
            db.execute(f"create view {table} as from read_parquet('{top}/{table}.parquet')")
        else:
            import pyarrow as pa
            db.register(table, pa.ipc.open_file(pa.memory_map(f"{top}/{table}.arrow")).read_all())
    return [list(row) for row in db.execute(SQL[name]).fetchall()]


def query_polars(top: str, kind: str, name: str) -> list:
    import polars as pl

    scan = pl.scan_parquet if kind == "parquet" else pl.scan_ipc
    lines = scan(f"{top}/lineitem.{kind}")
    price, discount, shipped = pl.col("l_extendedprice"), pl.col("l_discount"), pl.col("l_shipdate")
    if name == "q1":
        net = price * (100 - discount)
        found = lines.filter(shipped <= datetime.date(1998, 9, 2)).group_by("l_returnflag", "l_linestatus").agg(
            pl.col("l_quantity").sum(), price.sum(), net.sum().alias("net"),
            (net * (100 + pl.col("l_tax"))).sum().alias("charge"), discount.sum(), pl.len()).sort(
            "l_returnflag", "l_linestatus")
    elif name == "q6":
        found = lines.filter(shipped >= datetime.date(1994, 1, 1), shipped < datetime.date(1995, 1, 1),
                             discount.is_between(5, 7), pl.col("l_quantity") < 2400).select((price * discount).sum())
    else:
        parts = scan(f"{top}/part.{kind}").select("p_partkey", "p_type")
        net = price * (100 - discount)
        found = lines.filter(shipped >= datetime.date(1995, 9, 1), shipped < datetime.date(1995, 10, 1)).join(
            parts, left_on="l_partkey", right_on="p_partkey").select(
            net.filter(pl.col("p_type").str.starts_with("PROMO")).sum().alias("promo"), net.sum().alias("all"))
    return [list(row) for row in found.collect().iter_rows()]


def counters() -> dict[str, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/io") as file:
        io = dict(line.split(": ") for line in file.read().splitlines())
    return {"user_s": usage.ru_utime, "sys_s": usage.ru_stime, "faults": usage.ru_minflt + usage.ru_majflt,
            "read_bytes": int(io["read_bytes"])}


def query(top: str, engine: str, kind: str, name: str) -> None:
    """Run a query twice, and print the results as JSON."""
    ask = {"duckdb": query_duckdb, "polars": query_polars}[engine]
    __import__(engine)
    if kind == "arrow" and engine == "duckdb":
        __import__("pyarrow")
    out = {}
    for moment in "cold", "warm":
        before, start = counters(), time.monotonic()
        answer = ask(top, kind, name)
        seconds = time.monotonic() - start
        out[moment] = {"seconds": seconds, "answer": [[value if isinstance(value, str) else int(value) for value in row]
                                                      for row in answer]}
        out[moment] |= {key: value - before[key] for key, value in counters().items()}
    print(json.dumps(out))


# --- the benchmark ---------------------------------------------------------------------------------


def own_memory(pid: int) -> int:
    """The anonymous memory of a process. 0: it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0


def finish(child: subprocess.Popen, seconds: float) -> int:
    """Wait for a process, and return the most anonymous memory that it had. A process that hangs is killed."""
    end, most = time.monotonic() + seconds, 0
    try:
        while child.poll() is None:
            if time.monotonic() > end:
                raise Stopped(f"stopped after {seconds:.0f} s")
            most = max(most, own_memory(child.pid))
            time.sleep(0.005)
    finally:
        child.kill()
        child.wait()
    return most


def start(command: list[str], seconds: float) -> tuple[str, int]:
    """Run a command; return its output and the most anonymous memory."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        most = finish(child, seconds)
        out.seek(0)
        err.seek(0)
        if child.returncode == -signal.SIGKILL:
            raise Failed("it was killed, as it needed more memory than its limit")
        if child.returncode:
            lines = err.read().split("\n")
            raise Failed(f"exit status {child.returncode}: " + " ".join(lines[-3:]).strip())
        return out.read(), most


def drop(top: pathlib.Path) -> None:
    """Remove the files from the page cache."""
    for path in top.iterdir():
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


class Bench:
    def __init__(self, options: argparse.Namespace, top: pathlib.Path):
        self.options = options
        self.top = top
        self.rows = []
        self.errors = []
        self.answers = {}
        self.cached = set()  # engines whose libraries are in the page cache

    def command(self, *words: str) -> list[str]:
        return [self.options.python, os.path.abspath(__file__), words[0], os.fspath(self.top), *words[1:]]

    def make(self) -> None:
        scale = f"{self.options.size / LINEITEM_BYTES:.3f}"
        start(self.command("make", scale), MAKE_SECONDS)
        self.sizes = json.loads((self.top / "sizes.json").read_text())

    def run(self, mode: str, limit: int | None, *words: str) -> tuple[dict, int]:
        """Run a query twice in a process, the first time cold. limit: of memory"""
        command = self.command("query", *words)
        if mode == "steered":
            command = [self.options.hugemap, "run", "--", *command]
        drop(self.top)
        warm_memory(limit or REFERENCE_MEMORY)
        with MemoryGroup(limit) if limit else contextlib.nullcontext() as group:
            output, most = start(group.wrap(command) if group else command,
                                 self.options.seconds if limit else REFERENCE_SECONDS)
        return json.loads(output), most

    def error(self, text: str) -> None:
        self.errors.append(text)
        print(f"analytics: {text}", file=sys.stderr)

    def reference(self, name: str, engine: str, kind: str) -> tuple[list, int]:
        """The answer of a run without a limit, and the memory that a run may use."""
        if engine not in self.cached:
            self.run("plain", None, engine, kind, name)
            self.cached.add(engine)
        result, own = self.run("plain", None, engine, kind, name)
        answer = result["cold"]["answer"]
        if self.answers.setdefault(name, answer) != answer:
            raise Failed(f"the answer differs from the first program's: {answer} and {self.answers[name]}")
        return answer, own

    def measure(self, name: str, engine: str, kind: str) -> None:
        answer, own = self.reference(name, engine, kind)
        data = sum(self.sizes[kind][table][column] for table, columns in COLUMNS[name].items() for column in columns)
        limit = int(own * OWN_MARGIN) + max(data // 3, LEAST_ROOM)
        runs = {mode: [] for mode in MODES}
        for turn in range(self.options.runs):
            for mode in MODES[::-1] if turn % 2 else MODES:
                if runs[mode] and runs[mode][-1]["stopped"]:
                    runs[mode].append(runs[mode][-1])
                else:
                    runs[mode].append(self.limited(mode, limit, answer, engine, kind, name))
        self.add_rows({"query": name, "engine": engine, "format": kind, "data_bytes": data, "own_bytes": own,
                       "limit_bytes": limit}, runs)

    def limited(self, mode: str, limit: int, answer: list, *words: str) -> dict:
        """A run with a limit of memory, whose answers are checked."""
        try:
            result, _ = self.run(mode, limit, *words)
        except Stopped:
            return {"stopped": True, **{moment: {"seconds": self.options.seconds} for moment in ("cold", "warm")}}
        for moment in "cold", "warm":
            if result[moment].pop("answer") != answer:
                raise Failed(f"{mode}, {moment}: the answer was wrong")
        return {"stopped": False, **result}

    def add_rows(self, fields: dict, runs: dict[str, list[dict]]) -> None:
        for mode, results in runs.items():
            row = {**fields, "mode": mode, "stopped": any(each["stopped"] for each in results)}
            for moment in "cold", "warm":
                row[f"{moment}_s"] = statistics.median(each[moment]["seconds"] for each in results)
                row[f"{moment}_ratio_plain"] = statistics.median(
                    plain[moment]["seconds"] / each[moment]["seconds"] for plain, each in zip(runs["plain"], results))
            self.rows.append({**row, "runs": results})
            print(f"{row['query']:4} {row['engine']:7} {row['format']:8} {mode:8}{'*' if row['stopped'] else ' '} cold {row['cold_s']:6.2f} s "
                  f"{row['cold_ratio_plain']:5.2f}  warm {row['warm_s']:6.2f} s {row['warm_ratio_plain']:5.2f}",
                  flush=True)

    def measure_all(self) -> None:
        try:
            self.make()
        except Failed as why:
            self.error(f"the data could not be made: {why}")
            return
        for name, (engine, kind) in itertools.product(self.options.query or COLUMNS, WAYS):
            try:
                self.measure(name, engine, kind)
            except (Failed, Skip) as why:
                self.error(f"{name}, {engine}, {kind}: {why}")

    def save(self, path: str) -> None:
        with open("/proc/cpuinfo") as file:
            models = [line.split(": ", 1)[1].strip() for line in file if line.startswith("model name")]
        kind = subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "-T", self.top], capture_output=True, text=True)
        data = {"program": "analytics.py", "format": 1, "date": datetime.datetime.now().isoformat("T", "seconds"),
                "machine": {"cpus": os.cpu_count(), "cpu": models[0] if models else platform.machine()},
                "kernel": platform.release(), "file_system": {"type": kind.stdout.strip()},
                "settings": {"size_bytes": self.options.size, "runs": self.options.runs}, "errors": self.errors,
                "rows": self.rows}
        with open(path, "w") as file:
            json.dump(data, file, indent=1)


def size_of(text: str) -> int:
    if not text[:-1].isdecimal() or text[-1] not in "MG":
        raise argparse.ArgumentTypeError(f"{text}: sizes are as 256M or 1G")
    return int(text[:-1]) * {"M": MB, "G": 1 << 30}[text[-1]]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default="/var/tmp", help="where to make the files")
    parser.add_argument("--size", default=1 << 30, type=size_of, help="of lineitem: 256M, 1G (default)")
    parser.add_argument("--runs", default=3, type=int, help="turns (default: 3)")
    parser.add_argument("--seconds", default=40, type=float, help="stop a run after this time (default: 40)")
    parser.add_argument("--query", action="append", choices=COLUMNS, help="only this one; may be given several times")
    parser.add_argument("--hugemap", default=f"{ROOT}/build/hugemap")
    parser.add_argument("--python", default=f"{CACHE}/programs/bin/python", help="a Python with the packages")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if not os.access(options.python, os.X_OK):
        print(f"analytics: there is no {options.python}: tools/install-deps.sh analytics", file=sys.stderr)
        return 1
    # The files and the group are removed if a signal ends the benchmark.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    with tempfile.TemporaryDirectory(prefix="hugemap-analytics-", dir=options.dir) as top:
        bench = Bench(options, pathlib.Path(top))
        bench.measure_all()
        if options.json:
            bench.save(options.json)
    return 1 if bench.errors else 0


if __name__ == "__main__":
    if sys.argv[1:2] in (["make"], ["query"]):
        sys.exit({"make": make, "query": query}[sys.argv[1]](*sys.argv[2:]))
    sys.exit(main())
