#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GET and SET throughput of `rubato serve kv` against redis-server, in one alternating run.

Both servers run on one CPU, redis-benchmark on another; each round measures one server right after
the other, and the figure is the median of the rounds' ratios with their range, because the speed
of a shared machine moves more between minutes than the servers differ.
"""

import argparse
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time

CLIENTS = 50


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command, cpu, port):
    process = subprocess.Popen(["taskset", "-c", str(cpu), *command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    sys.exit(f"against_redis.py: {command[0]} does not answer on port {port}")


def measure(port, test, pipeline, requests, cpu, keys):
    spread = ["-r", str(keys)] if keys > 1 else []
    done = subprocess.run(
        ["taskset", "-c", str(cpu), "redis-benchmark", "-p", str(port), "-t", test, "-n",
         str(requests), "-c", str(CLIENTS), "-P", str(pipeline), "--csv", *spread],
        capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1].split(",")[1].strip('"'))


def compare(ports, args):
    rows = []
    for pipeline in (1, 16):
        for test in ("set", "get"):
            rates = {name: [] for name in ports}
            for _ in range(args.rounds):
                for name, port in ports.items():
                    rates[name].append(measure(port, test, pipeline, args.requests * pipeline,
                                               args.client_cpu, args.keys))
            ratios = [ours / theirs for ours, theirs in zip(rates["rubato"], rates["redis"])]
            rows.append({"test": test, "pipeline": pipeline,
                         "redis_rps": statistics.median(rates["redis"]),
                         "rubato_rps": statistics.median(rates["rubato"]),
                         "ratio": statistics.median(ratios),
                         "ratio_range": [min(ratios), max(ratios)]})
            print("{test:>3} -P {pipeline:<2}  redis {redis_rps:>10,.0f}/s  rubato "
                  "{rubato_rps:>10,.0f}/s  ratio {ratio:.2f}".format(**rows[-1])
                  + "  [{:.2f} .. {:.2f}]".format(*rows[-1]["ratio_range"]), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rubato", default="build/release/bin/rubato")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=60_000, help="per round and pipeline slot")
    parser.add_argument("--keys", type=int, default=1, help="random keys; 1 = one fixed key")
    parser.add_argument("--server-cpu", type=int, default=1)
    parser.add_argument("--client-cpu", type=int, default=0)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    for tool in ("redis-server", "redis-benchmark", "taskset"):
        if shutil.which(tool) is None:
            print(f"against_redis.py: skipped, {tool} is not installed")
            return
    ports = {"redis": free_port(), "rubato": free_port()}
    servers = [start(["redis-server", "--port", str(ports["redis"]), "--save", "", "--appendonly",
                      "no"], args.server_cpu, ports["redis"]),
               start([args.rubato, "serve", "kv", "--engine", "memory", "--workers", "1", "--port",
                      str(ports["rubato"])], args.server_cpu, ports["rubato"])]
    try:
        rows = compare(ports, args)
    finally:
        for server in servers:
            server.kill()
            server.wait()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"machine": platform.processor() or platform.machine(),
                       "cpus": os.cpu_count(), "clients": CLIENTS, "keys": args.keys,
                       "rounds": args.rounds, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
