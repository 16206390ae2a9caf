#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Make the section 3 manual pages from the kernel-doc comments of hugemap.h.

    tools/header-to-man.py include/hugemap.h OUTDIR FUNCTION [FUNCTION ...]

Writes OUTDIR/FUNCTION.3 (mdoc) for each FUNCTION, from its comment and the comments of the
structures and enumerations in its declaration, so the pages always agree with the header.
Fails if a function or one of its parameters has no comment.
"""
import re
import sys


def comments(text):
    """Name -> (summary, fields, body) of each kernel-doc comment."""
    found = {}
    for match in re.finditer(r"/\*\*\n(.*?)\*/", text, re.S):
        lines = [re.sub(r"^ \* ?", "", line) for line in match.group(1).rstrip().split("\n")]
        head = re.match(r"((?:(?:struct|enum) )?\w+)(?:\(\))? - (.*)", lines[0])
        if not head:
            sys.exit(f"not kernel-doc: {lines[0]}")
        fields, body, last = [], [], None
        for line in lines[1:]:
            field = re.match(r"@(\w+): ?(.*)", line)
            if field:
                fields.append([field.group(1), field.group(2)])
                last = fields[-1]
            elif last and line.startswith("\t"):
                last[1] += " " + line.strip()
            else:
                last = None
                body.append(line)
        found[head.group(1)] = (head.group(2), fields, "\n".join(body).strip())
    return found


def escape(text):
    """Escape text for mdoc, and write @name as name."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"@(\w+)", r"\1", text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def sentences(text):
    """Put each sentence on its own line, as mandoc requires."""
    return re.sub(r"(?<=[a-z0-9)\"][.;]) (?=[A-Z])", "\n", escape(text))


def declaration(text, name):
    match = re.search(r"^((?:static inline )?[a-z][\w ]*?[ *]+)" + name + r"\(([^)]*)\)", text, re.M)
    if not match:
        sys.exit(f"{name}: no declaration")
    result = match.group(1).replace("static inline ", "").strip()
    arguments = [re.sub(r"\s+", " ", a).strip() for a in match.group(2).split(",")]
    return result, arguments


def advices(text):
    """The enumerators of enum hugemap_advice with the comments at the ends of their lines."""
    body = re.search(r"enum hugemap_advice \{(.*?)\};", text, re.S).group(1)
    fields = re.findall(r"(\w+),(?: /\* (.*?) \*/)?", body)
    return [[n, c] for n, c in fields]


def flags_of(text, function):
    """The macros below "Flags of FUNCTION()." with the comments at the ends of their lines."""
    match = re.search(r"/\* Flags of " + function + r"\(\)\. \*/\n((?:#define .*\n)+)", text)
    return re.findall(r"#define (\w+) \S+ /\* (.*?) \*/", match.group(1)) if match else []


def types_of(text, struct):
    match = re.search(r"struct " + struct + r" \{(.*?)\};", text, re.S)
    return match.group(1) if match else ""


def field_list(fields, macro="Va"):
    out = [".Bl -tag -width Ds"]
    for name, text in fields:
        out += [f".It {macro} {name}", sentences(text)]
    return out + [".El"]


def page(text, docs, name, date, names):
    summary, parameters, body = docs[name]
    result, arguments = declaration(text, name)
    wanted = {a.split()[-1].lstrip("*") for a in arguments if a != "void"}
    missing = wanted - {p for p, _ in parameters}
    if missing:
        sys.exit(f"{name}: no comment for {', '.join(sorted(missing))}")
    body, _, returns = body.partition("Return:")
    out = [
        '.\\" SPDX-License-Identifier: GPL-2.0-only OR MIT',
        f".Dd {date}", f".Dt {name.upper()} 3", ".Os",
        ".Sh NAME", f".Nm {name}", f".Nd {escape(summary)}",
        ".Sh LIBRARY", "libhugemap: cc ... \\-lhugemap",
        ".Sh SYNOPSIS", ".In hugemap.h", f".Ft {result}",
        f".Fn {name} " + " ".join(f'"{a}"' for a in arguments),
        ".Sh DESCRIPTION",
    ]
    if parameters:
        out += field_list(parameters)
    for paragraph in body.strip().split("\n\n"):
        if paragraph:
            out += [".Pp", sentences(" ".join(paragraph.split("\n")))]
    flags = flags_of(text, name)
    if flags:
        out += [".Pp", "The flags are", *field_list(flags, "Dv")]
    shown = " ".join(arguments) + " " + " ".join(t for _, t in parameters) + body
    for kind, other in sorted(set(re.findall(r"(struct|enum) (hugemap_\w+)", shown))):
        fields = advices(text) if other == "hugemap_advice" else docs.get(f"{kind} {other}", ("", [], ""))[1]
        if fields:
            word = "has" if kind == "struct" else "is one of"
            out += [".Pp", f".Vt {kind} {other}", word, *field_list(fields)]
            inner = re.findall(r"enum hugemap_\w+|struct hugemap_latency",
                               " ".join(t for _, t in fields) + types_of(text, other))
            for o in sorted(set(inner)):
                if docs.get(o, ("", []))[1] and o not in shown:
                    word = "has" if o.startswith("struct") else "is one of"
                    out += [".Pp", f".Vt {o}", word, *field_list(docs[o][1])]
    out += [".Sh RETURN VALUES",
            sentences(" ".join(returns.split())) if returns else "See the description."]
    others = [n for n in names if n != name]
    out += [".Sh SEE ALSO"] + [f".Xr {n} 3 ," for n in others] + [".Xr hugemap 7"]
    return "\n".join(line for line in out if line) + "\n"


def main():
    header, outdir, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    text = open(header).read()
    docs = comments(text)
    for name in names:
        if name not in docs:
            sys.exit(f"{name}: no kernel-doc comment in {header}")
        with open(f"{outdir}/{name}.3", "w") as out:
            out.write(page(text, docs, name, "November 21, 2026", sorted(names)))


main()
