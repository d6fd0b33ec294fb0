#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What becomes of goodput and latency in overload, by every overload control of `rubato sim`.

Every control sees the same requests. Times are of the scale for which the published rules were
made: requests of milliseconds, windows of 0.1 to 1 s, a target delay of 20 ms (WeChat's). Goodput
is what was served, as a share of what the workers can do; p99 is that of the requests served.

    python3 bench/overload_rules.py --rubato build/release/bin/rubato
"""
import argparse
import json
import subprocess
import sys

CONTROLS = ("none", "aqm", "gradient", "gradient2", "cinnamon", "dagor")
MIX = "short:exp(5ms):95,long:exp(100ms):5"


def run(args, control, load, arrivals):
    command = [args.rubato, "sim", "--policy", args.policy, "--workers", str(args.workers),
               "--workload", args.workload, "--load", str(load), "--requests", str(args.requests),
               "--arrivals", arrivals, "--overload", control, "--target-delay", args.target,
               "--seeds", str(args.seeds), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"overload_rules.py: {done.stderr.strip()}")
    return json.loads(done.stdout)


def row(args, control, report):
    short = report["types"][0]["latency_us"]
    refused = report["refused"] / report["requests"]
    useful = report["simulation"]["useful_share"]
    capacity = report["offered_rps"] / report["load"]
    return (f"| `{control}` | {report['achieved_rps'] / capacity:.2f} | {useful:.2f} | "
            f"{refused:.2f} | {short['p50'] / 1e3:.3g} | {short['p99'] / 1e3:.3g} | "
            f"{report['latency_us']['p99'] / 1e3:.3g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rubato", default="build/release/bin/rubato")
    parser.add_argument("--policy", default="cfcfs")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--workload", default=MIX)
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--target", default="20ms")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    for arrivals in ("poisson", "bursty:4:1s"):
        for load in (1.2, 2.0):
            print(f"\n{arrivals}, load {load}, {args.policy}\n")
            print("| control | goodput | workers useful | refused | short p50 ms | short p99 ms "
                  "| p99 ms |\n|---|---|---|---|---|---|---|")
            for control in CONTROLS:
                print(row(args, control, run(args, control, load, arrivals)), flush=True)


if __name__ == "__main__":
    main()
