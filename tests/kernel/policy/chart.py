#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A table and a chart of the results of policy --json.

    chart.py RESULTS.json [CHART.svg]

They show the middle pool of each trace. Bytes are compared with the reads of the oracle: no
cache of single pages that reads on demand reads less.
"""
import json
import pathlib
import sys

POLICIES = {"auto": "#c1272d", "2M": "#0071bc", "4K": "#f7931e", "LRU 4K": "#7f7f7f", "oracle": "#000000"}
MARKS = {"auto": "o", "2M": "s", "4K": "^", "LRU 4K": "x", "oracle": "|"}


def middle(runs: list[dict]) -> list[dict]:
    """The run with the middle pool of each trace, in the order of the traces."""
    of: dict[str, list[dict]] = {}
    for run in runs:
        of.setdefault(run["trace"], []).append(run)
    return [sorted(same, key=lambda run: run["pool_mb"])[len(same) // 2] for same in of.values()]


def name(run: dict) -> str:
    return run["trace"].removesuffix(".trace") + (" (recorded)" if run["recorded"] else "")


def size(mb: float) -> str:
    return f"{mb / 1024:.1f}" if mb < 102400 else f"{mb / 1024:.0f}"


def print_table(runs: list[dict]) -> None:
    print("| trace, pool | hits: auto / 2M / 4K / LRU / oracle, % | GB read | GB written | huge, % | promoted |")
    print("|---|---|---|---|---|---|")
    for run in runs:
        results = run["policies"]
        hits = " / ".join(f"{100 * results[p]['hits']:.1f}" for p in POLICIES)
        read = " / ".join(size(results[p]["read_mb"]) for p in POLICIES)
        written = " / ".join(size(results[p]["written_mb"]) for p in POLICIES) if run["stored_mb"] else ""
        auto = results["auto"]
        promoted = f"{auto['promoted']}, +{100 * auto['beyond_mean']:.1f} %" if auto["promoted"] else "0"
        print(f"| {name(run)}, {run['pool_mb']} MB | {hits} | {read} | {written} | {100 * auto['huge']:.0f} | {promoted} |")


def draw(runs: list[dict], path: pathlib.Path, accesses: int) -> None:
    try:
        import matplotlib
    except ImportError:
        print("chart.py: no chart without matplotlib: install python3-matplotlib", file=sys.stderr)
        return
    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "hugemap", "font.size": 8}
    import matplotlib.pyplot as plt

    figure, (hits, moved) = plt.subplots(1, 2, sharey=True, figsize=(9, 0.5 + 0.24 * len(runs)), layout="constrained")
    rows = range(len(runs))
    for policy, color in POLICIES.items():
        of = [run["policies"][policy] for run in runs]
        best = [run["policies"]["oracle"]["read_mb"] for run in runs]
        style = {"linestyle": "", "marker": MARKS[policy], "color": color, "markersize": 5, "label": policy}
        hits.plot([100 * r["hits"] for r in of], rows, fillstyle="none", **style)
        moved.plot([(r["read_mb"] + r["written_mb"]) / b for r, b in zip(of, best)], rows, fillstyle="none", **style)
    hits.set_yticks(rows, [name(run) for run in runs])
    hits.invert_yaxis()
    hits.set_xlabel("accesses that do not wait for a read, %")
    moved.set_xscale("log")
    moved.set_xlabel("bytes read and written / bytes that the oracle reads")
    for axes in (hits, moved):
        axes.grid(axis="both", linewidth=0.3)
    moved.set_xlim(right=1e5)
    moved.legend(loc="lower right")
    figure.suptitle(f"{accesses / 1e9:.2f} billion accesses in all; pools of the middle size")
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    runs = json.loads(pathlib.Path(sys.argv[1]).read_text())["runs"]
    print_table(middle(runs))
    if len(sys.argv) == 3:
        draw(middle(runs), pathlib.Path(sys.argv[2]), sum(run["accesses"] for run in runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
