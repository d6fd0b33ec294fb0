#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables in the documentation, and fields in the public headers, that a command prints. `--check`
fails when one is stale, `--write` renews it. In the file, a part stands between

    <!-- generated: NAME -->
    <!-- end of NAME -->

or, in code, between `// generated: NAME` and `// end of NAME`; ENTRIES says which command prints
NAME, and whether its output is meant as it is or in the order that the file has: fields of a struct
that programs know by their places stay where they are, and new ones go to the end.
`{rubato}` stands for the built program."""

import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
DEADLINE_S = 30
BENCHMARKS = str(Path(__file__).resolve().parent / "benchmarks_table.py")
FIDELITY = str(Path(__file__).resolve().parent / "virtual_fidelity.py")
REPRODUCE = str(Path(__file__).resolve().parent / "reproduce.py")
SCALING = str(Path(__file__).resolve().parent / "scaling.py")
RUST_OPTIONS = str(Path(__file__).resolve().parent / "rust_options.py")

# (file, name, command, part)
ALL, IN_PLACE = "all", "in place"
ENTRIES = [
    ("docs/POLICIES.md", "policies", ["{rubato}", "policies", "--markdown"], ALL),
    ("docs/COMMANDS.md", "commands", ["{rubato}", "commands"], ALL),
    ("docs/OPTIONS.md", "options", ["{rubato}", "options", "--as", "markdown"], ALL),
    ("docs/BENCHMARKS.md", "benchmarks", [sys.executable, BENCHMARKS], ALL),
    ("docs/FIDELITY.md", "virtual-fidelity", [sys.executable, FIDELITY], ALL),
    *(("docs/REPRODUCTION.md", f"reproduction-{part}",
       [sys.executable, REPRODUCE, "--page", part], ALL) for part in ("scores", "figures")),
    ("docs/SCALING.md", "scaling", [sys.executable, SCALING], ALL),
    *((file, form, ["{rubato}", "options", "--as", form], part) for file, form, part in (
        ("include/rubato/options.h", "c-enums", ALL),
        ("include/rubato/options.h", "c-fields", IN_PLACE),
        ("include/rubato/options.hpp", "c++-enums", ALL),
        ("include/rubato/options.hpp", "c++-fields", IN_PLACE),
        ("include/rubato/options.hpp", "c++-members", ALL),
        ("include/rubato/options.hpp", "c++-copies", ALL),
        ("src/api/options.cc", "c-places", ALL))),
    ("languages/rust/src/ffi.rs", "rust-options", [sys.executable, RUST_OPTIONS], ALL),
]


class Stale(Exception):
    """The file has no such markers."""


def pattern(name):
    name = re.escape(name)
    begin = rf"(?:<!-- generated: {name} -->|// generated: {name})\n"
    end = rf"(?:<!-- end of {name} -->|// end of {name}\n)"
    return re.compile(rf"({begin})(.*?)([ ]*{end})", re.DOTALL)


def fields_of(code):
    """Name and text, with the comment above, of each field of a struct."""
    fields = {}
    for field, declared in re.findall(r"((?:[ ]*//.*\n)+((?:(?![ ]*//).+\n)+))", code):
        fields[re.search(r"(\w+)(?:\{\}| = .*)?;\n", declared).group(1)] = field
    return fields


def in_place(old, new):
    old, new = fields_of(old), fields_of(new)
    kept = [name for name in old if name in new]
    return "".join(new[name] for name in [*kept, *(n for n in new if n not in old)])


def replace(text, name, table, part=ALL):
    found = pattern(name).search(text)
    if not found:
        raise Stale(f"no markers for the generated part `{name}`")
    if part == IN_PLACE:
        table = in_place(found.group(2), table)
    return text[:found.end(1)] + table.rstrip("\n") + "\n" + text[found.start(3):]


def output_of(command, rubato):
    command = [word.replace("{rubato}", str(rubato)) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    return done.stdout


def process(root, rubato, write, entries=None):
    """Returns one line of trouble per stale part."""
    trouble = []
    for file, name, command, part in ENTRIES if entries is None else entries:
        path = Path(root) / file
        old = path.read_text()
        try:
            new = replace(old, name, output_of(command, rubato), part)
        except (Stale, subprocess.SubprocessError, OSError) as error:
            said = (getattr(error, "stderr", None) or "").strip()
            trouble.append(f"{file}: {said or error}")
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
