#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make wheel`: the lab with the simulator inside, as build/wheel/rubato_lab-*.whl. Its platform
tag follows from the versions of the C library's symbols that the program needs."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What every machine of a manylinux tag has; other libraries go beside the program.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libz.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1",
              "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "linux-vdso.so.1"}
# The oldest tag that pip knows in this form.
LEAST_GLIBC = (2, 17)
PYTHONS = (sys.executable, "/usr/bin/python3")
# Draws the figures of reports: Debian's libjs-dygraphs.
DYGRAPHS = Path("/usr/share/javascript/dygraphs")
DYGRAPHS_FILES = ("dygraph.min.js", "dygraph.min.css")
HAS_ALL = "import setuptools, wheel"


class WheelFailed(Exception):
    """One line for the user."""


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelFailed(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def libraries(listed):
    """{name: path} of what `ldd` lists and not every machine has. Raises WheelFailed."""
    found = {}
    for line in listed.splitlines():
        match = re.match(r"\s*(\S+)(?: => (.+?))?(?: \(0x[0-9a-f]+\))?$", line)
        name = Path(match.group(1)).name if match else ""
        if not name or name in EVERYWHERE:
            continue
        if not match.group(2) or "not found" in match.group(2):
            raise WheelFailed(f"a library that the program needs is not there: {line.strip()}")
        found[name] = Path(match.group(2))
    return found


def platform_of(symbols, machine):
    """The tag for symbols as `objdump -T` tells them."""
    needed = {tuple(map(int, v)) for v in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    major, minor = max(needed | {LEAST_GLIBC})
    return f"manylinux_{major}_{minor}_{machine}"


def builder():
    for python in PYTHONS:
        done = subprocess.run([python, "-c", HAS_ALL], capture_output=True, check=False)
        if done.returncode == 0:
            return python
    raise WheelFailed("no Python here has setuptools and wheel: see python3-pip")


def bundle(program, folder):
    """Puts the program and its libraries there; the platform that they need."""
    folder.mkdir()
    shutil.copy2(program, folder / "rubato")
    for name, path in libraries(output_of("ldd", str(program))).items():
        shutil.copy2(path.resolve(), folder / name)
    for path in folder.iterdir():
        output_of("strip", "--strip-unneeded", str(path))
    symbols = "".join(output_of("objdump", "-T", str(path)) for path in folder.iterdir())
    return platform_of(symbols, os.uname().machine)


def make(program, folder):
    """The wheel's path. Raises WheelFailed and OSError."""
    python = builder()
    with tempfile.TemporaryDirectory() as holder:
        source = Path(holder) / "lab"
        shutil.copytree(ROOT / "lab", source, ignore=shutil.ignore_patterns(
            "__pycache__", "build", "*.egg-info", "tests", "notebooks", "bin"))
        platform = bundle(program, source / "rubato_lab" / "bin")
        if not DYGRAPHS.is_dir():
            raise WheelFailed("libjs-dygraphs, which draws the figures of reports, is missing")
        for name in DYGRAPHS_FILES:
            shutil.copy2(DYGRAPHS / name, source / "rubato_lab" / "bin" / name)
        made = Path(holder) / "made"
        environment = {**os.environ, "RUBATO_WHEEL_PLATFORM": platform}
        done = subprocess.run(
            [python, "setup.py", "--quiet", "bdist_wheel", "--dist-dir", str(made)], cwd=source,
            capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise WheelFailed(done.stderr.strip() or done.stdout.strip())
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("rubato_lab-*.whl"):
            old.unlink()
        (wheel,) = made.iterdir()
        return Path(shutil.copy2(wheel, folder / wheel.name))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", type=Path, default=ROOT / "build/release/lab/rubato",
                   help="the simulator (default build/release/lab/rubato)")
    p.add_argument("--out", type=Path, default=ROOT / "build/wheel", help="where the wheel goes")
    options = p.parse_args()
    try:
        print(make(options.program, options.out))
    except (WheelFailed, OSError) as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
