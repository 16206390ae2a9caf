#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Record the pages of a mapped file that real programs touch, for the policy simulator.

    record.py [--out DIR] [--work DIR] [NAME...]

Makes the data of each program, runs it under record.c, and writes DIR/NAME.trace. record.c
documents which touches are recorded. LMDB and git are left out if they are not installed. A
trace is:

    hugemap-trace 1 PAGES TOUCHES
    # lines that describe it
    (an empty line)
    numbers of 7 bits a byte, the lowest first, the high bit set in all bytes but the last

Each number is a run of consecutive pages: 4 d + 2 r + s. Its first page lies d pages after the
end of the run before, where d encodes 0, -1, 1, -2, 2 ...; s: the touches are stores; r: another
number follows, which is the number of pages after the first one.
"""
import argparse
import array
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MAX_BYTES = 50_000  # of a trace; later touches are cut off
PAGE = 4096


def zipf(rng: random.Random, n: int) -> int:
    """A random item by Zipf's law with an exponent of nearly 1; hot items are spread over the range."""
    return int((n + 1) ** rng.random() - 1) * 2654435761 % n


# --- the programs: each makes FILE, then is run on it -------------------------------------------


def make_sqlite(file: pathlib.Path) -> None:
    rng = random.Random(1)
    db = sqlite3.connect(file)
    db.execute("create table item (id integer primary key, name text, price integer, note text)")
    for i in range(900_000):
        row = (i, f"{rng.getrandbits(48):012x}", rng.randrange(10000), "x" * rng.randrange(40, 160))
        db.execute("insert into item values (?, ?, ?, ?)", row)
    db.execute("create index by_name on item (name)")
    db.commit()
    db.close()


def run_sqlite(file: pathlib.Path, sql: list[str]) -> None:
    setup = "pragma mmap_size=1000000000; pragma cache_size=10;"
    script = setup + "".join(sql)
    subprocess.run(["sqlite3", "-readonly", file], input=script, text=True, check=True, stdout=subprocess.DEVNULL)


def sqlite_keys(file: pathlib.Path) -> None:
    rng = random.Random(2)
    run_sqlite(file, [f"select name, price from item where id = {zipf(rng, 900_000)};" for _ in range(30_000)])


def sqlite_mixed(file: pathlib.Path) -> None:
    rng = random.Random(3)
    sql = []
    for i in range(6000):
        sql.append(f"select id, note from item where name >= '{rng.getrandbits(48):012x}' order by name limit 5;")
        if i % 2000 == 1000:
            sql.append("select avg(price), max(length(note)) from item;")
        if i % 500 == 250:
            start = rng.randrange(800_000)
            sql.append(f"select sum(price) from item where id between {start} and {start + 20_000};")
    run_sqlite(file, sql)


def make_rows(file: pathlib.Path) -> None:
    import numpy as np

    rng = np.random.default_rng(4)
    rows = np.memmap(file, np.float32, "w+", shape=(500_000, 64))
    for i in range(0, len(rows), 10_000):
        rows[i : i + 10_000] = rng.random((10_000, 64), np.float32)
    rows.flush()


def numpy_columns(file: pathlib.Path) -> None:
    """Sums, a selection by rows, and stores to a column of a sixteenth of the rows."""
    import numpy as np

    rng = np.random.default_rng(5)
    rows = np.memmap(file, np.float32, "r+", shape=(500_000, 64))
    rows[:, 3].sum()
    for _ in range(4):
        start = rng.integers(len(rows) * 15 // 16)
        part = rows[start : start + len(rows) // 16]
        part[:, 5] = part[:, 3] * 2
        for i in rng.integers(len(rows), size=3000):
            rows[i].sum()
        rows[np.sort(rng.integers(len(rows), size=1500))].mean(axis=0)
    rows[:, 5].max()


POINTS, DIM, LINKS = 120_000, 160, 32


def make_graph(file: pathlib.Path) -> None:
    """Points in clusters, in random order; each has links to near and far points."""
    import numpy as np

    rng = np.random.default_rng(6)
    record = np.dtype([("links", np.int32, LINKS), ("at", np.float32, DIM)])
    points = np.memmap(file, record, "w+", shape=POINTS)
    cluster = rng.permutation(POINTS) // 60
    centers = rng.standard_normal((POINTS // 60, DIM)).astype(np.float32)
    order = np.argsort(centers[:, 0])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    members = np.argsort(cluster, kind="stable").reshape(-1, 60)
    for c, ids in enumerate(members):
        near = members[order[np.clip(place[c] + np.arange(-3, 4), 0, len(order) - 1)]].ravel()
        points["at"][ids] = centers[c] + 0.3 * rng.standard_normal((60, DIM))
        links = (rng.choice(near, (60, LINKS - 8)), rng.integers(POINTS, size=(60, 8)))
        points["links"][ids] = np.concatenate(links, axis=1)
    points.flush()


def graph_search(file: pathlib.Path) -> None:
    """Best-first search along links with 24 candidates, like the lowest layer of an HNSW index."""
    import heapq

    import numpy as np

    rng = np.random.default_rng(7)
    record = np.dtype([("links", np.int32, LINKS), ("at", np.float32, DIM)])
    points = np.memmap(file, record, "r", shape=POINTS)
    for _ in range(60):
        query = rng.standard_normal(DIM).astype(np.float32)

        def far(i: int, query=query) -> float:
            return float(np.square(points[i]["at"] - query).sum())

        start = int(rng.integers(POINTS))
        seen, todo, best = {start}, [(far(start), start)], []
        while todo:
            away, i = heapq.heappop(todo)
            if len(best) == 24 and away > -best[0][0]:
                break
            heapq.heappush(best, (-away, i))
            if len(best) > 24:
                heapq.heappop(best)
            for j in points[i]["links"].tolist():
                if j not in seen:
                    seen.add(j)
                    heapq.heappush(todo, (far(j), j))


def make_lmdb(file: pathlib.Path) -> None:
    import lmdb

    rng = random.Random(8)
    with lmdb.open(str(file), subdir=False, map_size=256 << 20, writemap=True, sync=False) as env:
        for _ in range(20):
            with env.begin(write=True) as txn:
                for _ in range(20_000):
                    txn.put(rng.getrandbits(64).to_bytes(8, "big"), bytes(rng.randrange(60, 250)))


def lmdb_mixed(file: pathlib.Path) -> None:
    """Three reads per store, keys by Zipf's law, 100 operations in a transaction."""
    import lmdb

    keys, rng = [], random.Random(8)
    for _ in range(400_000):
        keys.append(rng.getrandbits(64).to_bytes(8, "big"))
        rng.randrange(60, 250)
    rng = random.Random(9)
    with lmdb.open(str(file), subdir=False, map_size=256 << 20, writemap=True, sync=False) as env:
        for _ in range(60):
            with env.begin(write=True) as txn:
                for i in range(100):
                    key = keys[zipf(rng, len(keys))]
                    if i % 4:
                        txn.get(key)
                    else:
                        txn.put(key, bytes(rng.randrange(60, 250)))


def make_git(file: pathlib.Path) -> None:
    """A pack of the larger directories of headers and Python packages in /usr, one commit each."""
    repository = file.with_suffix(".git-work")
    git = ["git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@x", "-c", "gc.auto=0"]
    subprocess.run(["git", "init", "-q", repository], check=True)
    places = [pathlib.Path("/usr/include"), pathlib.Path("/usr/lib/python3/dist-packages")]
    for source in [source for place in places for source in sorted(place.iterdir())]:
        size = sum(f.stat().st_size for f in source.rglob("*") if f.is_file()) if source.is_dir() else 0
        if size < 200_000:
            continue
        shutil.copytree(source, repository / source.name, symlinks=True, ignore=shutil.ignore_patterns("*.pyc"))
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", source.name], check=True)
    subprocess.run([*git, "repack", "-adq"], check=True)
    pack = next((repository / ".git/objects/pack").glob("*.pack"))
    file.symlink_to(pack)


def git_log(file: pathlib.Path) -> None:
    """The statistics of each commit, then a search for a word in the last one."""
    repository = file.with_suffix(".git-work")
    subprocess.run(["git", "-C", repository, "log", "--stat"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["git", "-C", repository, "grep", "-c", "folio", "HEAD"], check=False, stdout=subprocess.DEVNULL)


PROGRAMS = {
    "sqlite-keys": (make_sqlite, sqlite_keys, "sqlite3 (mmap_size): rows of a table by its key, by Zipf's law"),
    "sqlite-mixed": (make_sqlite, sqlite_mixed, "sqlite3: rows by an index; now and then a part, or all, of the table"),
    "numpy-columns": (make_rows, numpy_columns, "numpy.memmap: columns read and stored to, and rows at random"),
    "graph-search": (make_graph, graph_search, "a search along the links of near points, as in HNSW, numpy.memmap"),
    "lmdb-mixed": (make_lmdb, lmdb_mixed, "LMDB with writemap: keys by Zipf's law, three reads to a store"),
    "git-log": (make_git, git_log, "git log --stat, then git grep, of a pack"),
}


# --- recording --------------------------------------------------------------------------------


def number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(touches: array.array) -> tuple[bytes, int]:
    """The numbers, and the count of touches that they encode."""
    out, i, expected = bytearray(), 0, 0
    while i < len(touches):
        end = i + 1
        while end < len(touches) and touches[end] == touches[end - 1] + 2:
            end += 1
        d = (touches[i] >> 1) - expected
        d = 2 * d if d >= 0 else -2 * d - 1
        more = end - i - 1
        run = number(d << 2 | (2 if more else 0) | touches[i] & 1) + (number(more) if more else b"")
        if len(out) + len(run) > MAX_BYTES:
            break
        out += run
        expected = (touches[end - 1] >> 1) + 1
        i = end
    return bytes(out), i


def record(name: str, work: pathlib.Path, out: pathlib.Path, library: pathlib.Path) -> None:
    make, _, title = PROGRAMS[name]
    file = work / make.__name__.removeprefix("make_")
    if not file.exists():
        make(file)
    raw = work / "touches"
    raw.unlink(missing_ok=True)
    environment = os.environ | {"HM_RECORD": str(raw), "HM_RECORD_FILE": str(file), "LD_PRELOAD": str(library)}
    subprocess.run([sys.executable, __file__, "--run", name, file], check=True, env=environment)
    with raw.open("rb") as data:
        n = int.from_bytes(data.read(8), "little")
        touches = array.array("I", data.read(4 * n))
    numbers, written = encode(touches)
    pages = (file.stat().st_size + PAGE - 1) // PAGE
    head = f"hugemap-trace 1 {pages} {written}\n# {title}\n"
    head += f"# recorded by tests/kernel/policy/record.py; the first {written} of {len(touches)} touches\n\n"
    (out / f"{name}.trace").write_bytes(head.encode() + numbers)
    distinct = len({touch >> 1 for touch in touches[:written]})
    print(f"{name}: {pages} pages, {distinct} touched, {written} of {len(touches)} touches, {len(numbers)} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "traces")
    parser.add_argument("--work", type=pathlib.Path, help="directory of the data, which is kept")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    args = parser.parse_args()
    if args.run:
        PROGRAMS[args.run[0]][1](pathlib.Path(args.run[1]))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or pathlib.Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        library = work / "record.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "record.c"], check=True)
        for name in args.names or PROGRAMS:
            record(name, work.resolve(), args.out, library.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
