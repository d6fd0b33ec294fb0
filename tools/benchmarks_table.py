#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the machines and the tables of docs/BENCHMARKS.md as Markdown.

The data file names each machine once and lists the rows by section:

    [machines.NAME]
    description = "..."

    [[sections]]
    title = "..."

    [[sections.rows]]
    what, command, machine, commit, median, range    # required
    note                                             # at most 25 words
    target, met                                      # together or not at all

A row that lacks a field ends the program with one line and status 2."""

import argparse
import sys
import tomllib
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "docs/benchmarks.toml"
REQUIRED = ("what", "command", "machine", "commit", "median", "range")
OPTIONAL = ("note", "target", "met")
MAX_NOTE_WORDS = 25
INVALID = 2


class Invalid(Exception):
    """What is wrong with the data, in one line."""


def required(table, field, where):
    if not str(table.get(field, "")).strip():
        raise Invalid(f"{where} lacks '{field}'")
    return table[field]


def check_row(row, where, machines):
    for field in REQUIRED:
        required(row, field, where)
    unknown = sorted(set(row) - {*REQUIRED, *OPTIONAL})
    if unknown:
        raise Invalid(f"{where} has an unknown field '{unknown[0]}'")
    if row["machine"] not in machines:
        raise Invalid(f"{where} names an unknown machine '{row['machine']}'")
    if ("target" in row) != isinstance(row.get("met"), bool):
        raise Invalid(f"{where} lacks 'target' or 'met', which is true or false")
    if len(str(row.get("note", "")).split()) > MAX_NOTE_WORDS:
        raise Invalid(f"{where} has a note of more than {MAX_NOTE_WORDS} words")


def check(data):
    machines = data.get("machines", {})
    for name, machine in machines.items():
        required(machine, "description", f"machine '{name}'")
    for number, section in enumerate(data.get("sections", []), 1):
        title = required(section, "title", f"section {number}")
        for place, row in enumerate(section.get("rows", []), 1):
            name = row.get("what") or f"number {place}"
            check_row(row, f"row '{name}' of section '{title}'", machines)


def target_of(row):
    if "target" not in row:
        return ""
    return f"{row['target']}: {'met' if row['met'] else '**missed**'}"


# (heading, text of a row, whether the column stays where no row of the section fills it)
COLUMNS = (
    ("what", lambda row: row["what"], True),
    ("median", lambda row: row["median"], True),
    ("range", lambda row: row["range"], True),
    ("target", target_of, False),
    ("command", lambda row: row["command"], True),
    ("machine", lambda row: row["machine"], True),
    ("commit", lambda row: row["commit"], True),
    ("note", lambda row: row.get("note", ""), False),
)


def line(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def table(rows):
    columns = [column for column in COLUMNS if column[2] or any(map(column[1], rows))]
    yield line(heading for heading, _, _ in columns)
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield line(text(row) for _, text, _ in columns)


def markdown(data):
    check(data)
    yield from ("## Machines", "")
    for name, machine in data.get("machines", {}).items():
        yield f"- **{name}**: {machine['description']}"
    for section in data.get("sections", []):
        yield from ("", f"## {section['title']}", "", *table(section.get("rows", [])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="default: %(default)s")
    args = parser.parse_args()
    try:
        print("\n".join(markdown(tomllib.loads(args.data.read_text(encoding="utf-8")))))
    except (Invalid, OSError, ValueError) as error:
        print(f"benchmarks_table.py: {args.data}: {error}", file=sys.stderr)
        return INVALID
    return 0


if __name__ == "__main__":
    sys.exit(main())
