#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GETs alone at 1.5 times what `rubato serve kv` can do, by memcached over UDP on a virtual link
between two network namespaces. Server and generator have one CPU and one thread each. Needs root.

First the server's capacity: what a closed loop of 64 clients over AF_XDP gets out of it. Then open
loops, each on a fresh server: 1.5 times the capacity by a generator with sockets of the kernel, and
by one with AF_XDP against the server without overload control and with it. A generator that cannot
offer so much falls behind its schedule and takes longer: "offered" is its pace. The latency of what
it sends late counts from when it was due. On a virtual link who sends a datagram pays for its
reception, too. Figures are medians over the rounds, in shares of the round's capacity or of the
requests; compare those of one run."""

import argparse
import contextlib
import statistics

from datagrams import ADDRESS, load, namespaces, started

PORT = 11211
KEYS = 100_000
CLIENTS = 64
OVERLOAD = 1.5
XDP = ("--datapath", "af_xdp:vc")
# Options of the generator and of the server.
RUNS = {
    "kernel sockets, no control": ((), "none"),
    "af_xdp, no control": (XDP, "none"),
    "af_xdp, --overload aqm": (XDP, "aqm"),
}


class Bench:
    def __init__(self, options, ends):
        self.options = options
        self.ends = ends

    @contextlib.contextmanager
    def serve(self, overload):
        command = [*self.ends[0], "taskset", "-c", self.options.cpu, self.options.binary, "serve",
                   "kv", "--engine", "memory", "--workers", "1", "--bind", ADDRESS, "--port",
                   "7391", "--memcached-udp-port", str(PORT), "--datapath", self.options.datapath,
                   "--protected-mode", "no", "--overload", overload]
        with started(command, PORT):
            self.load(f"resp://{ADDRESS}:7391", "--load-keys", "--closed", "1", "--duration",
                      "0.1")
            yield

    def load(self, target, *args):
        return load(self.options.binary, self.ends[1], self.options.client_cpu, target, "--mix",
                    self.options.mix, "--keys", str(KEYS), *args)

    def get(self, *args):
        return self.load(f"memcached+udp://{ADDRESS}:{PORT}", "--duration",
                         str(self.options.seconds), *args)

    def capacity(self):
        with self.serve("none"):
            return self.get("--closed", str(CLIENTS), *XDP)["achieved_rps"]

    def overloaded(self, capacity, wire, overload):
        with self.serve(overload):
            report = self.get("--rate", f"{OVERLOAD * capacity:.0f}", "--flows", str(CLIENTS),
                              "--timeout", "1", *wire)
        lag = report["send_lag_us"]
        sent = 1 - lag["unsent"] / report["requests"]
        late = lag["max"] / 1e6 / self.options.seconds
        return {"offered, of capacity": OVERLOAD * sent / (1 + late),
                "served, of capacity": report["achieved_rps"] / capacity,
                "refused": report["refused"] / report["requests"],
                "lost": report["lost"] / report["requests"],
                "lost by generator": int(report["settings"].get(
                    "datagrams_lost_by_generator", 0)) / report["requests"],
                "p50 us": report["latency_us"]["p50"], "p99 us": report["latency_us"]["p99"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/rubato")
    parser.add_argument("--datapath", default="af_xdp:vs", help="of the server")
    parser.add_argument("--mix", default="get:1", help="as of `rubato load`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--cpu", default="0")
    parser.add_argument("--client-cpu", default="1")
    options = parser.parse_args()
    results, capacities = {}, []
    with namespaces() as ends:
        bench = Bench(options, ends)
        for _ in range(options.rounds):
            capacities.append(bench.capacity())
            for name, (wire, overload) in RUNS.items():
                results.setdefault(name, []).append(
                    bench.overloaded(capacities[-1], wire, overload))
    print(f"capacity: {statistics.median(capacities):.0f}/s "
          f"({min(capacities):.0f} .. {max(capacities):.0f})")
    columns = list(next(iter(results.values()))[0])
    print("| 1.5 times the capacity | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, rows in results.items():
        medians = [statistics.median(row[column] for row in rows) for column in columns]
        print(f"| {name} | " + " | ".join(f"{median:.3g}" for median in medians) + " |")


if __name__ == "__main__":
    main()
