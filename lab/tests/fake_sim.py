#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for `rubato sim` in tests: a made-up queue whose slowdown is 1 / (1 - load), with an
offset by policy. FAKE_SIM = fails (exit 1) or rubbish (no JSON)."""

import json
import os
import sys

CAPACITY_RPS = 1e6
OFFSET = {"fcfs": 20.0, "cfcfs": 10.0}


def argument(name, otherwise=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else otherwise


def percentiles(value):
    return {"mean": value / 4, "p50": value / 8, "p90": value / 3, "p99": value / 2,
            "p999": value, "max": value * 2}


def report(policy, load, requests, lost=0):
    slowdown = 1 / (1 - load) + OFFSET.get(policy, 0) if load < 1 else 1e6
    types = [{"name": name, "service_us": us, "share": 0.5, "count": requests // 2, "refused": 0,
              "lost": 0, "latency_us": percentiles(us * slowdown * more),
              "slowdown": percentiles(slowdown * more)}
             for name, us, more in (("short", 1.0, 2.0), ("long", 100.0, 0.5))]
    return {"schema": "rubato.run/1", "kind": "sim", "policy": policy, "load": load,
            "offered_rps": load * CAPACITY_RPS, "achieved_rps": load * CAPACITY_RPS,
            "requests": requests, "refused": 0, "lost": lost, "valid": True,
            "latency_us": percentiles(10 * slowdown), "slowdown": percentiles(slowdown),
            "types": types, "utilization": min(1.0, load),
            "counters": {"preemptions": 25, "preemptions_avoided": 75, "steals": 1, "stolen": 2,
                         "migrations": 0, "wait_queue_max": 3}}


def main():
    if sys.argv[1] == "policies":
        print(json.dumps([{"name": name} for name in ("fcfs", "cfcfs", "ps", "shinjuku",
                                                      "synergy")]))
        return 0
    trouble = os.environ.get("FAKE_SIM")
    if trouble == "fails":
        print("sim: --load takes less than that", file=sys.stderr)
        return 1
    rate = argument("--rate")
    load = float(rate) / CAPACITY_RPS if rate else float(argument("--load"))
    made = report(argument("--policy"), load, int(argument("--requests")))
    print("rubbish" if trouble == "rubbish" else json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
