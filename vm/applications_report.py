# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables of the counts of applications.py: as text, and as JSON for tools/results.py."""
import dataclasses
import json
import pathlib

RESIDENT = "/sys/fs/hugemap/*/stats/resident_bytes"
MIB = 1 << 20
# Linux without a mapping of a file on ext4 is no advice that a program could take instead.
NO_MAPPING = ("ext4, pread", "ext4, linux-rw", "tmpfs, default")
LOST = 1.005  # of Linux's best: less is noise of the timer
SHOWN = 4  # functions in a reason


@dataclasses.dataclass
class Row:
    labels: list[str]
    way: str
    hugemap: bool
    insns: float  # for a unit
    faults: int | None
    read: int | None  # bytes
    written: int | None
    answer: str  # the same for each way, or the program has checked the data
    functions: dict[str, list[int]]  # instructions and calls of each function of the whole command
    units: float = 1  # of the command: pages, gets
    more: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Table:
    title: str
    theirs: str
    labels: list[str]
    rows: list[Row]
    notes: str
    per: str = ""  # the unit of Row.insns; "": the whole run
    plain: str = "ext4, default"
    more: list[str] = dataclasses.field(default_factory=list)

    def group(self, row: Row) -> list[Row]:
        return [other for other in self.rows if other.labels == row.labels]

    def plain_of(self, row: Row) -> Row | None:
        return next((other for other in self.group(row) if other.way == self.plain), None)

    def best_of(self, row: Row) -> Row | None:
        """The fewest instructions of Linux with a mapping, or with write() to ext4."""
        linux = [other for other in self.group(row) if not other.hugemap and other.way not in NO_MAPPING]
        return min(linux, key=lambda other: other.insns, default=None)

    def is_wrong(self, row: Row) -> bool:
        plain = self.plain_of(row)
        return plain is not None and row.answer != plain.answer

    def wrong_answers(self) -> list[str]:
        return [f"{', '.join(row.labels)}: {row.way}: another answer than {self.plain}"
                for row in self.rows if self.is_wrong(row)]


def round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def ratio(number: float | None, of: float | None) -> str:
    return f"{number / of:.2f}" if number is not None and of else ""


def columns(table: Table) -> list[str]:
    unit = f"instructions for a {table.per}" if table.per else "million instructions"
    return [*table.labels, "way", unit, *table.more, "of plain", "of Linux's best", "faults", "faults of plain",
            "MB read", "MB written", "answer"]


def cells(table: Table, row: Row) -> list[str]:
    plain, best = table.plain_of(row), table.best_of(row)
    number = f"{row.insns:.0f}" if table.per else f"{row.insns / 1e6:.1f}"
    answer = "WRONG" if table.is_wrong(row) else "checked" if row.answer == "checked" else "equal"
    faults = "" if row.faults is None else str(row.faults)
    sizes = ["" if size is None else f"{size / MIB:.1f}" for size in (row.read, row.written)]
    return [*row.labels, row.way, number, *row.more, ratio(row.insns, plain and plain.insns),
            ratio(row.insns, best and best.insns), faults, ratio(row.faults, plain and plain.faults), *sizes, answer]


def reason(row: Row, best: Row, per: str) -> str:
    """The functions of the kernel that need more instructions than with the best of Linux."""
    def more(name: str) -> float:
        before = best.functions.get(name, [0, 0])[0] / best.units
        return row.functions.get(name, [0, 0])[0] / row.units - before

    names = sorted((name for name in row.functions if name != "(user space)"), key=more, reverse=True)[:SHOWN]
    size, unit = (1, f" for a {per}") if per else (1e6, " million")
    return ", ".join(f"{name} +{more(name) / size:.1f}" for name in names if more(name) > 0) + unit


def reasons(table: Table) -> list[str]:
    """A line for each command on a mount that needs more instructions than the best of Linux."""
    lines, seen = [], set()
    for row in table.rows:
        best = table.best_of(row)
        if not row.hugemap or not best or row.insns <= LOST * best.insns or id(row.functions) in seen:
            continue
        seen.add(id(row.functions))
        lines.append(f"{', '.join(row.labels)}, {row.way} ({row.insns / best.insns:.2f} of {best.way}): "
                     f"{reason(row, best, table.per)}.")
    return lines


def text(table: Table) -> str:
    rows = [columns(table), *(cells(table, row) for row in table.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([table.title, *lines, *(f"loses: {line}" for line in reasons(table))])


def number_or_text(cell: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def described(table: Table, command: str, release: str) -> dict:
    lost = reasons(table)
    notes = f"Linux {release} in a guest. {table.notes}"
    if lost:
        notes += " More instructions than Linux's best, and the functions of the kernel with the largest increase: "
        notes += " ".join(lost)
    return {
        "title": table.title,
        "theirs": table.theirs,
        "command": command,
        "columns": columns(table),
        "rows": [[number_or_text(cell) for cell in cells(table, row)] for row in table.rows],
        "notes": notes,
        "value": "of plain",
        "unit": "x the instructions of ext4 without advice",
    }


def functions_of(table: Table) -> list[dict]:
    """The rows of a file for functions.py: one for each command, which may have several steps."""
    commands = {id(row.functions): row for row in reversed(table.rows)}
    return [{"engine": "hugemap-kernel" if row.hugemap else "linux", "page": row.way, "setting": "",
             "what": ", ".join(row.labels), "ops": row.units, "functions": row.functions}
            for row in reversed(commands.values())]


def write(table: Table, path: pathlib.Path, command: str, release: str) -> None:
    """Write the table, and beside it the file for functions.py."""
    beside = path.with_name(f"functions-{path.name}")
    beside.write_text(json.dumps({"kernel": release, "rows": functions_of(table)}) + "\n")
    new = path.with_suffix(".new")
    new.write_text(json.dumps(described(table, command, release), indent=1) + "\n")
    new.rename(path)
