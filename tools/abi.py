#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the C interface of librubato with the snapshot of it in packaging/abi: every function's
signature, every struct's layout, every enum's values. Takes abidw and abidiff (Debian:
abigail-tools) and cc; exit status 77 without them.

    tools/abi.py            says what has changed; status 1 if anything has
    tools/abi.py --write    makes the snapshot anew, for whoever means the change

What the library exports is what the headers declare (src/api/install_test.py), so a library that
defines just that is compared: it has the types of the headers and no others."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "packaging/abi/librubato.abi.xml"
HEADERS = ("rubato.h", "options.h", "executor.h", "completions.h", "wait.h", "checkpoint.h")
SKIP = 77
BREAKS = 8  # of abidiff's exit status: an incompatible change
FUNCTION = re.compile(r"^((?:[\w*]+ )*[\w*]+[ *]+)(rubato_\w+)\(([^;{}]*)\);", re.MULTILINE)


def definitions(headers):
    """C that includes the headers and defines every function which they declare."""
    lines = [f"#include <rubato/{name}>" for name in headers]
    for name in headers:
        text = (ROOT / "include/rubato" / name).read_text(encoding="utf-8")
        for kind, function, arguments in FUNCTION.findall(re.sub(r"//[^\n]*", "", text)):
            if not kind.startswith(("typedef", "static", "return")):
                lines.append(f"{kind}{function}({arguments}) {{ __builtin_trap(); }}")
    return "\n".join(lines) + "\n"


def describe(folder, source):
    """The interface of the library made of `source`, as abidw writes it."""
    library, described = folder / "librubato.so", folder / "described.xml"
    (folder / "interface.c").write_text(source, encoding="utf-8")
    # An enum that stands for itself is kept although no function names it.
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-g", "-O0", "-shared", "-fPIC",
                    "-fno-eliminate-unused-debug-types", "-Wno-unused-parameter",
                    f"-I{ROOT / 'include'}", folder / "interface.c", "-o", library], check=True)
    subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
                    "--no-elf-needed", "--load-all-types", "--type-id-style", "hash", library,
                    "--out-file", described], check=True)
    return described


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if not shutil.which("abidw") or not shutil.which("abidiff"):
        print("skipped: abidw and abidiff are missing (abigail-tools)")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="rubato-abi-") as folder:
        described = describe(Path(folder), definitions(HEADERS))
        if arguments.write:
            SNAPSHOT.parent.mkdir(exist_ok=True)
            shutil.copyfile(described, SNAPSHOT)
            return 0
        done = subprocess.run(["abidiff", "--non-reachable-types", SNAPSHOT, described],
                              capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return 0
    print(done.stdout + done.stderr)
    what = "breaks programs" if done.returncode & BREAKS else "has changed"
    print(f"The interface {what}; if that is meant: tools/abi.py --write, and a SOVERSION if "
          "it breaks programs.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
