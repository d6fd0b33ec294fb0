# SPDX-License-Identifier: Apache-2.0
"""The shell commands that a document shows, for tests that run them as they stand there."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(text, heading):
    """What stands below `## heading`, up to the next of its kind."""
    _, found, after = text.partition(f"\n## {heading}\n")
    if not found:
        raise ValueError(f"there is no section '{heading}'")
    return after.partition("\n## ")[0]


def block(text):
    """The commands of the first block of shell, one a line, without what the shell ignores."""
    found = BLOCK.search(text)
    if not found:
        raise ValueError("there is no block of sh")
    lines = found.group(1).replace("\\\n", " ").splitlines()
    stripped = (re.sub(r"(^|\s)#.*$", "", line).rstrip() for line in lines)
    return [line for line in stripped if line]


def all_commands(text):
    """The commands of all blocks of shell, in their order."""
    return [line for found in BLOCK.finditer(text) for line in block(found.group(0))]


def library_commands():
    """How the library is installed and the examples are built."""
    return block((ROOT / "examples/README.md").read_text(encoding="utf-8"))


def use_commands():
    return block(section((ROOT / "README.md").read_text(encoding="utf-8"), "Use"))


def words_after(option, commands):
    """What follows `option` in the first of the commands that has it, up to the next option."""
    for command in commands:
        words = shlex.split(command)
        if option in words:
            rest = words[words.index(option) + 1:]
            ends = [i for i, word in enumerate(rest) if word.startswith("-") or word == "&&"]
            return rest[:ends[0]] if ends else rest
    raise ValueError(f"no command with {option}")
