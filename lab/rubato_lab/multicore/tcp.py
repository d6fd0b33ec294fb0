# SPDX-License-Identifier: Apache-2.0
"""One run of a cell over TCP: a pinned `rubato serve spin` and as many `rubato load` beside it as
its workers need, each on a CPU of its own. What several generators saw counts as if one had."""

import contextlib
import time

from rubato_lab import children, contenders, machine, run_report, scrape, servers, stats
from rubato_lab.generator import FAILED_RUN
from rubato_lab.multicore import noise
from rubato_lab.multicore.cells import PER_WORKER, THROUGHPUT, CellFailed, Run

SLACK_S = 45.0
SEED_STEP = 1000
SHARES = {"p50": 0.5, "p99": 0.01, "p999": 0.001}


def merged(curves):
    """One ccdf from [(ccdf, count)]: each falls where it does, weighted by its count."""
    total = sum(count for _, count in curves)
    falls = []
    for curve, count in curves:
        left = 1.0
        for at, beyond in curve:
            falls.append((at, (left - beyond) * count))
            left = beyond
    points = []
    left = total
    for at, fall in sorted(falls):
        left -= fall
        points.append((at, left / total))
    return points


def latency_of(types):
    """Percentiles of one type, from a TypeReport of each generator."""
    types = [one for one in types if one.count]
    if len(types) == 1:
        return {name: types[0].latency_us[name] for name in SHARES}
    curve = merged([(one.ccdf, one.count) for one in types])
    return {name: stats.value_at(curve, share + 1e-12) for name, share in SHARES.items()}


def types_of(reports):
    """Of the undisturbed requests, what the first generator saw: it watches the server."""
    found = {}
    for name in dict.fromkeys(name for report in reports for name in report.types):
        seen = [r.types[name] for r in reports if name in r.types]
        apart = reports[0].undisturbed.get(name)
        found[name] = {"count": sum(one.count for one in seen),
                       "latency_us": latency_of(seen),
                       "undisturbed_us": {w: apart.latency_us[w] for w in SHARES}
                       if apart and apart.count else {}}
    return found


def run_from(reports, cpus, kind, seed, others):
    """A Run from the generators' reports."""
    wall = max(report.wall_s for report in reports)
    stalled_s = sum(report.noise.get("stalled_ms", 0.0) for report in reports) / 1e3
    stalled = stalled_s / max(wall, 1e-9) / len(cpus)
    gaps = {"max_gap_us": max(r.noise.get("max_gap_us", 0.0) for r in reports),
            "send_lag_p99_us": max(r.send_lag_us.get("p99", 0.0) for r in reports)}
    seen = {"stalled_share": stalled, **others, **gaps}
    invalid = next((r.invalid_reason or "invalid" for r in reports if not r.valid), "")
    return Run(seed, sum(r.achieved_rps for r in reports), types_of(reports), seen,
               None if kind == THROUGHPUT else sum(r.offered_rps for r in reports),
               "; ".join(filter(None, (noise.verdict(kind, seen), invalid))),
               more={key: sum(getattr(r, key) for r in reports) for key in ("refused", "lost")})


class Tcp:
    """`beat` is called while a run lasts."""

    def __init__(self, binary, folder, workload, seconds, beat):
        self.binary = binary
        self.folder = folder
        self.workload = workload
        self.seconds = seconds
        self.beat = beat

    def server_command(self, cell, port, metrics):
        return contenders.pinned(
            ",".join(map(str, cell.place.server)),
            [self.binary, "serve", "spin", "--policy", cell.policy, "--workers", cell.workers,
             "--pin", "--idle", "spin", "--classify", "feedback", "--port", port,
             "--metrics-port", metrics])

    def load_command(self, cell, i, server, kind, seed, rate_rps):
        generators = len(cell.place.load)
        connections = -(-PER_WORKER * cell.workers // generators)
        command = [self.binary, "load", "--target", f"spin://127.0.0.1:{server.port}",
                   "--workload", self.workload, "--duration", f"{self.seconds:g}",
                   "--seed", seed + SEED_STEP * i, "--cpu", cell.place.load[i], "--ccdf",
                   "--note", f"policy={cell.policy}", "--note", f"workers={cell.workers}",
                   "--json", self.report(i)]
        if kind == THROUGHPUT:
            command += ["--closed", connections]
        else:
            command += ["--rate", f"{max(rate_rps / generators, 1):.1f}", "--flows", connections]
        if i == 0 and machine.counts_waiting():
            command += ["--watch", server.pid]
        return command

    def report(self, i):
        return self.folder / f"load{i}.json"

    def drive(self, cell, server, kind, seed, rate_rps):
        """[RunReport]. Raises CellFailed."""
        count = len(cell.place.load)
        for i in range(count):
            self.report(i).unlink(missing_ok=True)
        commands = [self.load_command(cell, i, server, kind, seed, rate_rps) for i in range(count)]
        done = children.run(commands, self.seconds + SLACK_S, self.beat)
        for i, ended in enumerate(done):
            if ended.status not in (0, FAILED_RUN) or not self.report(i).exists():
                raise CellFailed(f"rubato load: {ended.last_words()}")
        return [run_report.read(self.report(i)) for i in range(count)]

    def measured(self, cell, kind, seed, rate_rps):
        port, metrics = servers.free_port(), servers.free_port()
        server = servers.Server(self.server_command(cell, port, metrics), port,
                                self.folder / "server.log")
        with server:
            before = machine.sample([server.pid])
            busy, began = busy_seconds(metrics), time.monotonic()
            reports = self.drive(cell, server, kind, seed, rate_rps)
            busy, took = busy_seconds(metrics) - busy, time.monotonic() - began
            others = noise.between(before, machine.sample([server.pid]), cell.place.cpus)
            server.check_alive()
        run = run_from(reports, cell.place.cpus, kind, seed, others)
        run.more["serving_share"] = busy / took / cell.workers
        with contextlib.suppress(OSError, IndexError):
            run.more["server"] = (self.folder / "server.log").read_text().splitlines()[0]
        return run

    def run(self, cell, kind, seed, rate_rps, _mean_us):
        """Raises CellFailed."""
        try:
            return self.measured(cell, kind, seed, rate_rps)
        except (servers.ServerFailed, children.ChildFailed, run_report.ReportError,
                OSError) as error:
            raise CellFailed(" ".join(str(error).split())) from error


def busy_seconds(metrics):
    """What the workers spent on requests. Raises OSError."""
    return scrape.samples(metrics).get(("busy_seconds", ""), 0.0)
