#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many requests the live runtime serves in virtual time per second of CPU time: the table of
docs/VIRTUAL.md.

    tools/virtual_speed.py BINARY [BINARY...]

Each BINARY is a rubato-virtual; they take turns. The time is that of long runs less that of short
ones, the median of ROUNDS: starting up does not count."""

import argparse
import os
import statistics
import subprocess
import sys

ROUNDS = 3
LOAD = 0.7
POLICIES = ("fcfs", "steal", "shinjuku", "synergy")
REQUESTS = {1: 40000, 8: 10000, 64: 2000}  # of the short runs, by workers; LONGER in the long ones
LONGER = 3


def cpu_time(binary, policy, workers, requests):
    command = [binary, "fidelity", "--host", "virtual", "--live-only", "--workers", str(workers),
               "--policies", policy, "--loads", str(LOAD), "--requests", str(requests)]
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        sys.exit(f"virtual_speed: {binary}: {error.strerror}; it takes rubato-virtual")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed")
    return used.ru_utime + used.ru_stime


def per_second(binary, policy, workers):
    few = REQUESTS[workers]
    taken = cpu_time(binary, policy, workers, LONGER * few) - cpu_time(binary, policy, workers, few)
    return (LONGER - 1) * few / taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("binaries", metavar="BINARY", nargs="+")
    binaries = parser.parse_args().binaries
    print("| policy | " + " | ".join(f"{n} workers" for n in REQUESTS) + " |")
    print("|---|" + "---|" * len(REQUESTS))
    for policy in POLICIES:
        cells = []
        for workers in REQUESTS:
            rounds = [[per_second(one, policy, workers) for one in binaries]
                      for _ in range(ROUNDS)]
            medians = [statistics.median(column) for column in zip(*rounds)]
            cells.append(", ".join(f"{median:,.0f}" for median in medians))
        print(f"| `{policy}` | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
