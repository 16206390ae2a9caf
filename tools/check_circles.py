#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Fail if files depend on each other in a circle, or a directory on one above it.

    tools/check_circles.py [DIR...]        default: ROOTS, all directories below them, and SINGLE

A file and its header are one: x.c and x.h are x, unless CONTRACTS lists the header. A file depends
on another one of its directory if it includes the header, or names a function or a variable that
only the other one defines. A local variable with the name of such a function counts, too: rename
the variable. Python modules depend on the modules of their directory that they import. A directory
may include headers only of the directories that LAYERS lists for it.
"""
import os
import re
import sys

ROOTS = ["bench", "cli", "kernel/cache", "kernel/data", "kernel/fs", "kernel/mm", "lib", "preload",
         "python", "steer"]
# Directories of which only the files are checked, not the directories below them.
SINGLE = ["kernel", "kernel/compat"]

# Headers of a contract: several files define what they declare, so each is a node of its own.
CONTRACTS = {"kernel/cache": {"cache.h", "fault.h", "file.h", "readahead.h", "reclaim.h",
                              "writeback.h"}}

# Directory: the directories below it, whose headers it may include.
LAYERS = {
    "include": [],
    "kernel": ["include"],
    "kernel/compat": [],
    "kernel/cache": ["include", "kernel/compat"],
    "kernel/mm": ["kernel", "kernel/compat"],
    "kernel/data": ["include", "kernel", "kernel/cache", "kernel/compat", "kernel/mm"],
    "kernel/fs": ["include", "kernel", "kernel/compat", "kernel/data"],
    "steer": [],
    "lib": ["include", "steer"],
    "preload": ["steer"],
    "cli": ["include", "preload", "steer"],
    "bench": ["cli", "include", "steer"],
    "bench/cached": ["bench"],
    "bench/direct": ["bench"],
    "bench/graph": ["bench"],
    "bench/ycsb": ["bench"],
    "python/src": ["include"],
}

# ("DIR/FILE", "DIR/OTHER"): the reason why FILE may depend on OTHER although that closes a circle.
EXCEPTIONS = {}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
FUNCTION = re.compile(r"^(?!\s)([^;{}=]*?)\b(\w+)\s*\([^;{}]*\)\s*\{", re.M)
VARIABLE = re.compile(r"^(?!\s|static\b|extern\b|typedef\b)[\w \t*]*?[ *](\w+)(?:\[[^\]\n]*\])*"
                      r"\s*(?:__\w+\s*)?[=;]", re.M)
WORD = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")  # no members of structs
IMPORT = re.compile(r"^\s*from \.(\w*) import ([\w, ]+)|^\s*import \.(\w+)", re.M)
TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)*", re.M)


def read(directory, name):
    with open(os.path.join(directory, name), errors="replace") as file:
        return file.read()


def definitions(code):
    """The functions and variables that a C file defines for others."""
    functions = {m[2] for m in FUNCTION.finditer(code) if "static" not in m[1].split()}
    return functions | {m[1] for m in VARIABLE.finditer(code)}


def node(directory, name):
    """The node of a C file or a header in the graph."""
    return name if name in CONTRACTS.get(directory, ()) else name[:-2]


def c_graph(directory, files):
    """File -> {other file: the reason}, without suffixes."""
    texts = {name: read(directory, name) for name in files}
    codes = {name: DIRECTIVE.sub("", STRING.sub('""', COMMENT.sub(" ", text)))
             for name, text in texts.items() if name.endswith(".c")}
    owners = {}
    for name, code in codes.items():
        for symbol in definitions(code):
            owners.setdefault(symbol, set()).add(name[:-2])
    graph = {}
    for name in files:
        edges = graph.setdefault(node(directory, name), {})
        for header in INCLUDE.findall(texts[name]):
            other = node(directory, header)
            if header in files and other != node(directory, name):
                edges[other] = f'#include "{header}"'
        for word in sorted(set(WORD.findall(codes.get(name, "")))):
            owner = owners.get(word, ())
            if len(owner) == 1 and name[:-2] not in owner:
                edges.setdefault(*owner, word)
    return graph


def python_graph(directory, files):
    graph = {}
    for name in files:
        edges = graph.setdefault(name[:-3], {})
        for module, names, plain in IMPORT.findall(TYPES_ONLY.sub("", read(directory, name))):
            for other in [module or plain] if module or plain else re.split(r"[, ]+", names):
                if other + ".py" in files:
                    edges[other] = "import"
    return graph


def circles(graph):
    """Lists of files that all depend on each other."""
    reach = {}
    for node in graph:
        reach[node], todo = set(), [node]
        while todo:
            others = set(graph.get(todo.pop(), ())) - reach[node]
            reach[node] |= others
            todo += others
    return sorted({tuple(sorted(other for other in reach[node] if node in reach.get(other, ())))
                   for node in graph if node in reach[node]})


def foreign_includes(directory, files):
    """Complaints about headers of directories that LAYERS does not list."""
    if directory not in LAYERS:
        return [f"{directory} is not in LAYERS"] if files else []
    return [f"{directory}/{name} includes {header} of {' or '.join(homes)}"
            for name in files for header in INCLUDE.findall(read(directory, name))
            if not os.path.exists(os.path.join(directory, header))
            and (homes := [d for d in LAYERS if os.path.exists(f"{d}/{os.path.basename(header)}")])
            and not set(homes) & set(LAYERS[directory])]


def check(directory):
    """The complaints about a directory."""
    names = sorted(os.listdir(directory))
    sources = [name for name in names if name.endswith((".c", ".h"))]
    complaints = foreign_includes(directory, sources)
    for graph in (c_graph(directory, sources),
                  python_graph(directory, [name for name in names if name.endswith(".py")])):
        graph = {file: {other: why for other, why in edges.items()
                        if (f"{directory}/{file}", f"{directory}/{other}") not in EXCEPTIONS}
                 for file, edges in graph.items()}
        for component in circles(graph):
            complaints.append(f"{directory}: a circle of {len(component)}: {', '.join(component)}")
            complaints += [f"    {file} -> {other}: {why}" for file in component
                           for other, why in sorted(graph[file].items()) if other in component]
    return complaints


def main():
    directories = sys.argv[1:] or SINGLE + [path for root in ROOTS for path, _, _ in os.walk(root)]
    complaints = [f"LAYERS has a circle: {', '.join(found)}" for found in circles(LAYERS)]
    for directory in directories:
        complaints += check(os.path.normpath(directory))
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
