# SPDX-License-Identifier: Apache-2.0
"""Finds the program `rubato`, runs it, and reads the JSON that it prints. Any thread."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

from rubato_lab import servers
from rubato_lab.options import ROOT

BUNDLED = Path(__file__).resolve().parent / "bin" / "rubato"
BUILT = ROOT / "build/release/bin/rubato"
ENVIRONMENT = "RUBATO_BINARY"
VERSION_LIMIT_S = 60


class RubatoError(Exception):
    """One line for the user: what was wrong, and what is expected. `status` is the program's exit
    status: 2 for bad arguments, None if it did not run to its end."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status

    def __reduce__(self):
        return RubatoError, (str(self), self.status)


def path():
    """The program: what RUBATO_BINARY names, that of the wheel, of the checkout, or of PATH.
    Raises RubatoError."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        if not os.access(named, os.X_OK):
            raise RubatoError(f"{ENVIRONMENT} names '{named}', which is no program")
        return named
    for candidate in (BUNDLED, BUILT):
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("rubato")
    if not found:
        raise RubatoError("there is no program rubato: install the wheel of `make wheel`, run "
                          f"`make build`, or name it by {ENVIRONMENT}")
    return found


def run(arguments, cwd=None, limit_s=None):
    """What `rubato ARGUMENTS` prints, as bytes. Raises RubatoError with the last line that the
    program says on stderr."""
    program = path()
    try:
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              check=False, cwd=cwd, timeout=limit_s,
                              preexec_fn=servers.die_with_parent)
    except subprocess.TimeoutExpired as error:
        raise RubatoError(f"rubato {arguments[0]} took longer than {limit_s:g} s") from error
    except OSError as error:
        raise RubatoError(f"{program}: {error.strerror}") from error
    if done.returncode != 0:
        raise RubatoError(complaint(arguments, done.returncode, done.stderr), done.returncode)
    return done.stdout


def complaint(arguments, status, said):
    """One line for a status that is not 0, of the bytes that the program said on stderr."""
    lines = said.decode(errors="replace").strip().splitlines()
    if status < 0:
        return f"rubato {arguments[0]} was ended by signal {-status}"
    return lines[-1].strip() if lines else f"rubato {arguments[0]}: status {status}"


def run_json(arguments, **more):
    """The JSON that `rubato ARGUMENTS` prints. Raises RubatoError."""
    printed = run(arguments, **more)
    try:
        return json.loads(printed)
    except ValueError as error:
        raise RubatoError(f"rubato {arguments[0]} printed no JSON: {error}") from error


@functools.cache
def _version_of(program):
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True,
                              timeout=VERSION_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise RubatoError(f"{program} does not tell its version: {error}") from error
    return done.stdout.strip().removeprefix("rubato ")


def version():
    """The version of the program, such as 0.2.0-1a2b3c4. Raises RubatoError."""
    return _version_of(path())


def words_of(options):
    """Arguments from keywords: `max_load=0.9` is `--max-load 0.9`; True gives the flag alone, None
    and False nothing, a list the option several times, a dict NAME=VALUE of each."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, dict):
            for key, one in value.items():
                words += [flag, f"{key}={text_of(one)}"]
        elif isinstance(value, (list, tuple)):
            for one in value:
                words += [flag, text_of(one)]
        else:
            words += [flag, text_of(value)]
    return words


def text_of(value):
    """As the program takes it: on or off, every digit of a float."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return repr(value) if isinstance(value, float) else str(value)
