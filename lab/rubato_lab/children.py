# SPDX-License-Identifier: Apache-2.0
"""Runs programs side by side, with a sign of life meanwhile; none outlives the call."""

import contextlib
import subprocess
import tempfile
import time
from dataclasses import dataclass

from rubato_lab import servers

TURN_S = 0.5


class ChildFailed(Exception):
    """A program could not start or did not end in time."""


@dataclass(frozen=True)
class Ended:
    """A program that has ended: its exit status and what it said on stderr."""

    status: int
    said: str

    def last_words(self):
        lines = self.said.strip().splitlines()
        return lines[-1] if lines else f"status {self.status}"


@contextlib.contextmanager
def _started(command, said):
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=said, preexec_fn=servers.die_with_parent)
    except OSError as error:
        raise ChildFailed(f"{command[0]}: {error.strerror}") from error
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _await(process, deadline, beat):
    while True:
        try:
            process.wait(TURN_S)
            return
        except subprocess.TimeoutExpired as error:
            if time.monotonic() > deadline:
                raise ChildFailed(f"did not end in time: {' '.join(process.args)}") from error
            beat()


def run(commands, limit_s, beat=lambda: None):
    """[Ended], in the order of the commands, which all run at once. `beat` is called about twice
    a second. Raises ChildFailed."""
    commands = [[str(word) for word in command] for command in commands]
    deadline = time.monotonic() + limit_s
    with contextlib.ExitStack() as stack:
        words = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
        running = [stack.enter_context(_started(command, said))
                   for command, said in zip(commands, words)]
        for process in running:
            _await(process, deadline, beat)
        for said in words:
            said.seek(0)
        return [Ended(process.returncode, said.read()) for process, said in zip(running, words)]
