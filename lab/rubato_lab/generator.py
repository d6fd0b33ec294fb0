# SPDX-License-Identifier: Apache-2.0
"""Runs `rubato load` against a server and reads its report."""

import subprocess
from dataclasses import dataclass

from rubato_lab import machine, run_report, servers
from rubato_lab.contenders import load_command

# What loading the keys and joining the threads may take on top of the run itself.
SLACK_S = 30.0
# The exit status of a run that is invalid or had failed requests; its report says which.
FAILED_RUN = 1


class LoadFailed(Exception):
    """The generator could not run or wrote no report."""


@dataclass
class Measured:
    """A report, the command that made it, and what else the machine did meanwhile."""

    report: run_report.RunReport
    command: list
    noise: machine.Noise
    json_name: str


def run(load, binary, server, json_path):
    """Raises LoadFailed or ServerFailed. Leaves the report at json_path."""
    command = load_command(load, binary, json_path)
    json_path.unlink(missing_ok=True)
    before = machine.sample([server.pid])
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=load.duration_s + SLACK_S, check=False,
                              preexec_fn=servers.die_with_parent)
    except OSError as error:
        raise LoadFailed(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"did not end in time: {' '.join(command)}") from error
    after = machine.sample([server.pid])
    server.check_alive()
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode not in (0, FAILED_RUN) or not json_path.exists():
        raise LoadFailed(f"status {done.returncode}: {' '.join(command)}\n{said[-800:]}")
    try:
        report = run_report.read(json_path)
    except run_report.ReportError as error:
        raise LoadFailed(f"{error}\n{said[-800:]}") from error
    return Measured(report, command, machine.noise_between(before, after), json_path.name)
