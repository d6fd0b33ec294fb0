#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What SBB's migration of flows gains under a skewed load, of `rubato serve spin --udp` beside the
simulation of it: all clients are in steering groups of worker 0 of two, requests run for 20 us.
The contenders are SBB without balancing, with stealing alone, and with migration too. Needs
CAP_BPF.

The contenders take turns. Live, each of 8 clients keeps 8 requests underway, so both workers are
busy if both get requests; the simulation has arrivals at 0.9 of both workers. Compared are the
throughput over that of no balancing, and how often requests were stolen. On a machine that does
not run both workers at once the first says little, so there is also what the workers could gain:
the CPU time that requests took on both, over that on the busier one. Live, "no balancing" has one:
idle workers take in the arrivals of those that have not polled for 100 us, which are helped, and
on a busy machine most are. Figures are medians over the rounds with their range; compare those of
one run."""

import argparse
import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

CONTENDERS = {
    "no balancing": ("stealing=off", "migration=off"),
    "stealing": ("migration=off",),
    "stealing and migration": (),
}
COMMON = ("quantum=1ms",)
SERVICE_US = 20
CLIENTS = 8
UNDERWAY = 8
PATIENCE_S = 20.0


def settings(contender):
    return [word for each in (*COMMON, *CONTENDERS[contender]) for word in ("--set", each)]


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        lines = [line.decode().split() for line in page if not line.startswith(b"#")]
    return {words[0]: float(words[1]) for words in lines if len(words) == 2}


def clients(port):
    """Sockets whose groups, the ports modulo 128, are dealt to worker 0 of two."""
    found, others = [], []
    while len(found) < CLIENTS:
        each = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        each.connect(("127.0.0.1", port))
        (found if each.getsockname()[1] % 2 == 0 else others).append(each)
    return found


def replies(port, seconds):
    """Requests that were answered in the time."""
    request = b"01234567" + str(SERVICE_US * 1000).encode()
    asked = selectors.DefaultSelector()
    for each in clients(port):
        asked.register(each, selectors.EVENT_READ)
        for _ in range(UNDERWAY):
            each.send(request)
    answered = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in asked.select(0.1):
            key.fileobj.recv(64)
            key.fileobj.send(request)
            answered += 1
    return answered


def live(options, contender):
    """Replies per second, steals per request, moves of groups, time of all over the busiest, and
    requests taken in for others, as a share."""
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            [options.binary, "serve", "spin", "--udp", "--port", str(options.port), "--workers",
             "2", "--policy", "sbb", *settings(contender), "--metrics-port",
             str(options.port + 1)], stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while "steered by a BPF table" not in read(log):
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"flow_migration.py: no server that steers: {read(log)}")
                time.sleep(0.05)
            answered = replies(options.port, options.seconds)
            after = metrics(options.port + 1)
            with urllib.request.urlopen(f"http://127.0.0.1:{options.port + 1}/state") as page:
                busy = [worker["busy_us"] for worker in json.load(page)["workers"]]
        finally:
            server.kill()
            server.wait()
    moves = after["rubato_flows_steered_total"] + after["rubato_flows_unsteered_total"]
    return (answered / options.seconds, after["rubato_steals_total"] / answered, moves,
            sum(busy) / max(busy), after["rubato_helped_total"] / answered)


def read(log):
    log.seek(0)
    return log.read()


def simulated(options, contender):
    """The first three; one entry in the card's table puts all flows at worker 0."""
    with open(options.costs, encoding="utf-8") as costs, tempfile.NamedTemporaryFile(
            "w", suffix=".toml") as skewed:
        lines = ["indirection_entries = 1\n" if line.startswith("indirection_entries") else line
                 for line in costs]
        skewed.writelines(lines)
        skewed.flush()
        done = subprocess.run(
            [options.binary, "sim", "--policy", "sbb", *settings(contender), "--workers", "2",
             "--workload", f"fixed-{SERVICE_US}", "--load", "0.9", "--flows", str(CLIENTS),
             "--costs", skewed.name, "--requests", "20000", "--json", "-"],
            capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    counters = report["counters"]
    moves = counters["flow_rules_written"] + counters["flow_rules_removed"]
    return report["achieved_rps"], counters["steals"] / report["requests"], moves


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} .. {max(values):{form}})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/rubato")
    parser.add_argument("--costs", default="src/sim/costs/sbb-testbed.toml")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--port", type=int, default=7393)
    options = parser.parse_args()
    runs = {contender: [] for contender in CONTENDERS}
    for _ in range(options.rounds):
        for contender in CONTENDERS:
            runs[contender].append(live(options, contender))
    predicted = {contender: simulated(options, contender) for contender in CONTENDERS}
    first = next(iter(CONTENDERS))
    print("| sbb with | throughput, of no balancing | busy, all over most | simulated "
          "| steals per request | simulated | moves | helped |")
    print("|---|---|---|---|---|---|---|---|")
    for contender, measured in runs.items():
        gains = [run[0] / base[0] for run, base in zip(measured, runs[first])]
        print(f"| {contender} | {spread(gains, '.2f')} | "
              f"{spread([run[3] for run in measured], '.2f')} | "
              f"{predicted[contender][0] / predicted[first][0]:.2f} | "
              f"{spread([run[1] for run in measured], '.3f')} | {predicted[contender][1]:.3f} | "
              f"{spread([run[2] for run in measured], '.0f')} | "
              f"{spread([run[4] for run in measured], '.2f')} |")


if __name__ == "__main__":
    main()
