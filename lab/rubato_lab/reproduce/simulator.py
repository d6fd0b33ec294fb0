# SPDX-License-Identifier: Apache-2.0
"""Runs `rubato sim` and reads its JSON. What was run once is not run again; at most `processes` at
a time, whatever number of threads asks."""

import copy
import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from rubato_lab.reproduce import machines

PROCESSES = 2
# More than any run here takes: a run that lasts longer hangs.
TIMEOUT_S = 900
WAITING_THREADS = 32


class SimulatorError(Exception):
    """One line that tells which command failed, and how."""


@dataclass(frozen=True)
class Scenario:
    """Everything of a run but how much is offered. `settings` are (name, value) of the policy,
    `more` further arguments of `rubato sim`. In the papers the application knows which requests
    are long and says so (Synergy 5.1.2); `rubato sim` goes by their age unless told."""

    policy: str
    workers: int
    workload: str
    costs: str = "ideal"
    settings: tuple = ()
    flows: str = ""
    weight: int = 1  # of the usual number of requests: where long ones are few
    requests: int = 0  # so many instead, where the paper says how many
    more: tuple = ()
    classify: str = "feedback"

    def having(self, **changes):
        return replace(self, **changes)

    def setting(self, **settings):
        return replace(self, settings=self.settings + tuple(settings.items()))

    def arguments(self, costs_folder):
        words = ["--policy", self.policy, "--workers", str(self.workers), "--workload",
                 self.workload, "--costs", machines.argument(self.costs, costs_folder),
                 "--classify", self.classify]
        for name, value in self.settings:
            words += ["--set", f"{name}={value}"]
        if self.flows:
            words += ["--flows", self.flows]
        return words + list(self.more)


@dataclass(frozen=True)
class Offered:
    """How much is offered: a share of the workers' capacity, or requests per second."""

    load: float | None = None
    rate_rps: float | None = None

    def arguments(self):
        if self.load is not None:
            return ["--load", f"{self.load:.6g}"]
        return ["--rate", f"{self.rate_rps:.9g}"]


@dataclass(frozen=True)
class Effort:
    """How much to simulate. `tolerance` is the width of load within which an objective's limit is
    found, `stride` draws only every n-th point of a curve."""

    name: str
    requests: int
    seeds: int
    tolerance: float
    stride: int


QUICK = Effort("quick", 1_000_000, 1, 0.01, 2)
FULL = Effort("full", 4_000_000, 3, 0.005, 1)


class Run:
    """One simulated run, or the mean over its seeds, as the JSON has it."""

    def __init__(self, report):
        self.report = report
        self.load = report["load"]
        self.offered_rps = report["offered_rps"]
        self.achieved_rps = report["achieved_rps"]
        self.counters = report["counters"]
        self.utilization = report["utilization"]
        self.elastic = report.get("elastic")  # of runs with sessions and cores

    def latency_us(self, percentile="p999"):
        return self.report["latency_us"][percentile]

    def slowdown(self, percentile="p999"):
        return self.report["slowdown"][percentile]

    @property
    def types(self):
        return [t for t in self.report["types"] if t["count"] > 0]

    def shortest(self):
        return min(self.types, key=lambda t: t["service_us"])

    def longest(self):
        return max(self.types, key=lambda t: t["service_us"])

    def worst_slowdown(self):
        """The greatest p99.9 slowdown of any type."""
        return max(t["slowdown"]["p999"] for t in self.types)

    @property
    def loss(self):
        """The share of requests that got no reply."""
        gone = self.report["lost"] + self.report["refused"]
        return gone / max(1, self.report["requests"])

    def outcomes(self):
        """Of --outcomes: how many requests per seed, by what moving them did."""
        seeds = self.report["simulation"]["seeds"]
        return {kind: count / seeds for kind, count in self.report["outcomes"].items()
                if kind != "limit_us"}

    def over_time(self, name, percentile="p999"):
        """Of --over-time: that type's percentile, us, by when its window begins, us; windows in
        which none was sent are left out."""
        found = {}
        for window in self.report["over_time"]["windows"]:
            for kind in window["types"]:
                if kind["name"] == name and kind["count"] > 0:
                    found[window["from_us"]] = kind[f"{percentile}_us"]
        return found

    def avoided(self):
        """The share of expired slices that did not end in a preemption; None without any."""
        kept = self.counters["preemptions_avoided"]
        expired = kept + self.counters["preemptions"]
        return kept / expired if expired else None

    def utilization_gap(self):
        """The busiest worker's share of busy time less the idlest one's; None if not told."""
        each = self.report.get("simulation", {}).get("worker_utilization")
        return max(each) - min(each) if each else None

    def half_width(self, *path):
        """Half of the 95 % confidence interval over seeds of the figure at that path of the
        report, as ("slowdown", "p999"); None with one seed."""
        found = self.report.get("confidence", {})
        for key in path:
            found = found.get(key, {})
        return found or None


class _Pool:
    """What simulators of several seeds share: runs at a time, and those that are done."""

    def __init__(self, processes):
        self.slots = threading.BoundedSemaphore(processes)
        self.lock = threading.Lock()
        self.done = {}
        self.runs = 0


class Simulator:
    """Thread-safe. `costs_folder` holds what machines.write wrote. Raises SimulatorError."""

    def __init__(self, binary, effort, costs_folder, processes=PROCESSES, seed=1):
        self.binary = str(binary)
        self.effort = effort
        self._costs_folder = costs_folder
        self._seed = seed
        self._pool = _Pool(processes)

    @property
    def runs(self):
        """How many commands were run, with every seed."""
        return self._pool.runs

    def each_seed(self):
        """A simulator for each seed of the effort, which run as many at a time as this one."""
        found = []
        for number in range(self.effort.seeds):
            one = copy.copy(self)
            one.effort, one._seed = replace(self.effort, seeds=1), self._seed + number
            found.append(one)
        return found

    def command(self, scenario, offered):
        requests = scenario.requests or self.effort.requests * scenario.weight
        words = [self.binary, "sim", *scenario.arguments(self._costs_folder), *offered.arguments(),
                 "--requests", str(requests), "--seed", str(self._seed), "--threads", "1"]
        if self.effort.seeds > 1:
            words += ["--seeds", str(self.effort.seeds)]
        return words + ["--json", "-"]

    def run(self, scenario, load=None, rate_rps=None):
        command = tuple(self.command(scenario, Offered(load, rate_rps)))
        with self._pool.lock:
            lock = self._pool.done.setdefault(command, [threading.Lock(), None])
        with lock[0]:
            if lock[1] is None:
                lock[1] = Run(self._execute(command))
        return lock[1]

    def policies(self):
        """The names of those that exist."""
        return {one["name"] for one in self._execute((self.binary, "policies", "--json"))}

    def _execute(self, command):
        with self._pool.slots:
            self._pool.runs += 1
            return json_of(command)


def json_of(command):
    """What a command prints. Raises SimulatorError."""
    shown = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SimulatorError(f"{shown}: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise SimulatorError(f"{shown}: exit {done.returncode}: {lines[-1]}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise SimulatorError(f"{shown}: no JSON: {error}") from error


def concurrently(calls):
    """The results of these functions, in order; the first failure is raised."""
    with ThreadPoolExecutor(max_workers=WAITING_THREADS) as pool:
        futures = [pool.submit(call) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
