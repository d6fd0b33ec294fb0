#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator of two builds: every policy under three workloads, byte by byte.

    same_results.py RUBATO OTHER...     OTHER is a command, such as one under an emulator

Says which runs differ, or how many are equal; status 1 if any differs or fails.
"""

import json
import subprocess
import sys

WORKLOADS = ("high-bimodal", "exp-1", "tpcc")
TIMEOUT_S = 600


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def report(rubato, policy, workload):
    """The run without what names the build."""
    run = json.loads(output_of([*rubato, "sim", "--policy", policy, "--workload", workload,
                                "--requests", "20000", "--seed", "3", "--no-wall", "--json", "-"]))
    remove(run, "version")
    return json.dumps(run)


def remove(value, key):
    if isinstance(value, dict):
        value.pop(key, None)
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            remove(inner, key)


def main():
    if len(sys.argv) < 3:
        print("usage: same_results.py RUBATO OTHER...", file=sys.stderr)
        return 2
    one, other = [sys.argv[1]], sys.argv[2:]
    names = [policy["name"] for policy in json.loads(output_of([*one, "policies", "--json"]))]
    runs = [(policy, workload) for policy in names for workload in WORKLOADS]
    differing = [run for run in runs if report(one, *run) != report(other, *run)]
    for policy, workload in differing:
        print(f"{policy} under {workload}: the results differ")
    print(f"{len(runs) - len(differing)} of {len(runs)} simulations are equal to the byte")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
