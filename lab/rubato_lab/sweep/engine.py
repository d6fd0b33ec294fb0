# SPDX-License-Identifier: Apache-2.0
"""Runs what a store lacks of a sweep. Runs go to Dask a few at a time, and the rows of those that
end are on the disk before more are sent."""

import queue
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from rubato_lab.program import RubatoError
from rubato_lab.sweep import intervals, worker
from rubato_lab.sweep.spec import stored_name
from rubato_lab.sweep.store import row_of

# Runs in Dask's hands per thread, so that a worker need not wait for the client.
AHEAD = 3
TURN_S = 0.5
# How long a cluster may have no worker of the right version.
NOBODY_S = 30.0
BAD_ARGUMENTS = 2


@dataclass
class Plan:
    """What is known and still to run: figures {point: {seed: value}} of the store."""

    spec: object
    figures: dict
    failed: dict = field(default_factory=dict)  # {(point, seed): why}

    def column(self):
        return self.spec.seeds.column("load")

    def lacking(self, point):
        """Seeds of the point that are neither known nor failed."""
        known, seeds = self.figures.get(point.key, {}), self.spec.seeds
        wanted = range(seeds.first, seeds.first + intervals.wanted(seeds, known))
        return [s for s in wanted if s not in known and (point, s) not in self.failed]

    def done(self):
        return sum(not self.lacking(point) for point in self.spec.points)


class Progress:
    """A line on stderr: how far, how fast, and about how long still."""

    def __init__(self, plan, out=sys.stderr, clock=time.monotonic):
        self.plan, self.out, self.clock = plan, out, clock
        self.began = self.told = clock()
        self.runs = 0
        self.terminal = out.isatty()

    def tell(self, waiting, force=False):
        now = self.clock()
        if not force and now - self.told < (1 if self.terminal else 10):
            return
        self.told = now
        rate = self.runs / max(now - self.began, 1e-3)
        left = f"about {_duration(waiting / rate)} left" if rate and waiting else ""
        line = (f"{self.plan.done()}/{len(self.plan.spec.points)} points, {self.runs} runs, "
                f"{waiting} to come, {len(self.plan.failed)} failed, {rate:.1f} runs/s {left}")
        print(f"\r{line:<78}" if self.terminal else line.rstrip(),
              end="" if self.terminal and not force else "\n", file=self.out, flush=True)


def _duration(seconds):
    for limit, unit, each in ((90, "s", 1), (5400, "min", 60)):
        if seconds < limit:
            return f"{seconds / each:.0f} {unit}"
    return f"{seconds / 3600:.1f} h"


class Engine:
    """One sweep on one client of Dask. Raises RubatoError where it cannot go on."""

    def __init__(self, client, plan, store, retries, others_join, say):
        self.client, self.plan, self.store, self.retries = client, plan, store, retries
        self.others_join, self.say = others_join, say
        version = plan.spec.points[0].version
        files = {stored_name(path, digest): Path(path).read_bytes()
                 for path, digest in plan.spec.files}
        self.plugin = worker.SweepPlugin(version, files)
        self.ended = queue.SimpleQueue()
        self.todo = deque()
        self.underway = {}  # {(point, seed): future}
        self.attempts = {}
        self.runs = 0
        self.refused = set()
        self.workers, self.able, self.nobody_since = None, 0, time.monotonic()

    def run(self, progress):
        self._await_worker()
        self.client.register_plugin(_as_dask_plugin(self.plugin), name=worker.PLUGIN)
        for point in self.plan.spec.points:
            self._want(point)
        while self.todo or self.underway:
            self._look_at_workers()
            self._send()
            self._keep(self._ended())
            progress.runs = self.runs
            progress.tell(len(self.todo) + len(self.underway))

    def _await_worker(self):
        """A job may wait in Slurm's queue for long; Dask's calls to no worker hang."""
        if not self.client.nthreads():
            self.say("waiting for a worker of the cluster")
        while not self.client.nthreads():
            time.sleep(TURN_S)

    def _want(self, point):
        for seed in self.plan.lacking(point):
            if (point, seed) not in self.attempts:
                self.attempts[point, seed] = 0
                self.todo.append((point, seed))

    def _send(self):
        while self.todo and len(self.underway) < AHEAD * max(1, self.able):
            point, seed = self.todo.popleft()
            future = self.client.submit(
                worker.simulate, point.words(seed), pure=False,
                key=f"{point.run_key(seed)}-{self.attempts[point, seed]}",
                resources={self.plugin.resource: 1})
            self.underway[point, seed] = future
            future.add_done_callback(lambda f, run=(point, seed): self.ended.put((run, f)))

    def _ended(self):
        """Runs that have ended: those of this moment, after waiting for the first of them."""
        found = []
        try:
            found.append(self.ended.get(timeout=TURN_S))
            while True:
                found.append(self.ended.get_nowait())
        except queue.Empty:
            return found

    def _keep(self, ended):
        rows, runs = [], []
        for (point, seed), future in ended:
            del self.underway[point, seed]
            try:
                printed, wall_s, where = future.result(timeout=60)
                rows.append(row_of(point, seed, printed, wall_s, where))
                runs.append((point, seed))
            except Exception as error:  # pylint: disable=broad-except
                self._failed(point, seed, error)
        if not rows:
            return
        self.store.append(rows)
        self.runs += len(rows)
        column = self.plan.column()
        for (point, seed), row in zip(runs, rows):
            self.plan.figures.setdefault(point.key, {})[seed] = row[column]
        for point in dict.fromkeys(point for point, _ in runs):
            self._want(point)

    def _failed(self, point, seed, error):
        """Another attempt, or none where the arguments are to blame."""
        self.attempts[point, seed] += 1
        hopeless = isinstance(error, RubatoError) and error.status == BAD_ARGUMENTS
        if not hopeless and self.attempts[point, seed] <= self.retries:
            self.todo.append((point, seed))
            return
        lines = str(error).strip().splitlines() or [type(error).__name__]
        self.plan.failed[point, seed] = lines[0]

    def _look_at_workers(self):
        """Says which are refused, and gives up where none is left."""
        now = time.monotonic()
        threads = self.client.nthreads()
        if set(threads) != self.workers:
            self.workers = set(threads)
            # Without a worker the call would wait for one.
            why = self.client.run(worker.refusal_of, on_error="ignore") if threads else {}
            for address, refusal in why.items():
                if refusal and address not in self.refused:
                    self.refused.add(address)
                    self.say(f"worker {address} is refused: {refusal}")
            self.able = sum(threads[address] for address, refusal in why.items() if not refusal)
        if self.able:
            self.nobody_since = now
        elif (self.workers or not self.others_join) and now - self.nobody_since > NOBODY_S:
            raise RubatoError("no worker of the cluster can run this sweep")


def _as_dask_plugin(plugin):
    """The plugin as Dask wants it: of its class, which is not there without Dask."""
    from distributed import WorkerPlugin

    class Plugin(worker.SweepPlugin, WorkerPlugin):
        pass

    return Plugin(plugin.version, plugin.files)
