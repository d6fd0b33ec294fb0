# SPDX-License-Identifier: Apache-2.0
"""The bench: starts a server per run, calibrates, drives the load. Owns no text and no drawing."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from rubato_lab import calibration, contenders, generator, machine, servers
from rubato_lab.contenders import GET, Load

SCAN_PROBE_S = 0.8
SCAN_PROBE_CLIENTS = 4
CAPACITY_PROBE_S = 2.0
CAPACITY_CLIENTS = 32


@dataclass
class Bench:
    """Where and with what to run. Cores may be None (not pinned)."""

    binary: str
    folder: Path
    server_core: int | None
    generator_core: int | None
    options: object

    def __post_init__(self):
        self.started = 0
        (self.folder / "runs").mkdir(parents=True, exist_ok=True)

    def server(self, contender):
        """A fresh server, not started yet: a context manager. The port is free now."""
        port = servers.free_port()
        command = contenders.server_command(contender, self.binary, port, self.server_core)
        self.started += 1
        log = self.folder / "runs" / f"server-{self.started:02}-{contender.name}.log"
        return servers.Server(command, port, log)

    def load(self, server, contender, **changes):
        """What every run has in common; `changes` are the fields of Load that differ."""
        o = self.options
        common = Load(policy=contender.name, port=server.port,
                      mix=contenders.mix_of(contender.scan, o.scan_share),
                      duration_s=o.seconds, keys=o.keys, value_size=o.value_size, scan_limit=1,
                      seed=o.seed, core=self.generator_core, flows=o.flows)
        return replace(common, **changes)

    def run(self, load, server, name):
        return generator.run(load, self.binary, server, self.folder / "runs" / f"{name}.json")

    def probe_scan(self, server, contender):
        """(items, microseconds) of a scan of the wanted length. Leaves the keys loaded."""
        probes = 0
        # A list has to be as long as the scan, so it is filled anew; the keys do not matter then.
        needs_list = contender.scan == contenders.REDIS_SCAN

        def measure_us(limit):
            nonlocal probes
            probes += 1
            store = {"load_keys": needs_list or probes == 1}
            if needs_list:
                store["keys"] = 1
            load = self.load(server, contender, mix=f"{contender.scan}:1", scan_limit=limit,
                             duration_s=SCAN_PROBE_S, closed=SCAN_PROBE_CLIENTS, **store)
            done = self.run(load, server, f"probe-{contender.name}-scan-{probes}")
            return 1e6 / done.report.achieved_rps if done.report.achieved_rps > 0 else 0.0

        return calibration.choose_scan_limit(measure_us, self.options.scan_us, self.options.keys)

    def probe_capacity(self, server, contender, scan_limit):
        """Requests per second of the whole mix that keep the server busy."""
        load = self.load(server, contender, scan_limit=scan_limit, duration_s=CAPACITY_PROBE_S,
                         closed=CAPACITY_CLIENTS)
        done = self.run(load, server, f"probe-{contender.name}-capacity")
        return done.report.achieved_rps

    def calibrate(self, contender):
        """Raises ServerFailed, LoadFailed or CalibrationFailed."""
        with self.server(contender) as server:
            limit, cost_us = self.probe_scan(server, contender)
            capacity = self.probe_capacity(server, contender, limit)
        rate = self.options.rate or calibration.rate_for(capacity, self.options.utilisation)
        return calibration.Calibration(limit, cost_us, capacity, rate)

    def scan_limit_of(self, contender):
        """(items, microseconds) for a server that needs its own scan size."""
        with self.server(contender) as server:
            return self.probe_scan(server, contender)

    def watched(self, server):
        return server.pid if machine.counts_waiting() else None

    def open_run(self, server, contender, scan_limit, rate, repeat, attempt):
        load = self.load(server, contender, scan_limit=scan_limit, rate=rate, load_keys=True,
                         seed=self.options.seed + repeat, watch=self.watched(server))
        return self.run(load, server, f"{contender.name}-{repeat + 1}{'r' * attempt}")

    def closed_run(self, server, contender, scan_limit):
        load = self.load(server, contender, scan_limit=scan_limit,
                         duration_s=self.options.closed_seconds,
                         closed=self.options.closed_clients)
        return self.run(load, server, f"{contender.name}-closed")


@dataclass
class Clock:
    """Whether there is time for one more. `limit_s` None is all the time in the world."""

    limit_s: float | None
    started: float = 0.0

    def __post_init__(self):
        self.started = time.monotonic()

    @property
    def elapsed_s(self):
        return time.monotonic() - self.started

    def allows(self, more_s):
        return self.limit_s is None or self.elapsed_s + more_s <= self.limit_s


def get_p999(measured):
    return measured.report.latency(GET, "p999")
