#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every link of a Markdown file leads to a file of the tree, and to a heading of it
where it names one, and that every document which a source file names exists. Addresses of the web
are not looked up."""

import functools
import posixpath
import re
import sys
from pathlib import Path

from source_tree import Finding, list_files, read, report

FENCED = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r'\]\(<?([^)\s>]+)>?\)|(?:src|href)="([^"]+)"')
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
NAMED = re.compile(r"\b(docs/[\w/.-]*\w\.md)\b")
OF_THE_WEB = re.compile(r"[a-z]+:")


def blanked(text, pattern):
    """The text with what matches replaced by as many line breaks."""
    return pattern.sub(lambda m: "\n" * m.group().count("\n"), text)


def anchor_of(heading):
    """As GitHub makes it: lower case, words joined by '-', other signs dropped."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


class Tree:
    """The files of a tree, and the anchors of its documents."""

    def __init__(self, root):
        self.root = root
        self.files = set(list_files(root))
        self.folders = {folder.as_posix() for name in self.files for folder in Path(name).parents}

    @functools.cache
    def anchors(self, path):
        text = blanked(read(self.root, path) or "", FENCED)
        return {anchor_of(heading) for heading in HEADING.findall(text)}

    def trouble(self, path, link):
        """What is wrong with a link in the file at `path`; empty if it is right."""
        target, _, anchor = link.partition("#")
        folder = posixpath.dirname(path)
        full = posixpath.normpath(posixpath.join(folder, target)) if target else path
        if full not in self.files and full not in self.folders:
            return f"'{link}' leads to no file of the tree"
        if anchor and full.endswith(".md") and anchor not in self.anchors(full):
            return f"'{link}' leads to no heading of {full}"
        return ""


def links_of(tree, path, text):
    text = blanked(blanked(text, FENCED), CODE)
    for match in LINK.finditer(text):
        link = match.group(1) or match.group(2)
        trouble = "" if OF_THE_WEB.match(link) else tree.trouble(path, link)
        if trouble:
            yield Finding(path, line_of(text, match.start()), "link", trouble)


def names_of(tree, path, text):
    for match in NAMED.finditer(text):
        if match.group(1) not in tree.files:
            yield Finding(path, line_of(text, match.start()), "document",
                          f"{match.group(1)} is not in the tree")


def check(root):
    tree = Tree(root)
    findings = []
    for path in sorted(tree.files):
        if path.startswith("tools/tests/"):
            continue
        text = read(root, path)
        if text is None:
            continue
        find = links_of if path.endswith(".md") else names_of
        findings += find(tree, path, text)
    return findings


if __name__ == "__main__":
    sys.exit(report(check(sys.argv[1] if len(sys.argv) > 1 else "."), "links"))
