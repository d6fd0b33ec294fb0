#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time per simulated request over that of the floor and of a naive simulator (naive_sim.h).

The rounds alternate, so that a neighbour's load meets all alike; figures are medians of the
rounds' ratios with their range. Wanted: cfcfs at most 2 times the floor, every policy at least
twice as fast as the naive simulator of it. --scale: the same over a smaller run instead. Wanted:
4096 workers at most 1.5 times 16, 256 types 1.5 times one, a million flows twice 512, 100 000
sessions 1.5 times ten.

    bench/sim_ratios.py [--sim-bench build/release/benchmarks/sim_bench] [--rounds 5] [--scale]
"""

import argparse
import json
import statistics
import subprocess
import sys

POLICIES = ("cfcfs", "fcfs", "ps", "jbsq", "steal")
FLOOR = "floor_16_exp_1_80"
TIMEOUT_S = 600


def measured(program, seconds, pattern):
    """Nanoseconds of CPU time per request, by benchmark."""
    done = subprocess.run([program, f"--benchmark_filter={pattern}",
                           f"--benchmark_min_time={seconds}", "--benchmark_format=json"],
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return {one["name"]: one["cpu_time"] for one in json.loads(done.stdout)["benchmarks"]}


def row(name, ratios):
    ratios = sorted(ratios)
    return f"{name:<44}{statistics.median(ratios):6.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def print_scale(rounds):
    sizes = {}
    for name in rounds[0]:
        what, size = name.rsplit("/", 1)
        sizes.setdefault(what, []).append(int(size))
    for what, (small, large) in sizes.items():
        print(row(f"{what}, {large} over {small}",
                  [r[f"{what}/{large}"] / r[f"{what}/{small}"] for r in rounds]))


def print_speed(rounds):
    print(row("cfcfs over the floor", [r["rubato_16_exp_1_80/cfcfs"] / r[FLOOR] for r in rounds]))
    for policy in POLICIES:
        print(row(f"naive {policy} over Rubato's",
                  [r[f"naive_16_exp_1_80/{policy}"] / r[f"rubato_16_exp_1_80/{policy}"]
                   for r in rounds]))
    floor = statistics.median(r[FLOOR] for r in rounds)
    print(f"the floor takes {floor:.1f} ns of CPU time per request")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--sim-bench", default="build/release/benchmarks/sim_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per benchmark and round")
    parser.add_argument("--scale", action="store_true", help="growing runs instead")
    args = parser.parse_args()
    pattern = "^scale_" if args.scale else "16_exp_1_80"
    rounds = [measured(args.sim_bench, args.seconds, pattern) for _ in range(args.rounds)]
    print_scale(rounds) if args.scale else print_speed(rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
