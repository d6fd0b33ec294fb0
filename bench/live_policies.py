#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every live policy under `rubato load`: is each request answered, and do the server's counters say
what the policy's paper says? A line per policy and server; exit status 1 if one breaks a rule.

A server has two workers; the load is moderate, comes in bursts and is one tenth long requests. What
the policies declare (`rubato policies --json`) decides what is expected of them, beside RULES.
Speeds are no part of this: a machine that others use is no hindrance."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab"))

from rubato_lab import generator, run_report, scrape, servers  # noqa: E402
from rubato_lab.policies import chosen, live  # noqa: E402

BURST = 8
FLOWS = 64
KEYS = 20_000
SLACK_S = 60.0
SAMPLE_S = 0.05
# A policy that learns the types of requests knows them after so many, and these come first.
WINDOW = 300
LESSON_S = 1.0
SPIN_RATE = 2000
KV_RATE = 1500


class Broken(Exception):
    """A run that did not come to its end."""


@dataclass(frozen=True)
class Program:
    """A server: its options, the load, and what its metrics call the two kinds of requests."""

    name: str
    serve: tuple
    load: tuple
    rate: int
    short: str
    long: str


PROGRAMS = {
    "spin": Program("spin", ("--long-over", "100us"),
                    ("--workload", "short:20us:90,long:400us:10"), SPIN_RATE, "short", "long"),
    "kv": Program("kv", ("--engine", "rocksdb"),
                  ("--mix", "get:90,rangecount:10", "--keys", str(KEYS), "--scan-limit", "4000"),
                  KV_RATE, "get", "rangecount")}


@dataclass
class Run:
    """What one policy did on one server. `counters` are differences over the run."""

    policy: str
    program: str
    sent: int = 0
    lost: int = 0
    refused: int = 0
    errors: int = 0
    valid: bool = False
    counters: dict = field(default_factory=dict)
    finished: dict = field(default_factory=dict)  # "worker type" -> requests
    deepest: dict = field(default_factory=dict)   # queue -> most seen in one lane
    left: int = 0                                 # in queues, at the end
    plan: list = field(default_factory=list)      # the policy's own account, at the end
    status: int | None = None
    broken: list = field(default_factory=list)

    def long_at(self, worker):
        return self.finished.get(f"{worker} {PROGRAMS[self.program].long}", 0)

    def short_at(self, worker):
        return self.finished.get(f"{worker} {PROGRAMS[self.program].short}", 0)


# What the papers say of single policies: name -> [(what, does the run keep it?)].
OWN_QUEUE = [("each worker serves what arrives at it and nothing else",
              lambda run: run.counters["steals"] == 0 and run.counters["helped"] == 0)]
STEALS = [("idle workers steal", lambda run: run.counters["steals"] > 0)]
# A short request that loses its CPU can make its type look long for one window of the profile.
RESERVED = [("long requests keep off the worker reserved for short ones",
             lambda run: run.long_at(0) <= run.long_at(1) / 10 and run.long_at(1) > 0),
            ("short ones did", lambda run: run.short_at(0) > 0)]
AT_MOST_K = [("at most k requests at a worker", lambda run: run.deepest.get("local", 0) <= 2)]
RULES = {
    "fcfs": OWN_QUEUE,
    "steal": STEALS, "zygos": STEALS, "sbb": STEALS,
    "darc": RESERVED, "darc-static": RESERVED,
    "jbsq": AT_MOST_K,
    "synergy": [*STEALS, ("a slice goes on where nobody would gain by its end",
                          lambda run: run.counters["preemptions_avoided"] > 0)],
    "altocumulus": [("two workers are one group, which sends nothing away",
                     lambda run: run.counters["moved"] == 0)],
}
# Settings that let a short run with a moderate load show what the policy does: learn the types
# soon and follow their demand; be Busy, so that others may steal, with a request or two waiting.
SETTINGS = {"darc": {"window": WINDOW, "slowdown": 0, "literal": "on"},
            "darc-static": {"window": WINDOW},
            "edf": {"window": WINDOW}, "fixed-priority": {"window": WINDOW},
            "shinjuku": {"window": WINDOW},
            "sbb": {"light_to_busy": 1, "busy_to_light": 1, "rounds": 1, "block": 1}}
# Preempts with a setting that is off by default.
PREEMPTS_ON_DEMAND = {"altocumulus"}


def rules_of(policy):
    """[(what, does the run keep it?)] for a policy as `rubato policies --json` describes it."""
    rules = list(RULES.get(policy["name"], ()))
    if policy["preempts"] == "nothing" or policy["name"] in PREEMPTS_ON_DEMAND:
        rules.append(("runs to completion", lambda run: run.counters["preemptions"] == 0))
    else:
        rules.append(("preempts", lambda run: run.counters["preemptions"] > 0))
    if all(queue["sharing"] == "owner" or queue["sharing"] == "shared"
           for queue in policy["queues"]):
        rules.append(("nobody steals", lambda run: run.counters["steals"] == 0))
    return rules


def common_rules(run):
    """The same for all of them: (what, is it so?)."""
    answered = sum(run.finished.values())
    return [("every request is answered", run.lost == 0 and run.errors == 0),
            ("none is refused", run.refused == 0 and run.counters["refused"] == 0),
            (f"as many are finished ({answered}) as were sent ({run.sent})", answered == run.sent),
            ("who is put back, or waits for a lock, is taken up again",
             run.counters["preemptions"] + run.counters["lock_yields"] == run.counters["resumed"]),
            ("the queues are empty at the end", run.left == 0),
            ("SIGTERM ends the server with status 0", run.status == 0)]


class DepthWatch(threading.Thread):
    """Looks at the queues again and again; `deepest` is the most that a lane was seen to hold."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.deepest = {}
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(SAMPLE_S):
            try:
                seen = scrape.samples(self.port)
            except OSError:
                continue
            for (name, labels), depth in seen.items():
                if name == "queue_depth":
                    queue = scrape.label(labels, "queue")
                    self.deepest[queue] = max(self.deepest.get(queue, 0), int(depth))

    def stop(self):
        self.over.set()
        self.join()
        return self.deepest


def settings_of(policy):
    found = []
    for name, value in SETTINGS.get(policy["name"], {}).items():
        found += ["--set", f"{name}={value}"]
    return found


def drive(binary, program, port, seconds, seed, report):
    """Runs the generator; its report. Raises Broken."""
    command = [binary, "load", "--target",
               f"{'resp' if program.name == 'kv' else 'spin'}://127.0.0.1:{port}",
               *program.load, "--rate", program.rate, "--arrivals", f"batch:{BURST}",
               "--flows", FLOWS, "--duration", seconds, "--warmup", 0, "--timeout", 30,
               "--seed", seed, "--json", report]
    report.unlink(missing_ok=True)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=seconds + SLACK_S, check=False,
                          preexec_fn=servers.die_with_parent)
    if done.returncode not in (0, generator.FAILED_RUN) or not report.exists():
        raise Broken(f"rubato load ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return run_report.read(report)


def fill_store(binary, folder):
    """A store with KEYS keys in it, made once: each server gets a copy, and has seen no SET. It
    need not survive the machine, and a disk may take milliseconds to sync a key."""
    port = servers.free_port()
    command = [binary, "serve", "kv", "--policy", "fcfs", "--port", port,
               "--engine", "rocksdb", "--durability", "async", "--dir", folder / "store"]
    with servers.Server(command, port, folder / "filling.log"):
        filling = Program("kv", (), ("--mix", "get:1", "--keys", str(KEYS), "--load-keys"), 100,
                          "get", "")
        drive(binary, filling, port, 0.2, 1, folder / "filling.json")
    return folder / "store"


def store_options(program, store, folder):
    if program.name != "kv":
        return []
    shutil.copytree(store, folder / "store")
    return ["--dir", folder / "store"]


def differences(before, after, run):
    """Fills in what the server counted between two scrapes."""
    for (name, labels), value in after.items():
        grown = int(value - before.get((name, labels), 0))
        if not labels:
            run.counters[name] = grown
        elif name == "finished":
            kind = scrape.label(labels, "type")
            program = PROGRAMS[run.program]
            if kind in (program.short, program.long):
                run.finished[f"{scrape.label(labels, 'worker')} {kind}"] = grown
        elif name == "queue_depth":
            run.left += int(value)


def measure(args, policy, program, store, folder, run):
    """One policy on one server. Raises Broken, or what the modules of the lab do."""
    port, metrics = servers.free_port(), servers.free_port()
    command = [args.rubato, "serve", program.name, "--policy", policy["name"], "--workers",
               args.workers, "--port", port, "--metrics-port", metrics, *program.serve,
               *settings_of(policy), *store_options(program, store, folder)]
    report = folder / "load.json"
    server = servers.Server(command, port, folder / "server.log")
    with server:
        drive(args.rubato, program, port, LESSON_S, args.seed + 1, report)
        before = scrape.samples(metrics)
        watch = DepthWatch(metrics)
        watch.start()
        try:
            told = drive(args.rubato, program, port, args.seconds, args.seed, report)
        finally:
            run.deepest = watch.stop()
        differences(before, scrape.samples(metrics), run)
        run.plan = scrape.fetch(metrics, "plan").splitlines()
    run.status = server.process.returncode
    run.sent, run.lost, run.refused, run.valid = told.requests, told.lost, told.refused, told.valid
    run.errors = sum(kind.errors for kind in told.types.values())


def judged(args, policy, program, store):
    run = Run(policy["name"], program.name)
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(args, policy, program, store, Path(folder), run)
    except (Broken, servers.ServerFailed, run_report.ReportError, OSError,
            subprocess.SubprocessError) as error:
        run.broken.append(f"the run ended early: {error}")
        return run
    run.broken += [what for what, kept in common_rules(run) if not kept]
    run.broken += [what for what, keeps in rules_of(policy) if not keeps(run)]
    return run


COLUMNS = (("policy", 14), ("server", 6), ("requests", 9), ("lost", 5), ("refused", 7),
           ("preempted", 9), ("avoided", 8), ("steals", 7), ("helped", 7), ("long at 0", 9),
           ("long at 1", 9), ("", 0))


def line(cells):
    texts = [str(cell).ljust(width) if i < 2 else str(cell).rjust(width)
             for i, (cell, (_, width)) in enumerate(zip(cells, COLUMNS))]
    return "  ".join(texts).rstrip()


def cells_of(run):
    counted = run.counters.get
    return [run.policy, run.program, run.sent, run.lost, run.refused, counted("preemptions", "-"),
            counted("preemptions_avoided", "-"), counted("steals", "-"), counted("helped", "-"),
            run.long_at(0), run.long_at(1), "BROKEN" if run.broken else "kept"]


def print_run(run):
    print(line(cells_of(run)), flush=True)
    for what in run.broken:
        print(f"    broken: {what}", flush=True)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rubato", default="build/release/bin/rubato")
    parser.add_argument("--seconds", type=float, default=60, help="of each run")
    parser.add_argument("--policies", default="all", help="names with commas between, or all")
    parser.add_argument("--servers", default="all", help="spin, kv or all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write every figure there as well")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    try:
        policies = {policy["name"]: policy for policy in live(args.rubato)}
        names = chosen(args.policies, policies, "--policies")
        programs = [PROGRAMS[name] for name in chosen(args.servers, PROGRAMS, "--servers")]
    except (OSError, subprocess.SubprocessError) as error:
        print(f"live_policies.py: {args.rubato}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"live_policies.py: {error}", file=sys.stderr)
        return 2
    print(line([heading for heading, _ in COLUMNS]), flush=True)
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            store = fill_store(args.rubato, Path(folder)) if PROGRAMS["kv"] in programs else None
        except (servers.ServerFailed, OSError, subprocess.SubprocessError) as error:
            print(f"live_policies.py: the store could not be filled: {error}", file=sys.stderr)
            return 1
        for name in names:
            for program in programs:
                runs.append(judged(args, policies[name], program, store))
                print_run(runs[-1])
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n",
                                   encoding="utf-8")
    broken = sum(1 for run in runs if run.broken)
    print(f"{len(runs)} runs, {sum(run.sent for run in runs)} requests, {broken} runs broke a rule")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
