# SPDX-License-Identifier: Apache-2.0
"""What is measured: a cell for each datapath, policy and number of workers, in turns."""

from dataclasses import dataclass, field

from rubato_lab import stats
from rubato_lab.multicore.topology import Place

LOOPBACK, TCP = "loopback", "tcp"
DATAPATHS = (LOOPBACK, TCP)
THROUGHPUT, TAIL = "throughput", "tail"
KINDS = (THROUGHPUT, TAIL)
# Requests in flight for each worker, of all who send: enough to keep it busy in a closed loop. Over
# TCP, where each has a connection, an open loop hardly ever needs more.
PER_WORKER = 32


class CellFailed(Exception):
    """A run came to nothing; the message is one line."""


@dataclass
class Run:
    """One run of a cell. `types`: {name: {"count", "latency_us", "undisturbed_us"}}, times in
    microseconds; `disturbed` says by what, and is empty where the machine kept still."""

    seed: int
    achieved_rps: float
    types: dict
    noise: dict
    offered_rps: float | None = None
    disturbed: str = ""
    round: int = 0
    check: int = 0  # the last look at the machine before it
    more: dict = field(default_factory=dict)


@dataclass
class Cell:
    datapath: str
    policy: str
    workers: int
    place: Place
    runs: dict = field(default_factory=lambda: {kind: [] for kind in KINDS})
    failures: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.datapath} {self.policy} {self.workers}"

    @property
    def hopeless(self):
        """Failed, and never did otherwise."""
        return bool(self.failures) and not any(self.runs.values())

    def throughput(self):
        return stats.spread(run.achieved_rps for run in self.runs[THROUGHPUT])

    def latency(self, name, which, part="latency_us"):
        """The spread over the runs of a percentile of a type."""
        found = [run.types.get(name) for run in self.runs[TAIL]]
        return stats.spread(one[part].get(which) for one in found if one and one[part])

    def type_names(self):
        return list(dict.fromkeys(name for run in self.runs[TAIL] for name in run.types))

    def is_disturbed(self, kind):
        """By at least half of its runs, and so perhaps in its median."""
        runs = self.runs[kind]
        return 2 * sum(bool(run.disturbed) for run in runs) >= max(len(runs), 1)


def in_turn(cells, rounds):
    """(round, cells) of each round: A B C, then C B A, so that a machine that drifts favours
    none."""
    for turn in range(rounds):
        yield turn, cells[::-1] if turn % 2 else list(cells)
