#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of lab/tests/extras, all or the modules named, in a virtual environment with the
packages of the lab's extras from PyPI. Ends with 77 where these cannot be had."""

import hashlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

LAB = Path(__file__).resolve().parent
ROOT = LAB.parent
NOT_TO_BE_HAD = 77


def packages():
    with open(LAB / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    found = {p for names in extras.values() for p in names if not p.startswith("rubato-lab[")}
    return sorted(found | {"auditwheel"})


def python_of(build):
    """A Python with the packages; None where they cannot be installed."""
    wanted = packages()
    name = hashlib.sha256(" ".join([sys.version, *wanted]).encode()).hexdigest()[:12]
    folder = build / f"lab-{name}"
    python, ready = folder / "bin/python", folder / "ready"
    if not ready.exists():
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)],
                        [str(python), "-m", "pip", "install", "--quiet",
                         "--disable-pip-version-check", *wanted]):
            if subprocess.run(command, check=False).returncode != 0:
                return None
        ready.touch()
    return python


def main():
    python = python_of(ROOT / "build")
    if python is None:
        print("the packages of the lab's extras cannot be installed here")
        return NOT_TO_BE_HAD
    tests = LAB / "tests/extras"
    names = sys.argv[1:] or [path.stem for path in sorted(tests.glob("test_*.py"))]
    folders = (LAB, tests, ROOT / "tests/e2e")
    return subprocess.run([str(python), "-m", "unittest", "-v", *names], check=False, cwd=tests,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
                          ).returncode


if __name__ == "__main__":
    sys.exit(main())
