#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts per request by policy and number of workers, from docs/scaling.jsonl.

    tools/scaling.py                                     prints the tables of docs/SCALING.md
    tools/scaling.py --write BINARY                      counts again: the file, tables and figures
    tools/scaling.py --draw                              draws the figures again
    tools/scaling.py --check BINARY --workers-max 4      shows what has changed by more than 5 %,
                                                         and fails for more than 10 %
    tools/scaling.py --check-instructions BINARY         the same for the instructions of SAMPLE

BINARY is virtual_counts of the preset `tsan`, which prints a line of JSON for each row. valgrind
counts the instructions. The slope
of a count is that of a straight line through the logarithms of count and workers, from
SLOPE_FROM workers on: 0 = the same however many workers there are, 1 = proportional to them. A
row of a runtime that does not keep up with the load (ANSWERED) is left out of slopes."""

import argparse
import collections
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import generated_docs

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "lab"))
from rubato_lab import style  # noqa: E402
from rubato_lab.extras import use_a_python_with  # noqa: E402
DATA, PAGE = "docs/scaling.jsonl", "docs/SCALING.md"

# Field of a row, title of its table, decimals, and the least change that is one.
COUNTS = [
    ("spinning_one_line", "Writes to the one line that is taken most often; workers spin", 2, 0.05),
    ("one_line", "The same; idle workers sleep", 2, 0.05),
    ("spinning_lines_written", "Writes that take a line from another thread; workers spin", 1, 0.5),
    ("lines_written", "The same; idle workers sleep", 1, 0.5),
    ("lines_read", "Reads that fetch a line from another thread; idle workers sleep", 1, 0.5),
    ("wakes", "Wake-ups; idle workers sleep", 2, 0.02),
    ("calls", "System calls; idle workers sleep", 2, 0.02),
    ("accesses", "Accesses to memory; idle workers sleep", 0, 10),
    ("instructions", "Instructions; idle workers sleep", 0, 50),
]
SHOWN, FAILS = 0.05, 0.1  # other interleavings of the same code differ by up to 6 %
SLOPE_FROM = 8
WORKERS_MOST = 64
# A policy has no central part if the one line that is taken most is taken for fewer requests than
# CENTRAL_FROM with most workers, and at most half as often as with SLOPE_FROM workers.
CENTRAL_FIELD, CENTRAL_FROM = "spinning_one_line", 0.5
ANSWERED = 0.9
DEADLINE_S = 1800
# Instructions are those of the longer of two runs less those of the shorter.
REQUESTS = (500, 1500)
MORE_PER_WORKER = (15, 65)
SAMPLE = [("fcfs", 4), ("steal", 4), ("synergy", 4)]
SKIP = 77  # what CTest takes for a test that could not run


def read(text):
    return [json.loads(line) for line in text.splitlines()]


def load():
    return read((ROOT / DATA).read_text())


def count(binary, workers_max):
    """What the program prints. The same addresses each time, where they can be had."""
    same = [shutil.which("setarch"), "-R"] if shutil.which("setarch") else []
    command = [*same, binary, "--workers-max", str(workers_max)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S,
                          check=False)
    if done.returncode != 0 or not done.stdout:
        sys.exit(f"scaling: {binary} has counted nothing (status {done.returncode}); it takes "
                 "virtual_counts of the preset tsan")
    return done.stdout


# ---- Instructions -----------------------------------------------------------------------------

def functions(profile):
    """The instructions of a file of cachegrind, by source file and function."""
    counts = collections.Counter()
    source = function = ""
    for line in profile.splitlines():
        if line.startswith("fl="):
            source = line[3:]
        elif line.startswith("fn="):
            function = line[3:]
        elif line[:1].isdigit():
            counts[source, function] += int(line.split()[1])
    return counts


def of_the_product(counts):
    """Without the functions of the world, also where others are inlined into them; those of the
    clients' and the application's tests; random numbers, which are mostly the world's; and code
    without a source file here, as libc's is."""
    virtual = {function for source, function in counts if "/src/virtual/" in source}

    def counts_in(source, function):
        ours = "/src/" in source and "/testing/" not in source and "base/prng.h" not in source
        inlined = "/include/c++/" in source and "rubato::" in function
        outside = "rubato::virt::" in function or function in virtual
        return (ours or inlined) and not outside

    return sum(number for where, number in counts.items() if counts_in(*where))


def profile_of(binary, policy, workers, requests):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile"
        same = [shutil.which("setarch"), "-R"] if shutil.which("setarch") else []
        subprocess.run([*same, "valgrind", "-q", "--tool=cachegrind", "--cache-sim=no",
                        f"--cachegrind-out-file={path}", binary, "--requests", str(requests),
                        "--workers", str(workers), "--policy", policy],
                       timeout=DEADLINE_S, check=True, stderr=subprocess.DEVNULL)
        return of_the_product(functions(path.read_text(errors="replace")))


def instructions(binary, policy, workers):
    few, many = (start + more * workers for start, more in zip(REQUESTS, MORE_PER_WORKER))
    spent = (profile_of(binary, policy, workers, many) - profile_of(binary, policy, workers, few))
    return round(spent / (many - few), 1)


def add_instructions(binary, rows):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counted = pool.map(lambda row: instructions(binary, row["policy"], row["workers"]), rows)
        for row, number in zip(rows, counted):
            row["instructions"] = number


# ---- Tables -----------------------------------------------------------------------------------

def by_policy(rows):
    policies = {}
    for row in rows:
        policies.setdefault(row["policy"], {})[row["workers"]] = row
    return policies


def keeps_up(row):
    return row["answered"] >= ANSWERED


def slope(rows, field):
    """None = fewer than two rows are of use."""
    points = [(math.log(row["workers"]), math.log(row[field])) for row in rows
              if row["workers"] >= SLOPE_FROM and keeps_up(row) and row.get(field, 0) > 0]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return (sum((x - mean_x) * (y - mean_y) for x, y in points)
            / sum((x - mean_x) ** 2 for x, _ in points))


def has_central_part(rows):
    of = {row["workers"]: row[CENTRAL_FIELD] for row in rows}
    last = of[max(of)]
    return last >= CENTRAL_FROM or last > of[SLOPE_FROM] / 2


def central_parts(rows):
    found = {True: [], False: []}
    for policy, of in by_policy(rows).items():
        found[has_central_part(of.values())].append(f"`{policy}`")
    most = max(row["workers"] for row in rows)
    return (f"**No central part**: {', '.join(found[False]) or 'none'}. The line that is taken "
            f"most is taken less than {CENTRAL_FROM} times per request with {most} workers, and at "
            f"most half as often as with {SLOPE_FROM}.\n\n**A central part**: "
            f"{', '.join(found[True]) or 'none'}.")


def cell(row, field, decimals):
    if field not in row:
        return "-"
    return f"{row[field]:.{decimals}f}" + ("" if keeps_up(row) else "\\*")


def table(rows, field, title, decimals):
    policies = by_policy(rows)
    workers = sorted({row["workers"] for row in rows})
    lines = [f"**{title}**, per request", "",
             f"| policy | {' | '.join(map(str, workers))} | slope |",
             "|---|" + "---|" * (len(workers) + 1)]
    for policy, of in policies.items():
        if not any(field in row for row in of.values()):
            continue
        cells = [cell(of[n], field, decimals) for n in workers]
        steep = slope(of.values(), field)
        cells.append("-" if steep is None else f"{steep:.2f}")
        lines.append(f"| `{policy}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(rows):
    parts = [table(rows, field, title, decimals) for field, title, decimals, _ in COUNTS]
    return "\n\n".join([central_parts(rows), *parts]) + "\n"


# ---- The figures ------------------------------------------------------------------------------

LOGARITHMIC = "both axes logarithmic"
COLUMNS, WIDTH, HEAD, HEIGHT = 4, 800, 100, 130


class Figure(typing.NamedTuple):
    """Curves of some counts by the number of workers, a plot for each policy."""
    file: str
    title: str
    note: str
    drawn: tuple  # field and name of each curve
    range: tuple  # of all plots
    relative: bool = False  # to the count with one worker


FIGURES = [
    Figure("docs/img/scaling.svg",
           "Cache lines that a request takes from other threads, by number of workers",
           "per request, workers spin",
           (("spinning_lines_written", "writes that take a line"),
            ("spinning_one_line", "of these, to one line")), (0.01, 300)),
    Figure("docs/img/scaling_work.svg",
           "Work of a request by number of workers, over that with one",
           "without the handler, idle workers sleep",
           (("instructions", "instructions"),
            ("accesses", "accesses to memory"),
            ("lines_read", "lines that are fetched")), (0.5, 60), relative=True),
]


@style.applied()
def drawing(rows, figure):
    """matplotlib's Figure."""
    policies = by_policy(rows)
    least, most = figure.range
    lines = -(-len(policies) // COLUMNS)
    sheet = style.sheet(WIDTH, HEAD + lines * HEIGHT, figure.title,
                        [f"{figure.note}; {LOGARITHMIC}", ""])
    plots = list(sheet.subplots(lines, COLUMNS, sharex=True, sharey=True, squeeze=False).flat)
    for ax, (policy, of) in zip(plots, policies.items()):
        for i, (field, name) in enumerate(figure.drawn):
            unit = of[min(of)][field] if figure.relative else 1
            ax.plot(list(of), [max(row[field] / unit, least) for row in of.values()], label=name,
                    **style.look(i))
        ax.set_title(policy, weight="bold")
        ax.set(ylim=(least, most))
        style.logarithmic(ax, "x", "{:g}".format)
        style.logarithmic(ax, "y", "{:g}".format)
        ax.set_xticks([workers for workers in (1, 8, 64) if workers in of])
    for ax in plots[len(policies):]:
        ax.set_axis_off()
    for ax in plots[:len(policies)][-COLUMNS:]:
        ax.tick_params(labelbottom=True)
    style.legend(sheet, plots[0], 2, ncols=len(figure.drawn))
    return sheet


# ---- Commands ---------------------------------------------------------------------------------

def write(binary, workers_max):
    rows = read(count(binary, workers_max))
    add_instructions(binary, rows)
    (ROOT / DATA).write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = ROOT / PAGE
    page.write_text(generated_docs.replace(page.read_text(), "scaling", tables(rows)))
    draw(rows)


def draw(rows):
    for figure in FIGURES:
        (ROOT / figure.file).write_text(style.svg(drawing(rows, figure)))


def changes(old, new, tolerance=SHOWN):
    """One line for each count that has changed by more than that."""
    was = {(row["policy"], row["workers"]): row for row in old}
    found = []
    for row in new:
        where = f"{row['policy']}, {row['workers']} workers"
        before = was.get((row["policy"], row["workers"]))
        if before is None:
            found.append(f"{where}: not in {DATA}")
            continue
        for field, _, _, least in COUNTS:
            if field not in row or field not in before:
                continue
            if abs(row[field] - before[field]) > max(tolerance * before[field], least):
                found.append(f"{where}: {field} was {before[field]} and is {row[field]}")
    gone = {row["policy"] for row in old} - {row["policy"] for row in new}
    return found + [f"{policy}: in {DATA} only" for policy in sorted(gone)]


def check(old, new):
    print("\n".join(changes(old, new)) or f"the counts are those of {DATA}")
    if not changes(old, new, FAILS):
        return 0
    print("if that is meant, run tools/scaling.py --write and read the page again")
    return 1


def sample(binary):
    """The rows of SAMPLE as they were, and with the instructions of now."""
    old = [row for row in load() if (row["policy"], row["workers"]) in SAMPLE]
    new = [{"policy": policy, "workers": workers} for policy, workers in SAMPLE]
    add_instructions(binary, new)
    return old, new


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", metavar="BINARY")
    mode.add_argument("--draw", action="store_true")
    mode.add_argument("--check", metavar="BINARY")
    mode.add_argument("--check-instructions", metavar="BINARY")
    parser.add_argument("--workers-max", type=int, default=WORKERS_MOST, metavar="N",
                        help=f"1 to {WORKERS_MOST}")
    args = parser.parse_args()
    if not 1 <= args.workers_max <= WORKERS_MOST:
        parser.exit(2, f"scaling: --workers-max takes 1 to {WORKERS_MOST}, not "
                       f"{args.workers_max}\n")
    if args.write:
        write(args.write, args.workers_max)
    elif args.draw:
        draw(load())
    elif args.check:
        return check(load(), read(count(args.check, args.workers_max)))
    elif args.check_instructions:
        if shutil.which("valgrind") is None:
            print("valgrind is missing")
            return SKIP
        return check(*sample(args.check_instructions))
    else:
        print(tables(load()), end="")
    return 0


if __name__ == "__main__":
    use_a_python_with("matplotlib")
    sys.exit(main())
