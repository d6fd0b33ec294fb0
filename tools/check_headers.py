#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every header on its own, twice included: a header brings what it needs. Spared are
those that a source of the build includes before anything else, which shows the same."""

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_tree import Finding, list_files, read, report

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
         "-Wconversion", "-Wsign-conversion", "-Werror"]
DIALECTS = {"c": "-std=c11", "gnu c": "-std=gnu11", "c++": "-std=c++20"}
FOLDERS = ("src", "include", "apps", ".")
C_ALONE = {"tests/torture/survey_makers.h"}  # for sources that are no C++
SHOWN_LINES = 6
DEADLINE_S = 120


BUILT = ("src/", "apps/", "cli/")  # always, and with all warnings
FIRST_INCLUDE = re.compile(r"^#include [<\"](\S+)[>\"]", re.MULTILINE)


def shown_by_the_build(root, files):
    """The headers that are what some source includes first. (Tests have headers before that, which
    are compiled once for all of them.)"""
    first = set()
    for path in files:
        if path.startswith(BUILT) and path.endswith(".cc") and not path.endswith("_test.cc"):
            found = FIRST_INCLUDE.search(read(root, path))
            first |= {str(Path(f) / found.group(1)) for f in FOLDERS if found}
    return first


def headers(root):
    checked = ("src/", "include/", "apps/", "cli/", "bench/", "tests/")
    files = list_files(root)
    spared = shown_by_the_build(root, files)
    return [f for f in files
            if f.endswith((".h", ".hpp")) and f.startswith(checked) and f not in spared]


def compile_alone(root, path, compiler, dialect):
    """The first lines of what the compiler says, empty if it takes the header."""
    source = f'#include "{path}"\n' * 2
    done = subprocess.run(
        [*compiler, DIALECTS[dialect], *FLAGS, *[f"-I{Path(root) / f}" for f in FOLDERS],
         "-x", dialect.removeprefix("gnu "), "-"],
        input=source, capture_output=True, text=True, timeout=DEADLINE_S, cwd=root, check=False)
    return "\n".join(done.stderr.splitlines()[:SHOWN_LINES]) if done.returncode else ""


def check_header(root, path, cxx, cc):
    if path in C_ALONE:
        trouble = compile_alone(root, path, [cc], "gnu c")
    else:
        trouble = compile_alone(root, path, [cxx], "c++")
    if not trouble and cc and path.startswith("include/") and 'extern "C"' in read(root, path):
        trouble = compile_alone(root, path, [cc], "c")
    return [Finding(path, 1, "self-contained", trouble)] if trouble else []


def check(root, cxx="c++", cc="cc", jobs=2, every=1):
    root = Path(root).resolve()
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda path: check_header(root, path, cxx, cc),
                           headers(root)[::every])
        return [finding for result in results for finding in result]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one header of N")
    args = parser.parse_args()
    return report(check(args.root, args.cxx, args.cc, args.jobs, args.every), "headers")


if __name__ == "__main__":
    sys.exit(main())
