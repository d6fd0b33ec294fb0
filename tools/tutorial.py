#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files of the code that a tutorial shows, so that a test can compile and run it: the
document is the only place where that code stands.

    <!-- file: PATH -->        before a fenced block: all of a file that the reader adds
    <!-- change to: PATH -->   before a fenced block in `diff`: what the reader changes in a file of
                               the tree. `@@` is between two places; blanks are not compared

Writes them below --into, a changed file as a copy, and prints their paths. A file is only written
when its text is another. With --check it does what the house checks of every source do."""

import argparse
import re
import sys
import tempfile
from pathlib import Path

import check_tidy
from source_tree import report

MARKED = re.compile(r"^<!-- (file|change to): (\S+) -->$")
FENCE = "```"


class Wrong(Exception):
    """The document does not hold together, or does not fit the tree."""


def fenced(lines, at, path):
    """The text of the block that opens in line `at` (from 0)."""
    if at >= len(lines) or not lines[at].startswith(FENCE):
        raise Wrong(f"line {at + 1}: no block of code after the mark of {path}")
    for end in range(at + 1, len(lines)):
        if lines[end] == FENCE:
            return lines[at + 1:end]
    raise Wrong(f"line {at + 1}: the block of {path} does not end")


def blocks(text):
    """(kind, path, lines) of every marked block, in order."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines):
        mark = MARKED.match(line)
        if mark:
            found.append((*mark.groups(), fenced(lines, number + 1, mark.group(2))))
    if not found:
        raise Wrong("it marks no block of code")
    return found


def same(line, other):
    return line.split() == other.split()


def place_of(wanted, lines, path):
    """Where the lines `wanted` stand in the file: there must be one such place."""
    places = [at for at in range(len(lines) - len(wanted) + 1)
              if all(same(*pair) for pair in zip(wanted, lines[at:]))]
    if len(places) != 1:
        raise Wrong(f"{path}: {len(places)} places for\n" + "\n".join(wanted))
    return places[0]


def changed(lines, diff, path):
    """`lines` after a diff without line numbers."""
    hunk = []
    for line in [*diff, "@@"]:
        if line.startswith("@@"):
            before = [h[1:] for h in hunk if h[:1] != "+"]
            after = [h[1:] for h in hunk if h[:1] != "-"]
            if not before:
                raise Wrong(f"{path}: a change that does not say where")
            at = place_of(before, lines, path)
            lines = lines[:at] + after + lines[at + len(before):]
            hunk = []
        elif line[:1] in ("+", "-", " "):
            hunk.append(line)
        else:
            raise Wrong(f"{path}: neither kept, added nor removed: {line!r}")
    return lines


def files_of(text, root):
    """path -> text of every file that the reader of the document then has."""
    files = {}
    for kind, path, lines in blocks(text):
        exists = (Path(root) / path).exists()
        if kind == "file":
            if exists or path in files:
                raise Wrong(f"{path} is there already")
            files[path] = "\n".join(lines) + "\n"
        else:
            if not exists:
                raise Wrong(f"there is no {path} to change")
            old = files.get(path) or (Path(root) / path).read_text(encoding="utf-8")
            files[path] = "\n".join(changed(old.split("\n"), lines, path))
    return files


def write(files, folder):
    for path, text in files.items():
        target = Path(folder) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def findings(files):
    """What the checks of the house say of the files."""
    with tempfile.TemporaryDirectory() as folder:
        write(files, folder)
        return [f for path in files for f in check_tidy.check_file(folder, path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("document")
    parser.add_argument("--root", default=".", help="the tree that the tutorial is about")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--into", metavar="FOLDER", help="where to put the files")
    target.add_argument("--check", action="store_true", help="only look at the files")
    args = parser.parse_args()
    try:
        files = files_of(Path(args.document).read_text(encoding="utf-8"), args.root)
    except (OSError, Wrong) as error:
        print(f"{args.document}: {error}", file=sys.stderr)
        return 1
    if args.check:
        return report(findings(files), "tutorial")
    write(files, args.into)
    print("\n".join(str(Path(args.into) / path) for path in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
