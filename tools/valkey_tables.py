#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tables of valkey/ with Valkey's sources, and generates what is made of them.

    tools/valkey_tables.py valkey build/valkey/src

writes scheduler_classes.h there, from commands.txt, and fails with a line for each command that
Valkey's command table has and commands.txt lacks, or the reverse, and for each field of the
server's structure that fields.txt gives no class, or the reverse.

    tools/valkey_tables.py --statics valkey build/valkey/src

does the same with statics.txt and the variables with static storage, those of a thread included, of
the object files there. A compiler may have done without one, so those that are not there are no
error. The second of one name in a file is FILE:NAME/2. Not looked at: what Valkey links from deps,
which are Lua (of which one script at a time has the interpreter), jemalloc, hiredis and others
without a checkpoint in them.
"""

import fnmatch
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

CLASSES = ("drains", "whole", "waits", "suspends", "script", "exec")
FIELD_CLASSES = ("command", "counter", "shared")
STATIC_CLASSES = ("command", "script", "brief", "shared")
# A line of `objdump -t`; not what is constant. Those of a thread are no objects there.
VARIABLE = re.compile(r"[0-9a-f]+ .{5}[^d](?:O \.(?:data|bss)|[ O] \.(?:tdata|tbss))\S*\s+"
                      r"[0-9a-f]+ (?:\.hidden )?(\S+)$")
# Object files of other programs than the server.
OTHER_PROGRAMS = ("valkey-cli", "valkey-benchmark", "cli_common", "cli_commands")


def entries(text, classes):
    """{name: class} of the lines `NAME CLASS`; ValueError with a line for any other."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[1] not in classes:
            raise ValueError(f"line {number}: expected NAME and one of {', '.join(classes)}")
        if words[0] in found:
            raise ValueError(f"line {number}: {words[0]} is there twice")
        found[words[0]] = words[1]
    return found


def commands_of(folder):
    """The full names of the commands that Valkey's src/commands/*.json define."""
    names = set()
    for file in sorted(Path(folder).glob("*.json")):
        for name, command in json.loads(file.read_text(encoding="utf-8")).items():
            parent = command.get("container")
            names.add((f"{parent}|{name}" if parent else name).lower())
    return names


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def fields_of(text, structure="valkeyServer"):
    """The names of the fields of a structure of a header, those of anonymous parts left out."""
    text = without_comments(text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    opening = re.search(rf"struct {structure} {{", text)
    if opening is None:
        raise ValueError(f"there is no struct {structure}")
    depth, end = 1, opening.end()
    flat = []
    while depth > 0:
        char = text[end]
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth == 1 and char != "}":
            flat.append(char)
        end += 1
    names = []
    for declaration in "".join(flat).split(";"):
        if not declaration.strip():
            continue
        for part in declaration.split(","):
            name = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*(:\s*\d+)?\s*$", part.strip())
            if name is None:
                raise ValueError(f"a field that is not understood: {part.strip()}")
            names.append(name.group(1))
    return names


def statics_of_table(text, file):
    """file:NAME of each variable in a table of symbols, as `objdump -t` prints it."""
    times = Counter()
    for line in text.splitlines():
        symbol = VARIABLE.match(line)
        if symbol is not None:
            name = re.sub(r"(\.[0-9]+)+$", "", symbol.group(1))  # of one in a function
            times[name] += 1
            yield f"{file}:{name}" + (f"/{times[name]}" if times[name] > 1 else "")


def statics_of(folder):
    """The variables with static storage of the server's object files, and of ours none."""
    found = set()
    for file in sorted(Path(folder).glob("*.o")) + sorted(Path(folder).glob("lua/*.o")):
        if file.stem in OTHER_PROGRAMS or file.stem.startswith("scheduler"):
            continue
        done = subprocess.run(["objdump", "-t", str(file)], capture_output=True, text=True,
                              check=True)
        found.update(statics_of_table(done.stdout, file.stem))
    if not found:
        raise ValueError(f"there is no object file with a variable in {folder}")
    return found


def differences(have, want, what):
    """A line for each name that is in one of the two sets only. `have` may have patterns."""
    patterns = [name for name in have if "*" in name]
    plain = set(have) - set(patterns)
    for name in sorted(set(want) - plain):
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            yield f"{what} {name} has no class"
    for name in sorted(plain - set(want)):
        yield f"{what} {name} is not in Valkey"


def listed(text, macro):
    """The names X(name) of a list of names in scheduler_parts.h."""
    lines = re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*)", text)
    return set(re.findall(r"X\((\w+)\)", lines.group(1)))


def header(classes):
    """scheduler_classes.h: entries of an array."""
    lines = ["// Generated from valkey/commands.txt by tools/valkey_tables.py."]
    lines += [f'{{"{name}", SCHEDULER_{kind.upper()}}},' for name, kind in sorted(classes.items())]
    return "\n".join(lines) + "\n"


def compare_statics(tables, source):
    """Returns the exit status."""
    statics = entries((Path(tables) / "statics.txt").read_text(encoding="utf-8"), STATIC_CLASSES)
    try:
        found = statics_of(source)
    except ValueError as error:
        print(f"valkey_tables: {error}", file=sys.stderr)
        return 1
    wrong = list(differences(statics, found | {name for name in statics if "*" not in name},
                             "variable"))
    for line in wrong:
        print(f"valkey_tables: {line}", file=sys.stderr)
    if not wrong:
        print(f"valkey_tables: {len(found)} variables have their classes")
    return 1 if wrong else 0


def main(tables, source):
    """Returns the exit status."""
    tables, source = Path(tables), Path(source)
    classes = entries((tables / "commands.txt").read_text(encoding="utf-8"), CLASSES)
    fields = entries((tables / "fields.txt").read_text(encoding="utf-8"), FIELD_CLASSES)
    parts = (tables / "scheduler_parts.h").read_text(encoding="utf-8")
    server = (source / "server.h").read_text(encoding="utf-8")
    wrong = list(differences(classes, commands_of(source / "commands"), "command"))
    wrong += differences(fields, fields_of(server), "field")
    for kind, macro in (("command", "RUBATO_FIELDS"), ("counter", "RUBATO_COUNTERS")):
        mine = {name for name, of in fields.items() if of == kind}
        wrong += [f"{macro} and fields.txt differ: {name}"
                  for name in sorted(mine ^ listed(parts, macro))]
    for line in wrong:
        print(f"valkey_tables: {line}", file=sys.stderr)
    if wrong:
        return 1
    (source / "scheduler_classes.h").write_text(header(classes), encoding="utf-8")
    print(f"valkey_tables: {len(classes)} commands, {len(fields)} fields have their classes")
    return 0


if __name__ == "__main__":
    act = main
    if sys.argv[1:2] == ["--statics"]:
        act = compare_statics
        del sys.argv[1]
    if len(sys.argv) != 3:
        sys.exit("usage: valkey_tables.py [--statics] valkey SOURCE_FOLDER")
    sys.exit(act(*sys.argv[1:]))
