#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds the lines of valkey/insertions.txt to Valkey's sources.

    tools/valkey_insert.py valkey/insertions.txt build/valkey/src

The banner of that file describes it. An anchor that is not there exactly once is an error, which
names it, and then no file is changed: a release of Valkey that differs there fails the build.
"""

import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path


class InsertionError(Exception):
    """One line that says what is wrong and where."""


@dataclass(frozen=True)
class Insertion:
    """One line that is added. `function` "-" = the anchor may be anywhere in the file."""

    path: str
    function: str
    before: bool
    anchor: str
    added: str


def parse(text):
    """The insertions of the file."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1)
             if line.strip() and not line.startswith("#")]
    if len(lines) % 3 != 0:
        raise InsertionError("insertions come in three lines: @, > and +")
    found = []
    for (number, head), (_, anchor), (_, added) in zip(lines[::3], lines[1::3], lines[2::3]):
        words = head.split()
        if len(words) != 4 or words[0] != "@" or words[3] not in ("before", "after"):
            raise InsertionError(f"line {number}: expected '@ FILE FUNCTION before|after'")
        if not anchor.startswith("> ") or not added.startswith("+ "):
            raise InsertionError(f"line {number}: expected '> anchor' and '+ line' after it")
        found.append(Insertion(words[1], words[2], words[3] == "before", anchor[2:].strip(),
                               added[2:]))
    return found


def body(lines, function):
    """The range of lines of a function's definition, by its head and the brace that ends it."""
    head = re.compile(rf"^[A-Za-z_].*\b{re.escape(function)}\(")
    for first, line in enumerate(lines):
        if not head.match(line):
            continue
        last = first
        while last < len(lines) and not lines[last].startswith("}"):
            if lines[last].rstrip().endswith(";") and not lines[last].startswith((" ", "\t")):
                break  # a declaration
            if lines[last].rstrip().endswith(");") and "{" not in "".join(lines[first:last + 1]):
                break  # a declaration over several lines
            last += 1
        else:
            return range(first, last)
    return range(0)


def place(lines, insertion):
    """The index in `lines` that the added line will have."""
    scope = range(len(lines)) if insertion.function == "-" else body(lines, insertion.function)
    at = [i for i in scope if lines[i].strip() == insertion.anchor]
    if len(at) != 1:
        where = insertion.path + ("" if insertion.function == "-" else f", {insertion.function}")
        raise InsertionError(f"{where}: the anchor is there {len(at)} times, expected once: "
                             f"{insertion.anchor}")
    return at[0] if insertion.before else at[0] + 1


def applied(text, insertions):
    """The text with all insertions of one file, whose anchors are looked for in the text as it
    was; those at one place stay in their order."""
    lines = text.splitlines()
    added = defaultdict(list)
    for insertion in insertions:
        at = place(lines, insertion)
        anchor = lines[at if insertion.before else at - 1]
        indent = anchor[:len(anchor) - len(anchor.lstrip())]
        added[at].append(indent + insertion.added)
    out = []
    for index, line in enumerate([*lines, None]):
        out += added[index]
        if line is not None:
            out.append(line)
    return "\n".join(out) + "\n"


def main(insertions_path, root):
    """Returns the exit status."""
    by_file = defaultdict(list)
    try:
        for insertion in parse(Path(insertions_path).read_text(encoding="utf-8")):
            by_file[insertion.path].append(insertion)
        changed = {}
        for path, insertions in by_file.items():
            file = Path(root) / path
            if not file.is_file():
                raise InsertionError(f"{path}: no such file in {root}")
            changed[file] = applied(file.read_text(encoding="utf-8"), insertions)
    except InsertionError as error:
        print(f"valkey_insert: {error}", file=sys.stderr)
        return 2
    for file, text in changed.items():
        file.write_text(text, encoding="utf-8")
    print(f"valkey_insert: {sum(map(len, by_file.values()))} lines in {len(by_file)} files")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: valkey_insert.py INSERTIONS FOLDER")
    sys.exit(main(*sys.argv[1:]))
