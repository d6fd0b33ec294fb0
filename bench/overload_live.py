#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rubato serve kv` at 1.5 times what it can do, with overload control and without.

The server has one CPU and one worker, the generator another CPU. First its capacity: what a closed
loop of 64 clients gets out of it, before and after the other runs, because a shared machine is not
the same for long. Then open loops, each on a fresh server: 0.8 times the capacity, 1.5 times it
with --overload aqm, 1.5 times it without. Goodput is replies that are no refusals; latency is
theirs, from the time a request was due.

What can be had is bounded by what a refusal costs: if it costs the part r of a request's service,
1.5 times the capacity leaves at most (1 - 1.5 r) / (1 - r) of it. Over kernel TCP and one request
per segment a refusal costs about what a GET does, so the default mix is one in which requests take
work; --mix get:1 shows the other end, and --pick random what pipelining does.

With --rpc clients speak Rubato RPC and are told how much they may send: most of what is too much
never leaves them. Capacity is then that of 64 sessions in a closed loop at a server whose credits
are no bound, the overload controls are credits and, for comparison, no bound and clients that keep
whatever they cannot send. Unless --mix says what, it measures GETs alone, of one key and of 32, and
GETs with scans. One-key GETs are served about as fast as one generator can send them: where it
falls behind, the run says that it is invalid."""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))

from rubato_lab import servers  # noqa: E402

CLIENTS = 64
KEYS = 100_000
SAMPLE_S = 0.2
MOST_CAPACITY_S = 10
ROWS = ("0.8x aqm", "1.5x aqm", "1.5x none")
RPC_ROWS = ("0.8x credits", "1.5x credits", "1.5x none")
MIX = "get:50,rangecount/20000:50"
RPC_MIXES = ("get:1", "mget/32:1", MIX)
# Credits that never run short, and clients that give nothing up: no control.
UNBOUND = ("--target-delay", "1s")
KEEP_ALL = ("--rpc-queue", "1000000", "--rpc-expire", "0")


def info(port, section):
    """A section of INFO as a dict."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(b"INFO %s\r\nQUIT\r\n" % section.encode())
        text = b""
        while chunk := link.recv(65536):
            text += chunk
    return dict(line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)


class Memory(threading.Thread):
    """The resident KiB of a process, sampled."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.samples = []
        self.done = threading.Event()

    def run(self):
        while not self.done.wait(SAMPLE_S):
            with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
                self.samples.append(int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)))

    def stop(self):
        self.done.set()
        self.join()


class Bench:
    def __init__(self, args, mix, folder):
        self.args = args
        self.mix = mix
        self.folder = Path(folder)
        self.number = 0

    def serve(self, *options):
        self.number += 1
        port = servers.free_port()
        self.rpc_port = servers.free_port() if self.args.rpc else None
        rpc = ["--rpc-port", str(self.rpc_port)] if self.args.rpc else []
        command = ["taskset", "-c", str(self.args.server_cpu), self.args.rubato, "serve", "kv",
                   "--engine", "memory", "--workers", "1", "--port", str(port),
                   "--policy", self.args.policy, *rpc,
                   *([] if "--target-delay" in options
                     else ["--target-delay", self.args.target_delay]), *options]
        return servers.Server(command, port, self.folder / f"server{self.number}.log")

    def load(self, target, *options):
        """The report of one run of the generator."""
        report = self.folder / f"load{self.number}.json"
        report.unlink(missing_ok=True)
        done = subprocess.run(
            ["taskset", "-c", str(self.args.client_cpu), self.args.rubato, "load", "--target",
             target, "--keys", str(KEYS), "--mix", self.mix, "--json", str(report), *options],
            capture_output=True, text=True, check=False)
        if done.returncode != 0 and not report.exists():
            sys.exit(f"overload_live.py: {done.stderr.strip()}")
        with open(report, encoding="utf-8") as text:
            return json.load(text)

    def fill(self, port):
        self.load(f"resp://127.0.0.1:{port}", "--load-keys", "--closed", "1", "--duration", "0.1")

    def target(self, server):
        return (f"rpc+kv://127.0.0.1:{self.rpc_port}" if self.args.rpc
                else f"resp://127.0.0.1:{server.port}")

    def capacity(self):
        with self.serve(*(UNBOUND if self.args.rpc else ())) as server:
            self.fill(server.port)
            length = min(self.args.seconds, MOST_CAPACITY_S)
            return self.load(self.target(server), "--closed", str(CLIENTS), "--duration",
                             str(length), *(KEEP_ALL if self.args.rpc else ()))["achieved_rps"]

    def how(self, control):
        """Options of the server and of the generator for one kind of control."""
        if not self.args.rpc:
            return ("--overload", control), ("--pick", self.args.pick)
        if control == "none":
            return UNBOUND, KEEP_ALL
        return (), ("--rpc-expire", f"{self.args.expire_us}us")

    def run(self, name, capacity):
        factor, control = name.split("x ")
        of_server, of_load = self.how(control)
        with self.serve(*of_server) as server:
            self.fill(server.port)
            counted = self.refusals(server)
            memory = Memory(server.pid)
            memory.start()
            report = self.load(self.target(server), "--rate", f"{float(factor) * capacity:.0f}",
                               "--flows", str(self.args.flows), *of_load,
                               "--duration", str(self.args.seconds))
            memory.stop()
            refusals = {key: value - counted[key] for key, value in self.refusals(server).items()}
        tenth = max(len(memory.samples) // 10, 1)
        types = [{"name": one["name"], "replies": one["count"], "refused": one["refused"],
                  "p99_us": one["latency_us"]["p99"]} for one in report["types"]]
        unsent = report.get("unsent", {"expired": 0, "overflowed": 0})
        return {"run": name, "offered_rps": report["offered_rps"],
                "goodput_rps": report["achieved_rps"],
                "of_capacity": report["achieved_rps"] / capacity,
                "p50_us": report["latency_us"]["p50"], "p99_us": report["latency_us"]["p99"],
                "refused": report["refused"], "lost": report["lost"], "errors": report["errors"],
                "unsent_by_clients": unsent["expired"] + unsent["overflowed"], "unsent": unsent,
                "refused_by_server": sum(refusals.values()), "refusals": refusals,
                "rss_kib_early": statistics.median(memory.samples[:tenth]),
                "rss_kib_late": statistics.median(memory.samples[-tenth:]),
                "invalid": "" if report["valid"] else report["invalid_reason"],
                "send_lag_p99_us": report["send_lag_us"]["p99"],
                "steal_percent": report["noise"].get("steal_percent"), "types": types}

    @staticmethod
    def refusals(server):
        return {key: int(value) for key, value in info(server.port, "overload").items()
                if key.startswith(("refused_", "rpc_refused_"))}


def show(row, base):
    ratio = f"{row['p99_us'] / base:>7.2f}" if base else " " * 7
    print(f"{row['run']:<14}{row['offered_rps']:>9,.0f}{row['goodput_rps']:>9,.0f}"
          f"{row['of_capacity']:>8.1%}{row['p50_us'] / 1e3:>10.2f}{row['p99_us'] / 1e3:>10.2f}"
          f"{ratio}{row['unsent_by_clients']:>10,}{row['refused']:>9,}{row['lost']:>6}"
          f"{row['errors']:>7}{row['rss_kib_early'] / 1024:>8.1f}"
          f"{row['rss_kib_late'] / 1024:>7.1f}", flush=True)
    if row["invalid"]:
        print(f"    INVALID: {row['invalid']}")
    for one in row["types"]:
        print(f"    {one['name']:<18}{one['replies']:>9,} replies, {one['refused']:>8,} refused, "
              f"p99 {one['p99_us'] / 1e3:.2f} ms")


def one_round(bench):
    before = bench.capacity()
    print(f"capacity {before:,.0f}/s (closed loop of {CLIENTS})")
    print(f"{'':<14}{'offered':>9}{'goodput':>9}{'of cap.':>8}{'p50 ms':>10}{'p99 ms':>10}"
          f"{'/ 0.8x':>7}{'unsent':>10}{'refused':>9}{'lost':>6}{'errors':>7}{'MiB':>8}{'then':>7}")
    rows = []
    for name in RPC_ROWS if bench.args.rpc else ROWS:
        rows.append(bench.run(name, before))
        show(rows[-1], rows[0]["p99_us"] if len(rows) > 1 else 0)
    after = bench.capacity()
    print(f"capacity {after:,.0f}/s afterwards")
    return {"capacity_before_rps": before, "capacity_after_rps": after, "runs": rows}


def summary(rounds):
    """Medians over the rounds, of 1.5x with control: goodput over the mean capacity of its round,
    over what the server gave without control, and p99 over that of 0.8x."""
    def median(of):
        return statistics.median(of(one) for one in rounds)

    def run(one, name):
        return next(row for row in one["runs"] if row["run"].startswith(name))

    def controlled(one):
        return one["runs"][1]

    return {
        "goodput_of_capacity": median(
            lambda one: controlled(one)["goodput_rps"]
            / statistics.mean((one["capacity_before_rps"], one["capacity_after_rps"]))),
        "goodput_of_uncontrolled": median(
            lambda one: controlled(one)["goodput_rps"] / run(one, "1.5x none")["goodput_rps"]),
        "p99_over_08": median(
            lambda one: controlled(one)["p99_us"] / run(one, "0.8x")["p99_us"]),
        "uncontrolled_p99_over_08": median(
            lambda one: run(one, "1.5x none")["p99_us"] / run(one, "0.8x")["p99_us"])}


def measure(args, mix):
    control = "credits" if args.rpc else "--overload aqm"
    print(f"policy {args.policy}, {mix}, {args.flows} connections, {control}, target "
          f"{args.target_delay}; server on CPU {args.server_cpu}, generator on CPU "
          f"{args.client_cpu}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, mix, folder)
        rounds = [one_round(bench) for _ in range(args.rounds)]
    result = summary(rounds)
    print("1.5x with control: goodput {goodput_of_capacity:.1%} of the capacity, "
          "{goodput_of_uncontrolled:.1%} of that without control; p99 {p99_over_08:.2f} times that "
          "of 0.8x, without control {uncontrolled_p99_over_08:.0f} times".format(**result))
    return {"mix": mix, "rounds": rounds, "summary": result}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rubato", default="build/release/bin/rubato")
    parser.add_argument("--seconds", type=float, default=60, help="of each run")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--policy", default="synergy")
    parser.add_argument("--target-delay", default="3ms")
    parser.add_argument("--rpc", action="store_true", help="clients with credits, see above")
    parser.add_argument("--expire-us", type=float, default=10_000,
                        help="with --rpc: what had no credit for so long is given up")
    parser.add_argument("--mix", help=f"default: {MIX}; with --rpc {', '.join(RPC_MIXES)}")
    parser.add_argument("--flows", type=int, default=256)
    parser.add_argument("--pick", default="idle", choices=("idle", "random"))
    parser.add_argument("--server-cpu", type=int, default=1)
    parser.add_argument("--client-cpu", type=int, default=0)
    parser.add_argument("--before-others", action="store_true",
                        help="have the scheduler prefer this session to others (needs root)")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if args.before_others:
        with open("/proc/self/autogroup", "w", encoding="ascii") as nice:
            nice.write("-19")
    mixes = [args.mix] if args.mix else RPC_MIXES if args.rpc else [MIX]
    measured = [measure(args, mix) for mix in mixes]
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"time": time.strftime("%F %T"), "cpus": os.cpu_count(),
                       "settings": vars(args), **measured[0], "more": measured[1:]}, out,
                      indent=1)


if __name__ == "__main__":
    main()
