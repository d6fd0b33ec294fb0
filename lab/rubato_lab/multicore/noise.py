# SPDX-License-Identifier: Apache-2.0
"""Whether the machine kept still: looked at before and between the rounds, and in each run."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rubato_lab import children, machine, units
from rubato_lab.multicore.cells import TAIL, THROUGHPUT

SPIN = Path(__file__).with_name("spin.py")
SPIN_S = 0.3
SPIN_LIMIT_S = 60.0
# The share of the CPUs' time that others may take. A stall delays what comes during it and what
# must then catch up, some five times as much, and p99 rests on one request in a hundred.
MOST_LOST = {THROUGHPUT: 0.01, TAIL: 0.002}


@dataclass(frozen=True)
class Check:
    """One look at an idle machine: shares of the time of its CPUs, which spinners lost, which the
    hypervisor took, and which other programs used."""

    when: str
    lost_share: float
    worst_cpu: int
    worst_share: float
    longest_us: float
    steal_share: float
    foreign_share: float

    @property
    def quiet(self):
        return self.lost_share <= MOST_LOST[THROUGHPUT]


def _on(sample, cpus):
    return replace(sample, cores={c: t for c, t in sample.cores.items() if c in cpus})


def between(before, after, cpus):
    """What happened to these CPUs between two samples of machine.sample(), in shares of their
    time."""
    found = machine.noise_between(_on(before, cpus), _on(after, cpus))
    return {"steal_share": found.steal / len(cpus), "foreign_share": found.foreign / len(cpus)}


def check(cpus, when):
    """Spins on all of them at once. Raises ChildFailed."""
    before = machine.sample()
    ended = children.run([[sys.executable, "-I", "-S", SPIN, cpu, SPIN_S] for cpu in cpus],
                         SPIN_LIMIT_S)
    others = between(before, machine.sample(), cpus)
    if any(one.status != 0 for one in ended):
        raise children.ChildFailed("spin: " + next(e for e in ended if e.status).last_words())
    told = [[int(word) for word in one.said.split()] for one in ended]
    shares = [lost / took for lost, _, took in told]
    worst = max(range(len(cpus)), key=lambda i: shares[i])
    return Check(when, sum(shares) / len(cpus), cpus[worst], shares[worst],
                 max(longest for _, longest, _ in told) / 1e3, **others)


def verdict(kind, noise):
    """Why a run counts as disturbed, empty if it does not. `noise` has `stalled_share`, what the
    run's own threads noticed, and `steal_share`."""
    lost = max(noise["stalled_share"], noise["steal_share"])
    if lost <= MOST_LOST[kind]:
        return ""
    return f"the machine took {units.percent(lost)} of the CPUs' time"
