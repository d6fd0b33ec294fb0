#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions per iteration of Google Benchmark programs, where the machine has no hardware
counters: runs one benchmark at a time under valgrind with N and with 2N iterations and divides the
difference by N, so that set-up and tear-down cancel out.

    bench/instructions.py build/release/benchmarks/mechanism_switch_bench [REGEX] [--iterations N]

Only benchmarks that `->Apply(fixed_iterations)` (bench_support.h) can be counted. The loop of the
benchmark itself is included: one or two instructions an iteration."""

import argparse
import os
import re
import shutil
import subprocess
import sys

TIMEOUT_S = 300
CACHEGRIND = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def has_valgrind():
    """False, after it has said so, if valgrind is missing."""
    if shutil.which("valgrind") is None:
        print("SKIP: valgrind is not installed", file=sys.stderr)
        return False
    return True


def counted(command, tool=CACHEGRIND, environment=None, timeout_s=TIMEOUT_S):
    """Instructions that a command takes in all, and what it prints."""
    run = subprocess.run(["valgrind", *tool, *map(str, command)], capture_output=True, text=True,
                         env=environment, timeout=timeout_s, check=False)
    total = re.search(r"I\s+refs:\s+([\d,]+)", run.stderr)
    if run.returncode != 0 or not total:
        raise RuntimeError(f"{command}: valgrind failed: {run.stderr[-500:]}")
    return int(total.group(1).replace(",", "")), run.stdout


def list_benchmarks(program, pattern):
    output = subprocess.run([program, "--benchmark_list_tests", f"--benchmark_filter={pattern}"],
                            check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return output.stdout.split("\n")[:-1]


def count(program, name, iterations):
    """Instructions of the whole program when it runs benchmark `name` for `iterations`."""
    exact = f"^{re.escape(name.split('/iterations:')[0])}(/iterations:[0-9]+)?(/real_time)?$"
    environment = dict(os.environ, RUBATO_BENCH_ITERATIONS=str(iterations))
    return counted([program, f"--benchmark_filter={exact}"], environment=environment)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("pattern", nargs="?", default=".")
    parser.add_argument("--iterations", type=int, default=100_000)
    arguments = parser.parse_args()
    if not has_valgrind():
        return 77
    names = list_benchmarks(arguments.program, arguments.pattern)
    for name in names:
        once = count(arguments.program, name, arguments.iterations)
        twice = count(arguments.program, name, 2 * arguments.iterations)
        print(f"{name:56} {(twice - once) / arguments.iterations:10.1f} instructions", flush=True)
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main())
