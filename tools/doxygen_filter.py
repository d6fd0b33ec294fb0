#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a Markdown file as Doxygen understands it: headings get the anchors that GitHub gives
them, links between documents become references, links to files that the site lacks are dropped.
docs/Doxyfile names it; the working folder is the root of the tree."""

import posixpath
import re
import sys
from pathlib import Path

from check_links import OF_THE_WEB, anchor_of

MAIN = "README.md"
HEADING = re.compile(r"^(#{1,6} +)(.+?) *#*$")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(<?([^)\s>]+)>?\)")
CODE = re.compile(r"(`[^`\n]*`)")


def label(path, anchor=""):
    """What Doxygen calls a document, or a heading of it."""
    if not anchor:
        return "mainpage" if path == MAIN else re.sub(r"\W", "_", path)
    return f"{re.sub(r'[^0-9A-Za-z]', '_', path)}-{anchor}"


def link(path, text, target):
    """The link in the file at `path`, as a reference or as its text alone."""
    if OF_THE_WEB.match(target):
        return f"[{text}]({target})"
    name, _, anchor = target.partition("#")
    full = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
    if not full.endswith(".md"):
        return text
    reference = "index" if label(full, anchor) == "mainpage" else label(full, anchor)
    return f"[{text}](@ref {reference})"


def with_links(path, paragraph):
    parts = CODE.split(paragraph)
    held = iter(parts[1::2])
    joined = "\0".join(parts[::2])
    linked = LINK.sub(lambda m: link(path, m.group(1), m.group(2)), joined)
    return re.sub("\0", lambda _: next(held), linked)


def filtered(path, text):
    pieces = re.split(r"^(```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    titled = False
    for i in range(0, len(pieces), 2):
        lines = with_links(path, pieces[i]).split("\n")
        for number, line in enumerate(lines):
            heading = HEADING.match(line)
            if heading:
                name = label(path, anchor_of(heading.group(2)) if titled else "")
                lines[number] = f"{heading.group(1)}{heading.group(2)} {{#{name}}}"
                titled = True
        pieces[i] = "\n".join(lines)
    return "".join(pieces)


if __name__ == "__main__":
    SOURCE = Path(sys.argv[1]).resolve()
    RELATIVE = SOURCE.relative_to(Path.cwd()).as_posix()
    sys.stdout.write(filtered(RELATIVE, SOURCE.read_text(encoding="utf-8")))
