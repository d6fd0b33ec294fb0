#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines of each folder that its tests ran: coverage.py BUILD [--least PERCENT FOLDER...]

BUILD is a build folder of the preset `coverage` whose tests have run. Headers count where any
program has compiled them; tests and their helpers do not count. With --least, exit status 1 if one
of the folders has less than PERCENT of its lines covered.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("src", "apps", "cli")
WORST = 5  # files named per folder


def is_product(path):
    parts = path.parts
    return (parts[0] in PRODUCT and "testing" not in parts
            and not path.stem.endswith(("_test", "_bench", "_fuzz")))


def counts_of(data):
    """(file, line, count) of one object's counters."""
    printed = subprocess.run(["gcov", "--json-format", "--stdout", data.name], check=True,
                             capture_output=True, cwd=data.parent).stdout
    found = []
    for document in printed.splitlines():
        report = json.loads(document)
        base = report["current_working_directory"]
        for file in report["files"]:
            path = Path(os.path.normpath(os.path.join(base, file["file"])))
            if not path.is_relative_to(ROOT) or not is_product(path.relative_to(ROOT)):
                continue
            name = str(path.relative_to(ROOT))
            found += [(name, line["line_number"], line["count"]) for line in file["lines"]]
    return found


def gather(build):
    """By file and line: how often it ran."""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for counts in pool.map(counts_of, sorted(Path(build).rglob("*.gcda"))):
            for file, line, count in counts:
                lines[file][line] += count
    return lines


def folder_of(file):
    return "/".join(Path(file).parts[:2])


def share(lines):
    """(lines, covered) of some files."""
    ran = [count > 0 for counts in lines for count in counts.values()]
    return len(ran), sum(ran)


def percent(total, covered):
    return 100.0 * covered / total if total else 100.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("folders", nargs="*")
    args = parser.parse_intermixed_args()
    lines = gather(args.build)
    if not lines:
        sys.exit(f"{args.build}: no counters; build the preset `coverage` and run its tests")
    by_folder = collections.defaultdict(list)
    for file in lines:
        by_folder[folder_of(file)].append(file)
    missed = []
    for folder, files in sorted(by_folder.items()):
        total, ran = share(lines[file] for file in files)
        covered = percent(total, ran)
        print(f"{covered:6.1f} %  of {total:5} lines  {folder}")
        worst = sorted(files, key=lambda file: percent(*share([lines[file]])))
        if folder in args.folders:
            for file in worst[:WORST]:
                print(f"          {percent(*share([lines[file]])):6.1f} %  {file}")
            if covered < args.least:
                missed.append(f"{folder}: {covered:.1f} % of the lines ran, at least "
                              f"{args.least:g} % should")
    print("\n".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
