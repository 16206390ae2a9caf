#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Run the papers' experiments, and write their tables beside ours (`make results`).

results.py [--size SIZE] [--build DIR] [--docs DIR] [--only NAME]

Each experiment is a command, and its JSON is kept in BUILD/results/: an interrupted run continues with the
next experiment. An experiment is repeated if its command has changed or its file was deleted. An experiment
that fails or takes too long has a sentence with the reason in the page, and the others run; the exit status
is 1 then. Tables of the kernel engine come from BUILD/results/kernel-*.json. The page is DOCS/results.md, and
its charts are DOCS/results/NAME.svg. With --only, the page has the results of earlier runs, too.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, os.fspath(ROOT / "bench"))

import report
from results_papers import CONDITIONS, NOT_REPRODUCED, Experiment, experiments

GB = 1 << 30
UNITS = {"M": 1 << 20, "G": GB}
END_SECONDS = 60  # an experiment that is stopped removes its files in this time


def size_of(text: str) -> int:
    if not text[:-1].isdecimal() or text[-1] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text}: sizes are as 256M or 1G")
    return int(text[:-1]) * UNITS[text[-1]]


# --- the runs --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Found:
    """The result of an experiment: its JSON, or None, and why it failed, or None."""
    data: dict | None
    failed: str | None = None


def full_command(experiment: Experiment, build: pathlib.Path, results: pathlib.Path, new: pathlib.Path) -> list:
    program, *words = experiment.command
    if program == "hugemap":
        start = [build / "hugemap", *words]
    else:
        start = ["/usr/bin/python3", ROOT / program, *words, "--hugemap", build / "hugemap"]
    return [*start, "--dir", results, "--json", new]


def wait(child: subprocess.Popen, seconds: float) -> str | None:
    """Return why the child failed, or None."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.terminate()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return f"It took more than {seconds / 60:.0f} minutes and was stopped."
    if child.returncode == 130:
        raise KeyboardInterrupt
    return f"It ended with status {child.returncode}." if child.returncode else None


def last_line(log: pathlib.Path) -> str:
    lines = [line for line in re.split(r"[\r\n]+", log.read_text(errors="replace")) if line.strip()]
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", lines[-1]).strip() if lines else ""


def load_json(path: pathlib.Path) -> dict | None:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def run(name: str, experiment: Experiment, build: pathlib.Path, results: pathlib.Path) -> Found:
    path, new, log = (results / f"{name}{end}" for end in (".json", ".new", ".log"))
    failed_path = results / f"{name}.failed"
    command = " ".join(experiment.command)
    print(f"{name}: {command}", flush=True)
    before, start = os.getloadavg()[0], time.monotonic()
    new.unlink(missing_ok=True)
    with open(log, "w") as errors:
        child = subprocess.Popen(full_command(experiment, build, results, new), stdout=subprocess.DEVNULL,
                                 stderr=errors, stdin=subprocess.DEVNULL)
        try:
            failed = wait(child, 60 * experiment.minutes)
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            raise
    data = load_json(new)
    if not data and not failed:
        failed = "It wrote no results."
    if data:
        data["made"] = {"command": command, "seconds": round(time.monotonic() - start),
                        "load": [before, os.getloadavg()[0]], "commit": commit()}
        if failed:
            data["made"]["failed"] = f"{failed} The last message: {last_line(log)}"
        new.write_text(json.dumps(data))
        os.rename(new, failed_path if failed else path)
    if failed:
        failed = f"{failed} The last message: {last_line(log)}"
        print(f"{name}: {failed}", file=sys.stderr, flush=True)
    else:
        failed_path.unlink(missing_ok=True)
    return Found(data, failed)


def commit() -> str:
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip()


def earlier(name: str, experiment: Experiment, results: pathlib.Path) -> Found | None:
    """The result of an earlier call, if its command was the same."""
    for end in ".json", ".failed":
        data = load_json(results / f"{name}{end}")
        if data and data.get("made", {}).get("command") == " ".join(experiment.command):
            return Found(data, data["made"].get("failed"))
    return None


# --- the tables ------------------------------------------------------------------------------------


def table(columns: list[str], rows: list[list]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines]


def table_ycsb(data: dict) -> list[str]:
    rows = []
    for row in data["rows"]:
        p99 = statistics.median((each["read_us"] or each["write_us"])["p99"] for each in row["runs"])
        rows.append([row["workload"], row["store"], row["mode"], f"{row['ops_s']:.0f}", f"{row['ratio_plain']:.2f}",
                     f"{row['ratio_random']:.2f}", f"{p99:.0f}"])
    return table(["workload", "store", "mode", "operations/s", "of plain", "of random", "p99 us"], rows)


def table_graph(data: dict) -> list[str]:
    rows = []
    for row in data["rows"]:
        read = statistics.median(each["read_bytes"] for each in row["runs"]) / (1 << 20)
        rows.append([row["algorithm"], row["mode"], f"{row['medges_s']:.2f}", f"{row['ratio_plain']:.2f}",
                     f"{row['ratio_best']:.2f}", f"{read:.0f}"])
    return table(["algorithm", "mode", "million edges/s", "of plain", "of the best Linux mmap", "MB read"], rows)


def table_direct(data: dict) -> list[str]:
    rows = []
    for row in data["rows"]:
        found = ([f"refused: {row['refused']}", "", ""] if row["refused"] else
                 [f"{row['mb_s']:.0f}", f"{row['ratio_best']:.2f}", f"{row['system_us_mb']:.0f}"])
        rows.append([row["block"], row["target"], row["buffers"], *found])
    return table(["read", "memory", "buffers", "MB/s", "of the fastest", "system us/MB"], rows)


def table_cached(data: dict) -> list[str]:
    rows = [[row["operation"], f"{row['size_bytes'] >> 20} MB", row["file_system"], f"{row['mb_s']:.0f}",
             f"{row['ratio_tmpfs']:.2f}" if row["ratio_tmpfs"] else ""] for row in data["rows"]]
    return table(["operation", "file", "file system", "MB/s", "of tmpfs"], rows)


def table_analytics(data: dict) -> list[str]:
    rows = []
    for row in data["rows"]:
        star = "*" if row["stopped"] else ""
        rows.append([row["query"], row["engine"], row["format"], row["mode"] + star,
                     *(text for moment in ("cold", "warm")
                       for text in (f"{row[f'{moment}_s']:.2f}", f"{row[f'{moment}_ratio_plain']:.2f}")),
                     f"{row['data_bytes'] / (1 << 20):.0f}", f"{row['limit_bytes'] / (1 << 20):.0f}"])
    return table(["query", "program", "format", "mode", "cold, s", "gain", "warm, s", "gain", "MB of columns",
                  "MB of memory"], rows)


def table_bench(data: dict) -> list[str]:
    rows = []
    for row in data["rows"]:
        shares = [100 * statistics.median(each["machine_time"][key] for each in row["runs"])
                  for key in ("user", "system", "iowait", "idle")] if row["runs"] else []
        curves = [each["curve"]["ratio"] for each in row["runs"] if each.get("curve") and each["curve"]["ratio"]]
        ratio = row["ratio_best_linux"]
        rows.append([row["scenario"], row["threads"], row["title"],
                     report.show(report.value_of(row), row) if row["runs"] else "",
                     f"{ratio:.2f}" if ratio else "", ", ".join(f"{share:.0f}" for share in shares),
                     f"{statistics.median(curves):.2f}" if curves else ""])
    return table(["scenario", "workers", "way", "speed", "of the best Linux mmap", "user, system, iowait, idle %",
                  "after / before"], rows)


TABLES = {"ycsb": table_ycsb, "graph": table_graph, "direct": table_direct, "cached": table_cached,
          "analytics": table_analytics, "bench": table_bench, "curve": table_bench}


def ratios_ycsb(data: dict) -> list[tuple[str, float]]:
    return [(f"{row['workload']} on {row['store']}", row["ratio_random"]) for row in data["rows"]
            if row["mode"] == "steered"]


def ratios_graph(data: dict) -> list[tuple[str, float]]:
    return [(row["algorithm"], row["ratio_best"]) for row in data["rows"] if row["mode"] == "steered"]


def ratios_direct(data: dict) -> list[tuple[str, float]]:
    small = {row["block"]: row["mb_s"] for row in data["rows"] if (row["target"], row["buffers"]) == ("small", "plain")}
    return [(f"{row['target']} of small, {row['block']}", row["mb_s"] / small[row["block"]]) for row in data["rows"]
            if row["buffers"] == "plain" and row["target"] != "small" and small.get(row["block"])]


def ratios_cached(data: dict) -> list[tuple[str, float]]:
    most = max(row["size_bytes"] for row in data["rows"])
    return [(f"{row['operation']} on {row['file_system']}", row["ratio_tmpfs"]) for row in data["rows"]
            if row["size_bytes"] == most and row["file_system"] != "tmpfs"]


def ratios_analytics(data: dict) -> list[tuple[str, float]]:
    return [(f"{row['query']}, {row['engine']} on {row['format']}", row["cold_ratio_plain"]) for row in data["rows"]
            if row["mode"] == "steered" and (row["engine"], row["format"]) != ("duckdb", "parquet")]


def ratios_bench(data: dict) -> list[tuple[str, float]]:
    return [(f"{row['scenario']}, {report.workers_text(row['scenario'], row['threads'])}", row["ratio_best_linux"])
            for row in data["rows"] if row["engine"] == "hugemap-steer"]


def ratios_curve(data: dict) -> list[tuple[str, float]]:
    return [(f"{row['scenario']}, {row['threads']}, {row['title']}", statistics.median(ratios)) for row in data["rows"]
            if (ratios := [each["curve"]["ratio"] for each in row["runs"] if each["curve"]["ratio"]])
            and (row["engine"] == "hugemap-steer" or row["advice"] == "default")]


RATIOS = {"ycsb": ratios_ycsb, "graph": ratios_graph, "direct": ratios_direct, "cached": ratios_cached,
          "analytics": ratios_analytics, "bench": ratios_bench, "curve": ratios_curve}


def ratios_text(kind: str, data: dict) -> str:
    """The ratios of an experiment that can be compared with those of the paper."""
    return "; ".join(f"{label}: {ratio:.2f}" for label, ratio in RATIOS[kind](data) if ratio) or "none"


# --- the charts ------------------------------------------------------------------------------------

# The kind of an experiment: the value that its chart shows, its unit, and the label of a row.
CHARTS = {
    "ycsb": ("ops_s", "operations/s, more is better", "{workload}, {store}, {mode}"),
    "graph": ("medges_s", "million edges/s, more is better", "{algorithm}, {mode}"),
    "direct": ("mb_s", "MB/s, more is better", "{block}, {target}, {buffers}"),
    "analytics": ("cold_s", "seconds, cold, less is better", "{query}, {engine}, {format}, {mode}"),
}


def chart(kind: str, title: str, data: dict, path: pathlib.Path) -> None:
    plt = report.prepare_matplotlib() or sys.exit("charts need matplotlib: apt-get install python3-matplotlib")
    draw = {"curve": chart_groups, "bench": chart_groups, "cached": chart_cached}.get(kind, chart_bars)
    figure = draw(plt, kind, title, data)
    figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None})
    plt.close(figure)


def chart_groups(plt, kind: str, _: str, data: dict):
    groups = report.groups_of(data)
    heights = [3 if kind == "curve" else 1 + 0.25 * len(rows) for rows in groups.values()] or [1]
    figure, panels = plt.subplots(len(heights), squeeze=False, figsize=(9, sum(heights)), layout="tight",
                                  gridspec_kw={"height_ratios": heights})
    for (panel,), ((scenario, threads), rows) in zip(panels, groups.items()):
        name = f"{scenario}, {report.workers_text(scenario, threads)}"
        if kind == "curve":
            report.draw_curve(panel, rows)
            panel.set_title(name)
        else:
            report.draw_values(panel, rows, name)
    return figure


def chart_cached(plt, _: str, title: str, data: dict):
    figure, panels = plt.subplots(1, 4, sharey=True, figsize=(10, 3), layout="tight")
    for panel, operation in zip(panels, ("write", "rewrite", "read", "reread")):
        for kind in sorted({row["file_system"] for row in data["rows"]}):
            rows = [row for row in data["rows"] if (row["operation"], row["file_system"]) == (operation, kind)]
            panel.plot([row["size_bytes"] >> 20 for row in rows], [row["mb_s"] for row in rows], marker="o", label=kind)
        panel.set_xscale("log", base=4)
        panel.set_xlabel("file, MB")
        panel.set_title(operation)
    panels[0].set_ylabel("MB/s, more is better")
    panels[0].set_ylim(bottom=0)
    panels[-1].legend(frameon=False)
    figure.suptitle(title)
    return figure


def chart_bars(plt, kind: str, title: str, data: dict):
    key, unit, label = CHARTS[kind]
    rows = [row for row in data["rows"] if row[key]]
    return bars(plt, [label.format(**row) for row in rows], [row[key] for row in rows], unit, title)


def bars(plt, labels: list[str], values: list[float], unit: str, title: str):
    figure, axes = plt.subplots(figsize=(9, 1 + 0.2 * len(labels)))
    places = range(len(labels))
    axes.barh(places, values)
    axes.set_yticks(places, labels)
    axes.set_xlabel(unit)
    axes.set_title(title)
    axes.invert_yaxis()
    return figure


# --- the page --------------------------------------------------------------------------------------


def section(name: str, experiment: Experiment, found: Found, charts: pathlib.Path) -> list[str]:
    lines = [f"## {experiment.title}", f"**Theirs**: {experiment.theirs}.", "",
             f"**Comparison**: {experiment.compare}.", ""]
    data = found.data
    if data and data["rows"]:
        lines += [f"**Ours**: {ratios_text(experiment.kind, data)}.", ""]
    lines += [f"`{' '.join(experiment.command)}`", ""]
    if found.failed:
        lines += [f"**This experiment failed.** {found.failed}", ""]
    if not data:
        return lines
    made = data["made"]
    lines += [f"{data['date'][:16].replace('T', ' ')}, commit {made['commit']}, {made['seconds']} s; load of the machine "
              f"{made['load'][0]:.1f} before and {made['load'][1]:.1f} after.", ""]
    if data["rows"]:
        chart(experiment.kind, experiment.title, data, charts / f"{name}.svg")
        lines += [*TABLES[experiment.kind](data), "", f"![{experiment.title}]({charts.name}/{name}.svg)", ""]
    return lines


def number(cell) -> float | None:
    """The number at the start of a cell."""
    found = re.match(r"-?\d+(\.\d+)?", str(cell).replace(",", ""))
    return float(found[0]) if found else None


def section_kernel(path: pathlib.Path, charts: pathlib.Path) -> list[str]:
    """A table of the kernel engine, whose program has made it ready for the page."""
    data = json.loads(path.read_text())
    columns, rows = data["columns"], data["rows"]
    lines = [f"## {data['title']}", f"**Theirs**: {data['theirs'].rstrip('.')}.", "", f"`{data['command']}`", "",
             *table(columns, rows), ""]
    if data.get("notes"):
        lines += [data["notes"], ""]
    value = data.get("value")
    if value in columns:
        at = columns.index(value)
        shown = [row for row in rows if number(row[at]) is not None]
        labels = [", ".join(str(cell) for cell, column in zip(row, columns)
                            if column != value and number(cell) is None or column == columns[0]) for row in shown]
        plt = report.prepare_matplotlib() or sys.exit("charts need matplotlib: apt-get install python3-matplotlib")
        figure = bars(plt, labels, [number(row[at]) for row in shown], data.get("unit", value), data["title"])
        figure.savefig(charts / f"{path.stem}.svg", bbox_inches="tight", facecolor="white", metadata={"Date": None})
        plt.close(figure)
        lines += [f"![{data['title']}]({charts.name}/{path.stem}.svg)", ""]
    return lines


def sections_kernel(build: pathlib.Path, charts: pathlib.Path) -> tuple[list[str], bool]:
    """The tables of the kernel engine, which do not depend on --size."""
    lines, right = [], True
    for path in sorted((build / "results").glob("kernel-*.json")):
        try:
            lines += section_kernel(path, charts)
        except (KeyError, TypeError, ValueError, IndexError) as why:
            lines += [f"## {path.stem}", f"**This table failed.** {path.name} has another form: {why!r}.", ""]
            right = False
    if not lines:
        lines = ["## The kernel engine", "Its tables are made in virtual machines by `vm/run.py bench`, and",
                 f"{build}/results has none of them.", ""]
    return lines, right


def machine(found: dict[str, Found], size: int) -> str:
    data = next((each.data for each in found.values() if each.data), None)
    if not data:
        return f"**Ours**: {size >> 20} MB of data. No experiment has a result."
    ahead = next((str(each.data["device"]["read_ahead_kb"]) for each in found.values()
                  if each.data and isinstance(each.data.get("device"), dict) and
                  each.data["device"].get("read_ahead_kb")), "unknown")
    return (f"**Ours**: {data['machine']['cpus']} processors ({data['machine']['cpu']}), Linux {data['kernel']}, "
            f"{data['file_system']['type']}, read_ahead_kb {ahead}, {size >> 20} MB of data.")


def overview(names: dict[str, Experiment], found: dict[str, Found]) -> list[str]:
    rows = []
    for name, experiment in names.items():
        if name not in found:
            ours = "not run"
        elif found[name].data and found[name].data["rows"]:
            ours = ratios_text(experiment.kind, found[name].data)
        else:
            ours = "failed"
        rows.append([experiment.title, experiment.theirs, ours])
    return table(["experiment", "theirs", "ours: the ratio that can be compared"], rows)


def write(size: int, build: pathlib.Path, docs: pathlib.Path, found: dict[str, Found]) -> bool:
    """Write the page. Returns whether all of it was made."""
    charts = docs / "results"
    charts.mkdir(parents=True, exist_ok=True)
    for old in charts.glob("*.svg"):
        old.unlink()
    names = experiments(size)
    kernel, right = sections_kernel(build, charts)
    lines = ["# Results of the papers' experiments", "",
             f"`make results{'' if size == GB else f' SIZE={size >> 20}M'}` has written this page. "
             "[papers.md](papers.md) explains which ratios can be compared.", "", machine(found, size), "",
             *CONDITIONS, "", *overview(names, found), ""]
    for name, experiment in names.items():
        if name in found:
            lines += section(name, experiment, found[name], charts)
    lines += [*kernel, "## Not reproduced", *NOT_REPRODUCED]
    lines += [f"- {experiment.title}: not run in this page; `make results ONLY={name}`."
              for name, experiment in names.items() if name not in found]
    (docs / "results.md").write_text("\n".join(lines) + "\n")
    print(docs / "results.md")
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default=GB, type=size_of, help="size of the data: 256M, 1G (default)")
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--docs", default=ROOT / "docs", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=experiments(GB),
                        help="run only this experiment; may be given several times")
    options = parser.parse_args()
    results = options.build / ("results" if options.size == GB else f"results-{options.size >> 20}M")
    results.mkdir(exist_ok=True)
    found = {}
    for name, experiment in experiments(options.size).items():
        known = earlier(name, experiment, results)
        if (not known or known.failed) and (not options.only or name in options.only):
            known = run(name, experiment, options.build, results)
        if known:
            found[name] = known
    right = write(options.size, options.build, options.docs, found)
    return 0 if right and not any(each.failed for each in found.values()) else 1


if __name__ == "__main__":
    # The experiment removes its files if the user or a signal ends this program.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted: repeat the command to continue", file=sys.stderr)
        sys.exit(130)
