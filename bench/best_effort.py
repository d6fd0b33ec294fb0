#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a best-effort command gets of the CPUs that a quiet server leaves, and what its presence
costs the server's p99. Runs with and without the command take turns; medians and spread are of all
runs of a kind. `rubato load --nap` drives the server from the same CPUs, or, with --apart, one that
never sleeps from a CPU of its own, as if from another machine.

Of a run it is measured how much CPU time requests took (the server's own count, which is wall
time, or what --needs says they need), the command (its keeper's), the generator, and everybody else
on the machine (/proc/stat). An ideal split leaves the command what is left: all CPUs less requests,
generator and others. What the server spends beside requests (polling, switching, spinning, and on
a kv server the kernel's receiving) therefore counts against the command's share.

A run is repeated when others used more than --foreign of the machine: it would tell of them."""

import argparse
import ctypes
import fcntl
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

SPINNER = "while :; do :; done"
TICK = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 20.0
KEYS = 10_000
SLICE_NS = 100_000
SYS_SCHED_SETATTR = 314  # x86-64


def machine_busy(cpus):
    """Seconds that these CPUs were not idle; and those the hypervisor took."""
    busy, stolen = 0, 0
    with open("/proc/stat", encoding="ascii") as stat:
        for name, *fields in map(str.split, stat):
            if not re.fullmatch(r"cpu\d+", name) or int(name[3:]) not in cpus:
                continue
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    return busy / TICK, stolen / TICK


def on(cpus):
    return ["taskset", "-c", ",".join(map(str, sorted(cpus)))]


def process_cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@dataclass
class Point:
    """Where everything stands, in seconds."""

    at: float
    busy: float
    steal: float
    server: float
    requests: float
    command: float
    generator: float


@dataclass
class Run:
    p50_us: float
    p99_us: float
    calm_p99_us: float         # of the requests that no stall touched
    touched: float             # share of the requests that one did
    requests: float            # CPUs; and so the following
    server: float
    command: float
    generator: float
    foreign: float
    of_ideal: float
    valid: bool


class Server:
    def __init__(self, args, command):
        binary = str(args.binary)
        words = [*on(args.served), binary, "serve", args.server, "--port", "0",
                 "--metrics-port", "0", "--workers", str(args.cpus), *args.serve]
        self.cpus = args.served
        if args.server == "kv":
            words += ["--engine", "memory"]
        if command:
            words += ["--best-effort", command, *(["--best-effort-no-group"] * args.no_group)]
        self.log = tempfile.TemporaryFile("w+")
        # The server shares the position in the file, which a reader here moves.
        flags = fcntl.fcntl(self.log, fcntl.F_GETFL)
        fcntl.fcntl(self.log, fcntl.F_SETFL, flags | os.O_APPEND)
        self.process = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT)
        self.port = self.wait_for(r" on \S+:(\d+)\n")
        self.metrics_port = self.wait_for(r"metrics on http://\S+:(\d+)/")

    def wait_for(self, pattern):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            self.log.seek(0)
            if found := re.search(pattern, self.log.read()):
                return int(found.group(1))
            time.sleep(0.02)
        self.log.seek(0)
        raise SystemExit(f"best_effort: the server does not start:\n{self.log.read()}")

    def metric(self, text, name):
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    def point(self, generator):
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
            text = reply.read().decode()
        busy, steal = machine_busy(self.cpus)
        return Point(time.monotonic(), busy, steal, process_cpu(self.process.pid),
                     self.metric(text, "rubato_busy_seconds_total"),
                     self.metric(text, "rubato_best_effort_cpu_seconds_total"),
                     process_cpu(generator))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        self.log.close()


def load_words(args, server, duration, out):
    target = "resp" if args.server == "kv" else "spin"
    words = [*on(args.loading), str(args.binary), "load",
             "--target", f"{target}://127.0.0.1:{server.port}", *(["--nap"] * (not args.apart)),
             "--rate", str(args.rate), "--duration", str(duration), "--warmup", "1",
             "--watch", str(server.process.pid), "--json", out]
    if args.server == "kv":
        return [*words, "--mix", args.mix, "--keys", str(KEYS), "--load-keys"]
    return [*words, "--workload", args.workload]


def one_run(args, command):
    server = Server(args, command)
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        generator = subprocess.Popen(load_words(args, server, args.seconds + 2, out.name),
                                     stdout=subprocess.DEVNULL)
        time.sleep(1.5)
        start = server.point(generator.pid)
        time.sleep(args.seconds)
        end = server.point(generator.pid)
        generator.wait(args.seconds + PATIENCE_S)
        report = json.load(out)
    server.stop()
    return account(args, report, start, end)


def account(args, report, start, end):
    span = end.at - start.at
    cpus = {name: (getattr(end, name) - getattr(start, name)) / span
            for name in ("busy", "steal", "server", "requests", "command", "generator")}
    loading = 0.0 if args.apart else cpus["generator"]  # on the same CPUs
    foreign = max(cpus["busy"] - cpus["server"] - cpus["command"] - loading, 0)
    foreign += cpus["steal"]
    # The server counts what passed; of that it had no more than the CPU time it used.
    cpus["requests"] = args.needs or min(cpus["requests"], cpus["server"])
    ideal = args.cpus - cpus["requests"] - loading - foreign
    calm = report["undisturbed"]
    return Run(p50_us=report["latency_us"]["p50"], p99_us=report["latency_us"]["p99"],
               calm_p99_us=calm["latency_us"]["p99"], touched=1 - calm["share"],
               requests=cpus["requests"], server=cpus["server"], command=cpus["command"],
               generator=cpus["generator"], foreign=foreign,
               of_ideal=cpus["command"] / ideal if ideal > 0 else 0.0,
               valid=report["valid"] and report["errors"] == 0 and report["lost"] == 0)


def go_first():
    """In a session of its own, which the kernel weighs 87 times as much as others, and in slices so
    short that who wakes need not wait for the end of another's."""
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.setsid()
    with open("/proc/self/autogroup", "w", encoding="ascii") as autogroup:
        autogroup.write("-20")
    attributes = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, SLICE_NS, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SYS_SCHED_SETATTR, 0, ctypes.c_char_p(attributes), 0) != 0:
        raise SystemExit(f"best_effort: --first: {os.strerror(ctypes.get_errno())}")


def wait_for_quiet(args):
    """Until others have used little for a second, for --patience seconds at most."""
    deadline = time.monotonic() + args.patience
    while time.monotonic() < deadline:
        before, start = sum(machine_busy(args.served)), time.monotonic()
        time.sleep(1)
        used = (sum(machine_busy(args.served)) - before) / (time.monotonic() - start)
        if used <= args.foreign * args.cpus:
            return


def quiet_run(args, command):
    """A run that others have left in peace, or the best of as many as are allowed."""
    runs = []
    for _ in range(args.tries):
        wait_for_quiet(args)
        run = one_run(args, command)
        if run.valid and run.foreign <= args.foreign * args.cpus:
            return run
        runs.append(run)
    return min(runs, key=lambda run: (not run.valid, run.foreign))


HEADER = (f"{'command':8} {'p50 us':>8} {'p99 us':>8} {'calm p99':>9} {'touched':>8} "
          f"{'requests':>9} {'server':>7} {'command':>8} {'load':>6} {'others':>7} {'of ideal':>9}")


def line(name, run):
    share = f"{100 * run.of_ideal:8.1f}%" if run.command > 0 else ""
    return (f"{name:8} {run.p50_us:8.1f} {run.p99_us:8.1f} {run.calm_p99_us:9.1f} "
            f"{100 * run.touched:7.1f}% {run.requests:9.3f} {run.server:7.3f} {run.command:8.3f} "
            f"{run.generator:6.3f} {run.foreign:7.3f} {share:>9}"
            f"{'' if run.valid else '  (not valid)'}")


def spread(values, unit=""):
    return (f"{statistics.median(values):.3g}{unit} "
            f"({min(values):.3g} .. {max(values):.3g}{unit}, {len(values)} runs)")


def summary(without, beside):
    ratios = [b.p99_us / a.p99_us for a, b in zip(without, beside)]
    calm = [b.calm_p99_us / a.calm_p99_us for a, b in zip(without, beside)
            if a.calm_p99_us > 0 and b.calm_p99_us > 0]
    return {
        "p99 without the command": spread([run.p99_us for run in without], " us"),
        "p99 beside the command": spread([run.p99_us for run in beside], " us"),
        "ratio of the p99 of each pair": spread(ratios),
        "the same of requests that no stall touched": spread(calm) if calm else "none",
        "load (requests' share of the CPUs)": spread([run.requests for run in beside]),
        "the command's share of the ideal": spread([100 * r.of_ideal for r in beside], " %"),
    }


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", type=Path, default=Path("build/release/bin/rubato"))
    parser.add_argument("--server", choices=("spin", "kv"), default="spin")
    parser.add_argument("--workload", default="work:exp(200us):1", help="of spin")
    parser.add_argument("--mix", default="get:1", help="of kv")
    parser.add_argument("--rate", type=float, help="default: 1000 for each CPU, which needs 0.2")
    parser.add_argument("--needs", type=float, metavar="CPUS",
                        help="what the requests need: rate times mean service time")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--cpus", type=int, help="and workers; default: all that there are")
    parser.add_argument("--apart", action="store_true",
                        help="the last CPU is the generator's alone, which then never sleeps")
    parser.add_argument("--command", default=f"({SPINNER}) & {SPINNER}",
                        help="keeps two CPUs busy by default")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[],
                        help="options of the server; the last of these options")
    parser.add_argument("--foreign", type=float, default=0.06,
                        help="most that others may use, of the machine")
    parser.add_argument("--patience", type=float, default=60,
                        help="seconds to wait for a quiet moment before a run")
    parser.add_argument("--tries", type=int, default=3, help="of a run that others disturb")
    parser.add_argument("--first", action="store_true",
                        help="go before other sessions (root): where others use the machine; with "
                        "--no-group the command goes before them too")
    parser.add_argument("--no-group", action="store_true", help="SCHED_IDLE alone")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    here = sorted(os.sched_getaffinity(0))
    if args.apart and len(here) < 2:
        parser.error("--apart: a second CPU is needed")
    args.cpus = args.cpus or len(here) - args.apart
    args.served = set(here[:args.cpus])
    args.loading = {here[-1]} if args.apart else set(here)
    if args.loading & args.served and args.apart:
        parser.error(f"--cpus: at most {len(here) - 1} beside the generator's, got {args.cpus}")
    args.rate = args.rate or 1000 * args.cpus
    return args


def main():
    args = arguments()
    if args.first:
        go_first()
    print(HEADER)
    without, beside = [], []
    for pair in range(args.pairs):
        order = [(without, "", ""), (beside, args.command, "beside")]
        for kept, command, name in order if pair % 2 == 0 else reversed(order):
            kept.append(quiet_run(args, command))
            print(line(name or "none", kept[-1]), flush=True)
    figures = summary(without, beside)
    for name, figure in figures.items():
        print(f"{name}: {figure}")
    if args.json:
        args.json.write_text(json.dumps({"without": [vars(run) for run in without],
                                         "beside": [vars(run) for run in beside],
                                         "summary": figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
