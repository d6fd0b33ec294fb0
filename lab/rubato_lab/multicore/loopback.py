# SPDX-License-Identifier: Apache-2.0
"""One run of a cell by `rubato fidelity --live-only`: workers of the runtime on the loopback
datapath, and a sender with a CPU of its own."""

import json

from rubato_lab import children, contenders, machine, units
from rubato_lab.multicore import noise
from rubato_lab.multicore.cells import PER_WORKER, THROUGHPUT, CellFailed, Run

# Offered for a throughput, as a share of what the workers would do at no cost.
OVERLOAD = 1.5
# Bounds of `--requests` and of `--loads`.
FEWEST, MOST = 1000, 100_000_000
MOST_LOAD = 2.0
PROBE_REQUESTS = 1000
# In flight, for a tail; what a throughput has is what TCP has in its closed loop.
FLOWS = 2048
SLACK_S = 60.0
# The sender is no measure any more where more than this share leaves 5 us late, unless it was the
# server that kept it waiting.
MOST_LATE = {"throughput": 0.5, "tail": 0.05}


def requests_for(seconds, workers, mean_us):
    """As many as the workers serve in that time."""
    return min(max(round(seconds * workers * 1e6 / mean_us), FEWEST), MOST)


def load_of(kind, rate_rps, workers, mean_us):
    if kind == THROUGHPUT:
        return OVERLOAD
    return min(rate_rps * mean_us / 1e6 / workers, MOST_LOAD)


def run_from(row, cpus, kind, seed, others):
    """A Run from a row of the report (schema rubato.fidelity/1)."""
    types = {t["name"]: {"count": t["count"], "latency_us": t["latency_us"],
                         "undisturbed_us": t["untouched_us"] if t["untouched_us"]["p50"] else {}}
             for t in row["types"] if t["count"]}
    stalled = row["stalled_ms"] / 1e3 / max(row["wall_s"], 1e-9) / len(cpus)
    seen = {"stalled_share": stalled, **others}
    sent = max(row["requests"], 1)
    why = [noise.verdict(kind, seen)]
    if row["held_back"] == 0 and row["late"] / sent > MOST_LATE[kind]:
        why.append(f"the sender was late for {units.percent(row['late'] / sent)} of the requests")
    if row["unanswered"]:
        why.append(f"{row['unanswered']} requests got no answer")
    return Run(seed, row["achieved_rps"], types, seen, row["offered_rps"],
               "; ".join(filter(None, why)),
               more={key: row[key] for key in ("late", "held_back", "refused", "unanswered",
                                               "untouched_share", "worst_lag_us")})


class Loopback:
    """`beat` is called while a run lasts."""

    def __init__(self, binary, folder, workload, seconds, beat):
        self.binary = binary
        self.report = folder / "fidelity.json"
        self.workload = workload
        self.seconds = seconds
        self.beat = beat

    def command(self, cpus, policy, workers, load, requests, seed, flows=FLOWS):
        return [str(word) for word in contenders.pinned(
            ",".join(map(str, cpus)),
            [self.binary, "fidelity", "--live-only", "--policies", policy, "--workers", workers,
             "--loads", f"{load:.6g}", "--flows", flows, "--requests", requests,
             "--workload", self.workload, "--seed", seed, "--json", self.report])]

    def row(self, cpus, *what):
        """Raises CellFailed."""
        self.report.unlink(missing_ok=True)
        try:
            ended, = children.run([self.command(cpus, *what)], self.seconds * 3 + SLACK_S,
                                  self.beat)
        except children.ChildFailed as error:
            raise CellFailed(str(error)) from error
        if ended.status != 0:
            raise CellFailed(ended.last_words())
        try:
            told = json.loads(self.report.read_text(encoding="utf-8"))
            return {**told["rows"][0], "requests": told["requests"]}
        except (OSError, ValueError, LookupError) as error:
            raise CellFailed(f"{self.report}: {error}") from error

    def mean_service_us(self, cpus, policy):
        """Of the workload, from what a load of one half comes to. Raises CellFailed."""
        row = self.row(cpus, policy, 1, 0.5, PROBE_REQUESTS, 1)
        return 0.5e6 / row["offered_rps"]

    def run(self, cell, kind, seed, rate_rps, mean_us):
        """Raises CellFailed."""
        cpus = cell.place.cpus
        flows = PER_WORKER * cell.workers if kind == THROUGHPUT else FLOWS
        before = machine.sample()
        row = self.row(cpus, cell.policy, cell.workers,
                       load_of(kind, rate_rps, cell.workers, mean_us),
                       requests_for(self.seconds, cell.workers, mean_us), seed, flows)
        others = noise.between(before, machine.sample(), cpus)
        return run_from(row, cpus, kind, seed, others)
