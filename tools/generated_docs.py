#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables in the documentation, and fields in the public headers, that a command prints. `--check`
fails when one is stale, `--write` renews it. In the file, a part stands between

    <!-- generated: NAME -->
    <!-- end of NAME -->

or, in code, between `// generated: NAME` and `// end of NAME`; ENTRIES says which command prints
NAME, and whether all of its output is meant or only the part before the first empty line.
`{rubato}` stands for the built program."""

import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
DEADLINE_S = 30

# (file, name, command, part)
ALL, FIRST = "all", "first"
ENTRIES = [
    ("README.md", "policies", ["{rubato}", "policies", "--markdown"], FIRST),
    ("docs/POLICIES.md", "policies", ["{rubato}", "policies", "--markdown"], ALL),
    ("docs/OPTIONS.md", "options", ["{rubato}", "options", "--as", "markdown"], ALL),
    *(("include/rubato/options.h", form, ["{rubato}", "options", "--as", form], ALL)
      for form in ("c-enums", "c-fields")),
    *(("include/rubato/options.hpp", form, ["{rubato}", "options", "--as", form], ALL)
      for form in ("c++-enums", "c++-fields", "c++-members", "c++-copies")),
]


class Stale(Exception):
    """The file has no such markers."""


def pattern(name):
    name = re.escape(name)
    begin = rf"(?:<!-- generated: {name} -->|// generated: {name})\n"
    end = rf"(?:<!-- end of {name} -->|// end of {name}\n)"
    return re.compile(rf"({begin})(.*?)([ ]*{end})", re.DOTALL)


def replace(text, name, table):
    if not pattern(name).search(text):
        raise Stale(f"no markers for the generated part `{name}`")
    return pattern(name).sub(lambda m: m.group(1) + table.rstrip("\n") + "\n" + m.group(3), text)


def output_of(command, rubato, part):
    command = [word.replace("{rubato}", str(rubato)) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    return done.stdout if part == ALL else done.stdout.split("\n\n", maxsplit=1)[0]


def process(root, rubato, write, entries=None):
    """Returns one line of trouble per stale part."""
    trouble = []
    for file, name, command, part in ENTRIES if entries is None else entries:
        path = Path(root) / file
        old = path.read_text()
        try:
            new = replace(old, name, output_of(command, rubato, part))
        except (Stale, subprocess.SubprocessError, OSError) as error:
            trouble.append(f"{file}: {error}")
            continue
        if new != old and write:
            path.write_text(new)
        elif new != old:
            diff = difflib.unified_diff(old.splitlines(), new.splitlines(), "in the file",
                                        "as generated", lineterm="", n=0)
            trouble.append(f"{file}: `{name}` is stale; run tools/generated_docs.py --write\n"
                           + "\n".join(diff))
    return trouble


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    parser.add_argument("--root", default=".")
    parser.add_argument("--rubato", default="build/release/bin/rubato")
    args = parser.parse_args()
    if not Path(args.rubato).exists():
        print(f"skipped: {args.rubato} is not built")
        return SKIPPED
    trouble = process(args.root, args.rubato, args.write)
    print("\n".join(trouble) or "generated parts are up to date")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
