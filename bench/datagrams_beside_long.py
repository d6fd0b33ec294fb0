#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of short requests beside 1 % of 1 ms at `rubato serve spin`, on a virtual link between
two network namespaces, by TCP, by kernel UDP, by AF_XDP and by DPDK's net_af_xdp. Needs root.

The contenders take turns, each with a fresh server of one worker on one CPU; an open-loop generator
has the other. "alone" is the same rate of short requests with no long ones. Latencies count from
when a request was due, in microseconds; figures are medians over the rounds with their range, to be
compared within one run."""

import argparse
import statistics

from datagrams import ADDRESS, CONTENDERS, PORT, load, namespaces, started

WIRES = {"tcp": None} | {name.removesuffix(", batches"): args for name, args in CONTENDERS.items()
                         if name in ("udp, batches", "af_xdp", "dpdk")}
MIXES = {"alone": "short:1us:1", "beside long": "short:1us:99,long:1ms:1"}
CONNECTIONS = 64


def measure(options, ends, args, mix):
    """p50 and p99 of the short requests, and the share of requests that were lost."""
    udp = args is not None
    words = [*ends[0], "taskset", "-c", options.cpu, options.binary, "serve", "spin", "--bind",
             ADDRESS, "--port", str(PORT), "--workers", "1", "--policy", options.policy]
    with started([*words, "--udp", *args] if udp else words, PORT):
        report = load(options.binary, ends[1], options.client_cpu,
                      f"spin{'+udp' if udp else ''}://{ADDRESS}:{PORT}", "--workload", mix,
                      "--rate", str(options.rate), "--flows", str(CONNECTIONS), "--duration",
                      str(options.seconds))
    short = next(one for one in report["types"] if one["name"] == "short")["latency_us"]
    return short["p50"], short["p99"], report["lost"] / report["requests"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/rubato")
    parser.add_argument("--policy", default="synergy")
    parser.add_argument("--rate", type=float, default=15000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--cpu", default="0")
    parser.add_argument("--client-cpu", default="1")
    options = parser.parse_args()
    found = {}
    with namespaces() as ends:
        for _ in range(options.rounds):
            for name, args in WIRES.items():
                for what, mix in MIXES.items():
                    found.setdefault((name, what), []).append(measure(options, ends, args, mix))
    print("| | short requests | p50, us | p99, us | range of p99 | lost |")
    print("|---|---|---|---|---|---|")
    for (name, what), runs in found.items():
        p50, p99, lost = ([run[i] for run in runs] for i in range(3))
        print(f"| {name} | {what} | {statistics.median(p50):.0f} | {statistics.median(p99):.0f} | "
              f"{min(p99):.0f} .. {max(p99):.0f} | {statistics.median(lost):.4f} |")


if __name__ == "__main__":
    main()
