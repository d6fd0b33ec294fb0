# SPDX-License-Identifier: Apache-2.0
"""What the checks of this folder share: which files the tree has, and C++ without its comments."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SKIPPED_FOLDERS = {".git", "build", "__pycache__", ".venv", ".cache"}
CPP_SUFFIXES = {".h", ".hpp", ".cc", ".c", ".cpp"}


@dataclass(frozen=True)
class Finding:
    """One violation. `line` is 0 when the whole file is meant."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.message}"


def list_files(root):
    """Paths relative to root, sorted: what git tracks or would track, else all but build output."""
    if (Path(root) / ".git").exists():
        done = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
            capture_output=True, check=False)
        if done.returncode == 0:
            names = done.stdout.decode().split("\0")
            return sorted({n for n in names if n and (Path(root) / n).is_file()})
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in SKIPPED_FOLDERS]
        found += [str((Path(folder) / n).relative_to(root)) for n in names]
    return sorted(found)


def read(root, path):
    """The text of a file, None for a binary one."""
    data = (Path(root) / path).read_bytes()
    if b"\0" in data[:4096]:
        return None
    return data.decode("utf-8", errors="replace")


def is_cpp(path):
    return Path(path).suffix in CPP_SUFFIXES


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """C++ with comments, string and character literals blanked; lines and columns are kept."""
    def replace(match):
        token = match.group(0)
        if token.startswith(("//", "/*")):
            return _blank(token)
        return '"' + _blank(token[1:-1]) + '"'
    return _TOKEN.sub(replace, text)


def comments_only(text):
    """The opposite: (line number, text) of every comment line."""
    found = []
    for match in _TOKEN.finditer(text):
        token = match.group(0)
        if token.startswith(("//", "/*")):
            first = text.count("\n", 0, match.start()) + 1
            found += [(first + i, line) for i, line in enumerate(token.split("\n"))]
    return found


def report(findings, what):
    """Prints the findings; the exit status of a check."""
    for finding in sorted(findings, key=lambda f: (f.path, f.line, f.rule)):
        print(finding)
    print(f"{what}: {len(findings)} finding{'' if len(findings) == 1 else 's'}")
    return 1 if findings else 0
