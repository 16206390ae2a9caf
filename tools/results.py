#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Run the papers' experiments, and write their tables beside ours (`make results`).

results.py [--size SIZE] [--build DIR] [--only NAME]

Each experiment is a command of `hugemap bench`, and its JSON is kept in BUILD/results/: an interrupted
run continues with the next experiment. Delete a file to repeat its experiment. The page and its charts
are BUILD/results/results.md and NAME.svg.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import report

GB = 1 << 30
UNITS = {"M": 1 << 20, "G": GB}


def size_of(text: str) -> int:
    if not text[:-1].isdecimal() or text[-1] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text}: sizes are as 256M or 1G")
    return int(text[:-1]) * UNITS[text[-1]]


def experiments(size: int) -> dict[str, tuple[str, str, list[str]]]:
    """Name -> title, the paper's result, arguments of `hugemap bench`."""
    data = f"{size >> 20}M"
    records = str(size // 1020)
    scale = (size // 144).bit_length() - 1  # a vertex has 16 edges, and 144 bytes with them
    store = ["ycsb", "--records", records, "--threads", "2", "--runs", "3"]
    return {
        "sequential": ("HugeMap: sequential reads and writes of a mapping",
                       "reads 1.54 x Linux with MADV_SEQUENTIAL with 1 thread; writes 3.7 x 4 KB pages with 32",
                       ["--size", data, "--runs", "3", "--threads", "1,2,4", "--scenario", "seq-read",
                        "--scenario", "seq-write", "--scenario", "rewrite"]),
        "checkpoint": ("HugeMap: IOR checkpoint and restore, one shared file",
                       "8 processes, 160 GB, 50 GB of memory: checkpoint 0.96 and restore 1.006 of read/write; "
                       "restore 1.44 x Linux mmap",
                       ["--size", data, "--runs", "3", "--threads", "1,2,4,8", "--scenario", "checkpoint",
                        "--scenario", "restore"]),
        "checkpoint-own": ("HugeMap: IOR checkpoint and restore, a file for each process",
                           "no numbers; their figure is for one shared file",
                           ["--size", data, "--runs", "3", "--threads", "1,2,4,8", "--scenario", "checkpoint-own",
                            "--scenario", "restore-own"]),
        "ycsb-small": ("HugeMap: a key-value store in memory",
                       "Kreon, inserts only: 1.895 x 4 KB pages",
                       [*store, "--pool", f"{3 * size >> 20}M"]),
        "ycsb-large": ("FastMap: a key-value store larger than memory",
                       "Kreon, 80 GB of data and 16 GB of memory: pictures only", store),
        "graph": ("FastMap: algorithms on a graph larger than memory",
                  "Ligra's breadth-first search: pictures only",
                  ["graph", "--scale", str(scale), "--threads", "2", "--runs", "3", "--seconds", "20",
                   *(word for mode in ("plain", "plain-128", "random", "hugepage", "steered")
                     for word in ("--mode", mode))]),
        "direct": ("Oracle 2014: asynchronous direct reads into huge pages",
                   "1 MB: 8384, 6501 and 8371 MB/s; 64 KB: 7867, 4251 and 6510 MB/s (2.6.32, 3.11-rc5, with the patch)",
                   ["direct", "--size", data, "--runs", "3"]),
        "curve": ("CIDR 2022: throughput before and after memory is full",
                  "mmap falls by half or more when memory is full",
                  ["curve", "--size", data, "--runs", "1"]),
    }


def run(name: str, arguments: list[str], build: pathlib.Path, results: pathlib.Path) -> dict:
    path = results / f"{name}.json"
    if not path.exists():
        print(f"{name}: hugemap bench {' '.join(arguments)}", flush=True)
        new = path.with_suffix(".new")
        done = subprocess.run([build / "hugemap", "bench", *arguments, "--dir", results, "--json", new],
                              stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"{name} failed. The results so far are in {results}; repeat the command to continue.")
        os.rename(new, path)
    return json.loads(path.read_text())


def lines_of_ycsb(data: dict) -> list[str]:
    lines = ["| workload | store | mode | operations/s | of plain | of random | p99 us |", "|---|---|---|---|---|---|---|"]
    for row in data["rows"]:
        p99 = statistics.median((each["read_us"] or each["write_us"])["p99"] for each in row["runs"])
        lines.append(f"| {row['workload']} | {row['store']} | {row['mode']} | {row['ops_s']:.0f} | "
                     f"{row['ratio_plain']:.2f} | {row['ratio_random']:.2f} | {p99:.0f} |")
    return lines


def lines_of_graph(data: dict) -> list[str]:
    lines = ["| algorithm | mode | million edges/s | of plain | of the best Linux mmap | MB read |", "|---|---|---|---|---|---|"]
    for row in data["rows"]:
        read = statistics.median(each["read_bytes"] for each in row["runs"]) / (1 << 20)
        lines.append(f"| {row['algorithm']} | {row['mode']} | {row['medges_s']:.2f} | "
                     f"{row['ratio_plain']:.2f} | {row['ratio_best']:.2f} | {read:.0f} |")
    return lines


def lines_of_direct(data: dict) -> list[str]:
    lines = ["| read | memory | buffers | MB/s | of the fastest | system us/MB |", "|---|---|---|---|---|---|"]
    for row in data["rows"]:
        found = (f"refused: {row['refused']} | |" if row["refused"] else
                 f"{row['mb_s']:.0f} | {row['ratio_best']:.2f} | {row['system_us_mb']:.0f}")
        lines.append(f"| {row['block']} | {row['target']} | {row['buffers']} | {found} |")
    return lines


def lines_of_bench(data: dict) -> list[str]:
    lines = ["| scenario | workers | way | MB/s | of the best Linux mmap | user, system, iowait, idle % | after / before |",
             "|---|---|---|---|---|---|---|"]
    for row in data["rows"]:
        shares = [100 * statistics.median(each["machine_time"][key] for each in row["runs"])
                  for key in ("user", "system", "iowait", "idle")] if row["runs"] else []
        curves = [each["curve"]["ratio"] for each in row["runs"] if each.get("curve") and each["curve"]["ratio"]]
        ratio = row["ratio_best_linux"]
        lines.append(f"| {row['scenario']} | {row['threads']} | {row['title']} | {row['mb_s'] or 0:.0f} | "
                     f"{f'{ratio:.2f}' if ratio else ''} | {', '.join(f'{share:.0f}' for share in shares)} | "
                     f"{f'{statistics.median(curves):.2f}' if curves else ''} |")
    return lines


# The kind of an experiment: the value that its chart shows, its unit, and the label of a row.
CHARTS = {
    "ycsb": ("ops_s", "operations/s", "{workload}, {store}, {mode}"),
    "graph": ("medges_s", "million edges/s", "{algorithm}, {mode}"),
    "direct": ("mb_s", "MB/s", "{block}, {target}, {buffers}"),
    "bench": ("mb_s", "MB/s", "{scenario}, {threads}: {title}"),
}
TABLES = {"ycsb": lines_of_ycsb, "graph": lines_of_graph, "direct": lines_of_direct}


def chart(name: str, title: str, data: dict, path: pathlib.Path) -> None:
    plt = report.prepare_matplotlib() or sys.exit("charts need matplotlib: apt-get install python3-matplotlib")
    if name == "curve":
        groups = report.groups_of(data)
        figure, panels = plt.subplots(len(groups), squeeze=False, figsize=(9, 3 * len(groups)), layout="tight")
        for (panel,), ((scenario, threads), rows) in zip(panels, groups.items()):
            report.draw_curve(panel, rows)
            panel.set_title(f"{scenario}, {report.workers_text(scenario, threads)}")
    else:
        key, unit, label = CHARTS.get(name.split("-")[0], CHARTS["bench"])
        rows = [row for row in data["rows"] if row[key]]
        labels = [label.format(**row) for row in rows]
        figure, axes = plt.subplots(figsize=(9, 1 + 0.2 * len(rows)))
        axes.barh(labels, [row[key] for row in rows])
        axes.set_xlabel(unit)
        axes.set_title(title)
        axes.invert_yaxis()
    figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None})
    plt.close(figure)


def write(size: int, results: pathlib.Path, found: dict[str, dict]) -> None:
    every = next(iter(found.values()))
    lines = ["# The papers' experiments: results of `make results`", "",
             f"**Ours**: {every['machine']['cpus']} processors ({every['machine']['cpu']}), Linux {every['kernel']}, "
             f"{every['file_system']['type']}, {size >> 20} MB of data. Load of the machine at the end: "
             f"{os.getloadavg()[0]:.1f}; numbers from a loaded machine are no results.",
             "**Theirs**: 32 hyper-threads, Intel Optane P4800X, Linux 4.14. Absolute numbers cannot be compared; "
             "see docs/papers.md for the ratios that can.", ""]
    for name, (title, theirs, arguments) in experiments(size).items():
        if name in found:
            table = TABLES.get(name.split("-")[0], lines_of_bench)
            chart(name, title, found[name], results / f"{name}.svg")
            lines += [f"## {title}", f"Theirs: {theirs}.", "", f"`hugemap bench {' '.join(arguments)}`", "",
                      *table(found[name]), "", f"![{title}]({name}.svg)", ""]
    lines += ["## Not run here", "Silo (TPC-C), MonetDB (TPC-H), Ingens' Redis and MongoDB, IOzone, and the kernel",
              "engine: these have no command yet that this program could run.", ""]
    (results / "results.md").write_text("\n".join(lines))
    print(results / "results.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default=GB, type=size_of, help="size of the data: 256M, 1G (default)")
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=experiments(GB),
                        help="only this experiment; may be given several times")
    options = parser.parse_args()
    size = options.size
    results = options.build / ("results" if size == GB else f"results-{size >> 20}M")
    results.mkdir(exist_ok=True)
    found = {name: run(name, arguments, options.build, results)
             for name, (_, _, arguments) in experiments(size).items()
             if not options.only or name in options.only}
    write(size, results, found)


if __name__ == "__main__":
    main()
