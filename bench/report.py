#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Make a page with charts, or a picture, from the JSON of `hugemap bench`.

    report.py [--html FILE] [--png FILE] JSON

The page is one file without any reference to others. Exit status: 0, 1 if the
JSON is not of this format or a file cannot be written, 2 if the command line is
wrong, 3 if there is no matplotlib: the page has no charts then, and no picture is
made.
"""
import argparse
import html
import io
import json
import math
import re
import sys

NO_MATPLOTLIB = 3
FORMAT = 3
STOCK_READ_AHEAD_KB = 128  # of most distributions

# Charts are drawn in this colour. It is then replaced by the text colour of the page, which
# differs between light and dark.
INK = "#010203"
COLOURS = {
    "hugemap-steer": "#2f80ed",
    "hugemap-kernel": "#1b4f9c",
    "linux-mmap": "#9aa0a6",
    "linux-rw": "#c9a227",
    "device": "#34a06f",
}
BEST_LINUX = "#6b7075"

SCENARIOS = {
    "seq-read": "Read a file from end to end, cold",
    "seq-write": "Write a new file, until it is durable",
    "rewrite": "Rewrite an existing file, until it is durable",
    "rand-4k": "Read 4 KB at random places, cold",
    "rand-1m": "Read 1 MB at random places, cold",
    "loads": "Load 8 bytes at random places, all in memory",
    "mixed": "Read 4 KB at random places and change 3 in 10, until durable",
    "checkpoint": "Processes write their parts of a new file, until durable",
    "restore": "Processes read their parts of a file, cold",
    "checkpoint-own": "Processes write a new file each, until durable",
    "restore-own": "Processes read a file each, cold",
    "log": "Append records of 1 to 4 KB, durable every 1 MB",
    "zipf-4k": "Read 4 KB, some pages far more often than others (Zipf 0.99), cold",
    "hot-tenth": "Read 4 KB at random places, 9 in 10 in a tenth of the file, cold",
    "hot-limit": "Read 4 KB, 995 in 1000 in a part that just fits in memory",
    "strided": "Read 4 KB of every 256 KB, then another 4 KB, cold",
    "backward": "Read a file from its end to its start, cold",
    "four-streams": "Read four parts of a file, 64 KB of each in turn, cold",
    "scan-twice": "Read twice through twice as much as there is memory, cold",
    "scan-random-scan": "Read half a file, then 4 KB at random places, then the other half",
    "load-shuffled": "Read arrays of 4 MB in shuffled order, cold",
    "load-sparse": "Read every other array of 4 MB, cold",
    "log-read": "Append records while 4 KB of the log are read at random places",
    "curve-seq": "Read a file from end to end while memory fills, cold",
    "curve-rand": "Read 4 KB at random places while memory fills, cold",
    "cost": "Loads from a small file, and memory of the program's own that comes and goes",
}

IN_PROCESSES = {"checkpoint", "restore", "checkpoint-own", "restore-own"}

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2126; --faint: #5c6570;
  --line: #d9dee3; --accent: #2f80ed; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec;
  --faint: #9aa4af; --line: #343b42; --accent: #6aa8ff; } }
body { background: var(--paper); color: var(--ink); max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin-bottom: 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .3rem; border-top: 1px solid var(--line);
  padding-top: 1.2rem; }
p.faint, td.faint, figcaption { color: var(--faint); }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.5rem 0; }
.number { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem;
  flex: 1 1 12rem; }
.number b { display: block; font-size: 1.7rem; color: var(--accent); line-height: 1.2; }
.number span { color: var(--faint); font-size: .9rem; }
figure { margin: 1rem 0; }
svg { max-width: 100%; height: auto; color: var(--ink); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
tr.ours td { color: var(--accent); font-weight: 600; }
.bad { color: #d33; }
"""

NO_CHARTS = ('<p class="faint">There are no charts here: they need matplotlib '
             "(apt-get install python3-matplotlib).</p>")


def load(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if data.get("format") != FORMAT or not isinstance(data.get("rows"), list):
        raise ValueError("this was not written by `hugemap bench --json` of this version")
    return data


def groups_of(data):
    """Rows by scenario and number of threads, in the order of the file."""
    groups = {}
    for row in data["rows"]:
        if row["runs"]:
            groups.setdefault((row["scenario"], row["threads"]), []).append(row)
    return groups


def is_latency(row):
    return row["ns_op"] is not None


def value_of(row):
    return row["ns_op"] if is_latency(row) else row["mb_s"]


def scale_of(rows):
    """Divisor and unit for the values of a group."""
    if not is_latency(rows[0]):
        return 1.0, "MB/s"
    most = max(value_of(row) for row in rows)
    if most < 2e3:
        return 1.0, "ns"
    return (1e3, "µs") if most < 2e7 else (1e6, "ms")


def show(value, row):
    """A value as text, with its unit."""
    if value is None:
        return "–"
    if not is_latency(row):
        return f"{value:,.0f} MB/s".replace(",", " ")
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} ns"


def ours_of(rows):
    ours = [row for row in rows if row["engine"].startswith("hugemap")]
    if not ours:
        return None
    for row in ours:
        if row["engine"] == "hugemap-steer":
            return row
    return (min if is_latency(ours[0]) else max)(ours, key=value_of)


def colour_of(row):
    return BEST_LINUX if row["best_linux"] else COLOURS.get(row["engine"], "#999999")


def workers_text(scenario, count):
    """How many do the work: "2 threads"."""
    if scenario in IN_PROCESSES:
        return f"{count} process{'' if count == 1 else 'es'}"
    return f"{count} thread{'' if count == 1 else 's'}"


def gigabytes(row):
    return row["bytes"] / 2**30


# --- charts -------------------------------------------------------------------


def prepare_matplotlib():
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({
        "svg.fonttype": "none",
        "svg.hashsalt": "hugemap",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
    })
    for name in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color",
                 "ytick.color"):
        plt.rcParams[name] = INK
    return plt


def figure_of(plt, draw, subject, caption=""):
    """A chart in the page; nothing in a page without charts."""
    if not plt:
        return ""
    caption = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure>{draw(plt, subject)}{caption}</figure>"


def svg_of(plt, figure):
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, bbox_inches="tight",
                   metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg"):].replace(INK, "currentColor")
    # Text is black unless its colour is set.
    text = text.replace("<svg ", '<svg fill="currentColor" role="img" ', 1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    # SVG inside HTML needs no XML name spaces.
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")


def draw_values(axes, rows, title=None):
    """Bars with the spread from run to run, on a scale that all of them fit."""
    scale, unit = scale_of(rows)
    values = [value_of(row) / scale for row in rows]
    low = [max(0.0, v - row["low"] / scale) for v, row in zip(values, rows)]
    high = [max(0.0, row["high"] / scale - v) for v, row in zip(values, rows)]
    places = range(len(rows))
    wide = is_latency(rows[0]) and max(values) > 12 * min(values)

    axes.barh(places, values, color=[colour_of(row) for row in rows], height=0.68,
              xerr=[low, high], error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2})
    axes.set_yticks(list(places))
    axes.set_yticklabels([row["title"] for row in rows])
    axes.invert_yaxis()
    if wide:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 3, max(values) * 8)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}" if value < 1e5 else f"{value:.0e}")
    better = "less is better" if is_latency(rows[0]) else "more is better"
    axes.set_xlabel(f"{unit}, {better}" + (", logarithmic" if wide else ""))
    for place, row, value, above in zip(places, rows, values, high):
        axes.annotate(show(value_of(row), row), (value + above, place), xytext=(5, 0),
                      textcoords="offset points", va="center", fontsize=9)
    if not wide:
        axes.set_xlim(0, max(v + h for v, h in zip(values, high)) * 1.3)
    if title:
        axes.set_title(title, loc="left", fontsize=11)


def chart_values(plt, rows):
    figure, axes = plt.subplots(figsize=(8.4, 0.6 + 0.34 * len(rows)))
    draw_values(axes, rows)
    return svg_of(plt, figure)


def chart_costs(plt, rows):
    """CPU time and page faults for a gigabyte of the program's data."""
    figure, (cpu, faults) = plt.subplots(1, 2, sharey=True,
                                         figsize=(8.4, 0.7 + 0.3 * len(rows)))
    places = list(range(len(rows)))
    user = [row["user_s"] / gigabytes(row) for row in rows]
    system = [row["sys_s"] / gigabytes(row) for row in rows]

    cpu.barh(places, user, color="#b7c4d6", height=0.68, label="program")
    cpu.barh(places, system, left=user, color="#d96c4f", height=0.68, label="kernel")
    cpu.set_xlabel("CPU seconds per GB")
    cpu.legend(frameon=False, fontsize=8, loc="best")
    faults.barh(places, [row["faults"] / gigabytes(row) for row in rows],
                color=[colour_of(row) for row in rows], height=0.68)
    faults.set_xlabel("page faults per GB")
    cpu.set_yticks(places)
    cpu.set_yticklabels([row["title"] for row in rows])
    cpu.invert_yaxis()
    return svg_of(plt, figure)


def draw_curve(axes, rows):
    """MB/s over time in the first turn. A dot is at the moment when memory was full."""
    for index, row in enumerate(rows):
        curve = row["runs"][0]["curve"]
        width = max(1, len(curve["bytes"]) // 60)
        marks = curve["bytes"][::width]
        times = [curve["step_s"] * (1 + width * (i + 1)) for i in range(len(marks) - 1)]
        rates = [(b - a) / 2**20 / (width * curve["step_s"]) for a, b in zip(marks, marks[1:])]
        full = [i for i, time in enumerate(times) if curve["full_s"] and time >= curve["full_s"]][:1]
        axes.plot(times, rates, label=row["title"], color=colour_of(row), linewidth=1.2, marker="o",
                  markevery=full, linestyle=("-", "--", ":", "-.")[index % 4])
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB/s")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))


def chart_curve(plt, rows):
    figure, axes = plt.subplots(figsize=(8.4, 3))
    draw_curve(axes, rows)
    return svg_of(plt, figure)


RATIOS = (
    ("ratio_default_linux", "than Linux mmap by default", COLOURS["linux-mmap"]),
    ("ratio_best_linux", "than the best Linux mmap", BEST_LINUX),
    ("ratio_device", "than the limit", COLOURS["device"]),
)


def draw_ratios(axes, groups):
    """How many times better HugeMap is; a logarithmic scale, so that 2 and 1/2
    are equally far from 1."""
    labels, drawn, most, least = [], set(), 2.0, 0.5
    place = 0
    for (scenario, threads), rows in groups.items():
        ours = ours_of(rows)
        if not ours:
            continue
        labels.append(f"{scenario}, {workers_text(scenario, threads)}")
        for index, (key, _, colour) in enumerate(RATIOS):
            ratio = ours[key]
            if not ratio:
                continue
            at = place + (index - 1) * 0.26
            axes.barh(at, math.log2(ratio), color=colour, height=0.24)
            axes.annotate(f"{ratio:.2f}", (math.log2(ratio), at),
                          xytext=(4 if ratio >= 1 else -4, 0), textcoords="offset points",
                          va="center", ha="left" if ratio >= 1 else "right", fontsize=8)
            most, least = max(most, ratio), min(least, ratio)
            drawn.add(key)
        place += 1
    for key, label, colour in RATIOS:
        if key in drawn:
            axes.barh(0, 0, color=colour, label=label)
    axes.set_yticks(range(len(labels)))
    axes.set_yticklabels(labels)
    axes.invert_yaxis()
    axes.axvline(0, color=INK, linewidth=0.8)
    ticks = list(range(math.floor(math.log2(least)), math.ceil(math.log2(most)) + 1))
    axes.set_xticks(ticks)
    axes.set_xticklabels([f"{2.0 ** tick:g} ×" for tick in ticks])
    axes.set_xlim(ticks[0] - 0.3, ticks[-1] + 0.5)
    axes.set_xlabel("HugeMap is so many times better ...")
    axes.legend(frameon=False, fontsize=9, loc="upper center", ncol=3,
                bbox_to_anchor=(0.45, 1.0 + 0.5 / max(len(labels), 1)))


def chart_ratios(plt, groups):
    n = sum(1 for rows in groups.values() if ours_of(rows))
    figure, axes = plt.subplots(figsize=(8.4, 1.0 + 0.62 * n))
    draw_ratios(axes, groups)
    return svg_of(plt, figure)


# --- the page -----------------------------------------------------------------


def escape(text):
    return html.escape(str(text))


def headline(groups, found):
    """A box for each scenario with one thread: the value and the ratios. found: read_ahead_kb"""
    boxes = []
    fewest = min(threads for _, threads in groups)
    for (scenario, threads), rows in groups.items():
        ours = ours_of(rows)
        if threads != fewest or not ours:
            continue
        parts = []
        if ours["ratio_default_linux"]:
            setting = f" (read_ahead_kb {found})" if ours["ratio_read_ahead"] else ""
            parts.append(f"{ours['ratio_default_linux']:.2f} × Linux mmap{setting}")
        if ours["ratio_read_ahead"]:
            parts.append(f"{ours['ratio_read_ahead']:.2f} × Linux mmap on most machines "
                         f"(read_ahead_kb {STOCK_READ_AHEAD_KB})")
        if ours["ratio_best_linux"]:
            parts.append(f"{ours['ratio_best_linux']:.2f} × the best Linux mmap")
        if ours["ratio_device"]:
            limit = "anonymous memory" if scenario == "loads" else "the device's limit"
            parts.append(f"{ours['ratio_device']:.2f} of {limit}")
        boxes.append(f'<div class="number">{escape(scenario)}'
                     f"<b>{escape(show(value_of(ours), ours))}</b>"
                     f"<span>{'<br>'.join(map(escape, parts))}</span></div>")
    return f'<div class="numbers">{"".join(boxes)}</div>'


def table(rows):
    lines = ["<tr><th></th><th>median</th><th>lowest – highest</th><th>program CPU s</th>"
             "<th>kernel CPU s</th><th>faults</th><th>memory MB</th></tr>"]
    for row in rows:
        mine = ' class="ours"' if row["engine"].startswith("hugemap") else ""
        lines.append(
            f"<tr{mine}><td>{escape(row['title'])}</td><td>{escape(show(value_of(row), row))}</td>"
            f"<td>{escape(show(row['low'], row))} – {escape(show(row['high'], row))}</td>"
            f"<td>{row['user_s']:.3f}</td><td>{row['sys_s']:.3f}</td>"
            f"<td>{row['faults']:.0f}</td><td>{row['peak_mb']:.0f}</td></tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def section(plt, scenario, groups):
    parts = [f"<h2>{escape(SCENARIOS.get(scenario, scenario))}"
             f' <small class="faint">({escape(scenario)})</small></h2>']
    for (name, threads), rows in groups.items():
        if name != scenario:
            continue
        parts.append(f"<h3>{workers_text(name, threads)}</h3>")
        parts.append(figure_of(plt, chart_values, rows,
                               "Bars are medians; the thin lines reach from the lowest to "
                               f"the highest of {len(rows[0]['runs'])} runs."))
        if not is_latency(rows[0]):
            parts.append(figure_of(plt, chart_costs, rows))
        if "curve" in rows[0]["runs"][0]:
            parts.append(figure_of(plt, chart_curve, rows,
                                   "The first turn; a dot is at the moment when memory was full."))
        parts.append(table(rows))
        parts.append(steered(rows))
    return "".join(parts)


def ratio(value):
    return f"{value:.2f}" if value else "–"


def verdicts(data):
    """Compare the steered page cache with the best advice of Linux."""
    sums = data["verdicts"]
    if not sums["each"] and not sums["cost"]:
        return ""
    found = data["device"]["read_ahead_kb"]
    # A device with the usual setting is not measured twice.
    both = found != STOCK_READ_AHEAD_KB
    lines = [f"<tr><th></th><th>default, read-ahead {found} KB</th>"
             f"{f'<th>default, {STOCK_READ_AHEAD_KB} KB</th>' if both else ''}<th>best advice</th>"
             "<th>wanted</th><th>met</th><th>best was</th></tr>"]
    for each in sums["each"]:
        best = each["best_linux"]
        if each["wanted_read_ahead"]:
            best += (f"; wanted at {STOCK_READ_AHEAD_KB} KB: "
                     f"{ratio(each['wanted_read_ahead'])}")
        lines.append(
            f"<tr><td>{escape(each['scenario'])}, "
            f"{escape(workers_text(each['scenario'], each['threads']))}</td>"
            f"<td>{ratio(each['ratio_default_linux'])}</td>"
            f"{'<td>' + ratio(each['ratio_read_ahead']) + '</td>' if both else ''}"
            f"<td>{ratio(each['ratio_best_linux'])}</td>"
            f"<td>{ratio(each['wanted'])}</td><td>{'yes' if each['met'] else 'no'}</td>"
            f"<td>{escape(best)}</td></tr>")
    parts = ["<h2>Compared with the best that a person could set</h2>",
             "<p>HugeMap, which gets no hint, relative to Linux mmap: as wanted in "
             f"{sums['met']} of {sums['count']}, better than the best advice in "
             f"{sums['better']}.</p>" if sums["each"] else "",
             f'<div class="scroll"><table>{"".join(lines)}</table></div>' if sums["each"] else ""]
    for cost in sums["cost"]:
        instructions = (f", {cost['instructions']:.3f} × the instructions"
                        if cost["instructions"] else "")
        parts.append(f"<p>A program that gains nothing pays, with "
                     f"{workers_text('cost', cost['threads'])}: "
                     f"{cost['time']:.3f} × the time, {cost['cpu']:.3f} × the CPU time, "
                     f"{cost['faults']:.3f} × the faults{instructions}.</p>")
    return "".join(parts)


def steered(rows):
    """The access pattern that steering found, and its advice, in the last run."""
    for row in rows:
        done = row["runs"][-1].get("steered")
        if done and done["scans"]:
            acts = ", ".join(f"{name} {act['calls']} × ({act['bytes'] / 2**20:.0f} MB)"
                             for name, act in done["advice"].items())
            reason = done["reason"]
            why = f" {escape(reason[0].upper() + reason[1:])}." if reason else ""
            return (f'<p class="faint">Seen as {escape(done["pattern"])}; advice given: '
                    f"{escape(acts or 'none')}.{why}</p>")
    return ""


def mb(count):
    return f"{count / 2**30:.3g} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def settings_table(data):
    machine, device, settings = data["machine"], data["device"], data["settings"]
    limit = data["memory_limit"]
    limit_text = (f"{limit['kind']}: {mb(settings['pool_bytes'])} of cache and "
                  f"{limit['allowance_mb']:.0f} MB beside it for every run") if limit["kind"] != "none" else f"none: {limit['why']}"
    lines = [
        ("machine", f"{machine['cpu']}, {machine['cpus']} CPUs, "
                    f"{machine['memory_mb'] / 1024:.0f} GB of memory"),
        ("kernel", f"Linux {data['kernel']}"),
        ("file system", f"{data['file_system']['type']} ({data['file_system']['options']})"),
        ("device", f"{device['name'] or 'unknown'}{' ' + device['model'] if device['model'] else ''}"
                   f", read_ahead_kb {device['read_ahead_kb']}"),
        ("file", f"{mb(settings['size_bytes'])}; cache {mb(settings['pool_bytes'])}"),
        ("runs", f"{settings['runs']} of each, in turn"),
        ("memory limit", limit_text),
        ("transparent huge pages", f"{settings['thp_enabled']}, defrag {settings['thp_defrag']}"),
        ("measured", f"{data['date']}, HugeMap {data['version']}"),
    ]
    cells = "".join(f'<tr><td class="faint">{escape(name)}</td>'
                    f'<td style="text-align:left;white-space:normal">{escape(text)}</td></tr>'
                    for name, text in lines)
    return f"<table>{cells}</table>"


METHOD = """
<h2>How it was measured</h2>
<p>Each run is a process of its own. Runs go in turns: in each turn, every way of doing the
work runs once, then all of them run again. A ratio compares two runs of the same turn, and the
page shows the median of these ratios, so a minute in which the machine was slow affects both
sides alike. A ratio above 1 means that HugeMap is better.</p>
<p>Before a cold run the file is dropped from the page cache. Readers add up every 64-bit word
that they read, and the sums are compared with the content of the file. Writers are timed until
all data is durable; then the file is read back and compared. HugeMap gets no hints. The pool of
the kernel engine is made before the clock starts.
“Device” is direct I/O with the best number of operations in flight, by threads that do not look
at the data: no program can be faster. In random access the limit is one operation at a time,
since a program waits for its data. A run of single operations
ends after a number of them or after a time, and rates are compared. In “loads” the limit is
ordinary memory in 2 MB pages. CPU time is that of the process with all its threads; work that
kernel threads do for it, such as write-back, is not included. MB are 2<sup>20</sup>
bytes.</p>
"""


def remarks(data):
    parts = []
    if data["errors"]:
        parts.append('<h2 class="bad">What failed</h2><ul>' +
                     "".join(f"<li>{escape(text)}</li>" for text in data["errors"]) + "</ul>")
    if data["notes"]:
        parts.append("<h2>Notes</h2><ul>" +
                     "".join(f"<li>{escape(text)}</li>" for text in data["notes"]) + "</ul>")
    return "".join(parts)


def page(plt, data):
    groups = groups_of(data)
    scenarios = list(dict.fromkeys(name for name, _ in groups))
    parts = ['<!DOCTYPE html><html lang="en"><meta charset="utf-8">'
             '<meta name="viewport" content="width=device-width, initial-scale=1">'
             f"<title>HugeMap benchmark</title><style>{STYLE}</style><body>",
             "<h1>HugeMap, Linux mmap and the device, side by side</h1>",
             f'<p class="faint">{escape(mb(data["settings"]["size_bytes"]))} of data, '
             f'{escape(mb(data["settings"]["pool_bytes"]))} of memory, '
             f'Linux {escape(data["kernel"])}, read_ahead_kb {data["device"]["read_ahead_kb"]} '
             f"(most machines: {STOCK_READ_AHEAD_KB})</p>"]
    if groups:
        parts.append(headline(groups, data["device"]["read_ahead_kb"]))
    if any(ours_of(rows) for rows in groups.values()):
        parts.append(figure_of(plt, chart_ratios, groups,
                               "HugeMap is the steered page cache, without a hint. Bars to "
                               "the right of 1 × mean that it is better."))
    if not plt:
        parts.append(NO_CHARTS)
    parts.append(verdicts(data))
    parts.append(remarks(data))
    parts += [section(plt, scenario, groups) for scenario in scenarios]
    parts += [METHOD, "<h2>Where it was measured</h2>", settings_table(data), "</body></html>\n"]
    return "".join(parts)


# --- the picture ----------------------------------------------------------------


def picture(plt, data, path):
    """Values with one thread, a panel for each scenario, on white."""
    groups = groups_of(data)
    fewest = min(threads for _, threads in groups)
    shown = [(name, rows) for (name, threads), rows in groups.items() if threads == fewest]
    for name in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color",
                 "ytick.color"):
        plt.rcParams[name] = "#1d2126"
    globals()["INK"] = "#1d2126"
    lines = (len(shown) + 1) // 2
    figure, all_axes = plt.subplots(lines, 2, squeeze=False, figsize=(13, 3.1 * lines))
    for axes, (name, rows) in zip(all_axes.flat, shown):
        draw_values(axes, rows, SCENARIOS.get(name, name))
    for axes in list(all_axes.flat)[len(shown):]:
        axes.set_visible(False)
    figure.suptitle(f"HugeMap, Linux mmap and the device: {mb(data['settings']['size_bytes'])} of "
                    f"data, {mb(data['settings']['pool_bytes'])} of memory, Linux "
                    f"{data['kernel']}, {data['device']['name']}", fontsize=12)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    figure.savefig(path, dpi=110, facecolor="white")
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Charts from the JSON of `hugemap bench`.")
    parser.add_argument("json", metavar="JSON")
    parser.add_argument("--html", metavar="FILE", help="write a page")
    parser.add_argument("--png", metavar="FILE", help="write a picture")
    arguments = parser.parse_args()
    if not arguments.html and not arguments.png:
        parser.error("--html FILE or --png FILE is missing")
    plt = prepare_matplotlib()
    try:
        data = load(arguments.json)
        if arguments.html:
            text = page(plt, data)
            with open(arguments.html, "w", encoding="utf-8") as file:
                file.write(text)
        if arguments.png and not plt:
            print("report.py: a picture needs matplotlib", file=sys.stderr)
        elif arguments.png:
            if not groups_of(data):
                raise ValueError("there is nothing to draw in it")
            picture(plt, data, arguments.png)
    except (OSError, ValueError, KeyError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 1
    return 0 if plt else NO_MATPLOTLIB


if __name__ == "__main__":
    sys.exit(main())
