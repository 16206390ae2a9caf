# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The prose of a file: its comments, its paragraphs, its messages."""
import ast
import io
import pathlib
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import NamedTuple

from prose import count_words

MIN_MESSAGE_WORDS = 4  # a shorter string is rather a name, a format or a key


class Text(NamedTuple):
    kind: str  # a key of LIMITS
    line: int
    words: str  # a paragraph; sentences are separated by one space


def paragraphs(kind: str, line: int, text: str) -> Iterator[Text]:
    """Split at empty lines, list items and the fields of kernel-doc. `Code` counts as a name."""
    text = re.sub(r"`[^`\n]*`", "X", text)
    start = 0
    lines = text.split("\n") + [""]
    for at, content in enumerate(lines):
        if at > start and (not content.strip() or re.match(r"\s*(?:[-*|] |@\w+:|\d+\. |#+ )", content)):
            words = " ".join(" ".join(lines[start:at]).split()).lstrip("-*#| ")
            words = re.sub(r"^@[\w.]+: ", "", words)
            if words and "SPDX-License" not in words:
                yield Text(kind, line + start, words)
            start = at if content.strip() else at + 1
        elif not content.strip():
            start = at + 1


def messages(line: int, text: str) -> Iterator[Text]:
    if "(?" in text or r"\b" in text:  # a regular expression
        return
    text = re.sub(r"%[-+ #0-9.*]*(?:hh|ll|[hlzjt])?[a-zA-Z]|\$\{?\w+\}?|\\[nt]", "X ", text)
    for paragraph in paragraphs("messages", line, text):
        if count_words(paragraph.words) >= MIN_MESSAGE_WORDS:
            yield paragraph


C_TOKEN = re.compile(r'/\*.*?\*/|(?://[^\n]*\n[ \t]*)+|(?:"(?:\\.|[^"\\\n])*"\s*)+|\'(?:\\.|[^\'\\\n])+\'', re.S)


def c_texts(source: str) -> Iterator[Text]:
    source = re.sub(r"^[ \t]*#[ \t]*include[^\n]*", "", source, flags=re.M)
    for token in C_TOKEN.finditer(source):
        line = source.count("\n", 0, token.start()) + 1
        if token[0].startswith("/*"):
            yield from paragraphs("comments", line, re.sub(r"^[ \t]*\*+", "", token[0][2:-2], flags=re.M))
        elif token[0].startswith("//"):
            yield from paragraphs("comments", line, re.sub(r"^[ \t]*//", "", token[0], flags=re.M))
        elif token[0].startswith('"'):
            yield from messages(line, re.sub(r'"\s*"', "", token[0]).strip('" \t\n'))


def hash_comments(source: str) -> Iterator[Text]:
    """Comments of shell, make and meson; neighbouring lines are one paragraph."""
    block: list[str] = []
    for number, line in enumerate(source.split("\n") + [""], 1):
        comment = re.search(r"(?:^|\s)##?(?:\s+(.*))?$", line)
        is_whole_line = line.lstrip().startswith("#") and not line.startswith("#!")
        if block and not is_whole_line:
            yield from paragraphs("comments", number - len(block), "\n".join(block))
            block = []
        if is_whole_line:
            block.append((comment[1] or "") if comment else "")
        elif comment and comment[1] and not line.startswith("#!"):
            yield from paragraphs("comments", number, comment[1])


def shell_texts(source: str) -> Iterator[Text]:
    yield from hash_comments(source)
    for line, content in enumerate(source.split("\n"), 1):
        if not content.lstrip().startswith("#"):
            for string in re.findall(r'"([^"\n]*)"', content):
                yield from messages(line, string)


def python_texts(source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            docstrings.add(node.body[0].value)
            yield from paragraphs("comments", node.body[0].lineno, ast.get_docstring(node))
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            block.append(token)
        elif token.type != tokenize.NL and block:
            yield from paragraphs("comments", block[0].start[0], "\n".join(t.string[1:] for t in block))
            block = []
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) \
                and node not in docstrings and id(node) not in parts:
            text = node.value
        else:
            continue
        if "\n" not in text.strip():  # else it is a program or a file
            yield from messages(node.lineno, text)


def markdown_texts(source: str) -> Iterator[Text]:
    source = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), source, flags=re.M | re.S)
    source = re.sub(r"^(?:    |\t).*$|^#.*$", "", source, flags=re.M)
    source = re.sub(r"\]\([^)\n]*\)", "]", source)
    for text in paragraphs("documents", 1, source):
        for cell in text.words.split("|"):
            yield Text(text.kind, text.line, cell.strip())


def mdoc_texts(source: str) -> Iterator[Text]:
    source = re.sub(r'^\.\\".*$', "", source, flags=re.M)
    source = re.sub(r"^\.Bd -literal.*?^\.Ed", lambda code: "\n" * code[0].count("\n"), source, flags=re.M | re.S)
    source = re.sub(r"^\.(?:Nd|Sx|Em|Sy|Dq|Pq|Sq) ", "", source, flags=re.M)
    # A macro with text in it is a name; any other one ends the paragraph.
    source = re.sub(r"^\.(?:Nm|Ar|Fl|Pa|Xr|Cm|Ic|Fn|Fa|Va|Ev|Dv|Er|Ql|Li|Op|Vt|Ft|In)(?=\s)[^\n]*?( [.,:;)]+)?$",
                    lambda macro: "X" + (macro[1] or "").strip(), source, flags=re.M)
    source = re.sub(r"^\..*$", "", source, flags=re.M)
    return paragraphs("documents", 1, source)


def control_texts(source: str) -> Iterator[Text]:
    """The descriptions of debian/control."""
    for found in re.finditer(r"^Description: .*\n(?: .*\n)*", source, flags=re.M):
        yield from paragraphs("documents", source.count("\n", 0, found.start()) + 1,
                              re.sub(r"^ \.$", "", found[0], flags=re.M))


Reader = Callable[[str], Iterator[Text]]


def reader_of(path: pathlib.Path, source: str) -> Reader | None:
    """The reader for the file's language, by its name or its first line; None: it has no prose."""
    by_suffix = {".c": c_texts, ".h": c_texts, ".def": c_texts, ".py": python_texts, ".pyi": python_texts,
                 ".sh": shell_texts, ".md": markdown_texts, ".bash": shell_texts, ".fish": shell_texts}
    by_name = {"Makefile": hash_comments, "Kbuild": hash_comments, "meson.build": hash_comments,
               "meson_options.txt": hash_comments, "_hugemap": shell_texts, "control": control_texts}
    first = source.split("\n", 1)[0]
    if re.fullmatch(r"\.[1-8]", path.suffix):
        return mdoc_texts
    if first.startswith("#!"):
        return python_texts if "python" in first else hash_comments if "make" in first else shell_texts
    return by_suffix.get(path.suffix) or by_name.get(path.name)


def texts(path: pathlib.Path) -> list[Text]:
    try:
        source = path.read_text()
    except UnicodeDecodeError:
        return []
    reader = reader_of(path, source)
    return list(reader(source)) if reader else []
