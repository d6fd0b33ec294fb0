# SPDX-License-Identifier: Apache-2.0
"""The CPUs that this process may use, the cores and packages they belong to, and who runs where."""

from collections import Counter
from dataclasses import dataclass

from rubato_lab import machine

# The runtime's own limit (src/base/limits.h).
MOST_WORKERS = 256
# More workers than the largest power of two are worth a point of their own from here on.
WORTH_A_POINT = 1.25


@dataclass(frozen=True)
class Cpu:
    """`core` is the lowest number among the hyper-threads of its core."""

    number: int
    core: int
    package: int


@dataclass(frozen=True)
class Place:
    """CPUs of the workers and of who sends to them. `shares_cores`: two of them are hyper-threads
    of one core."""

    server: tuple
    load: tuple
    shares_cores: bool

    @property
    def cpus(self):
        return self.server + self.load


def read(allowed, root=machine.CPUS):
    return [Cpu(n, min(machine.siblings_of(n, root)), machine.package_of(n, root))
            for n in sorted(allowed)]


def in_order(cpus):
    """One CPU of each core, package after package; then the second of each core, and so on."""
    seen = Counter()
    ranks = {}
    for cpu in sorted(cpus, key=lambda c: c.number):
        ranks[cpu] = seen[cpu.core]
        seen[cpu.core] += 1
    return sorted(cpus, key=lambda c: (ranks[c], c.package, c.number))


def cores(cpus):
    return len({cpu.core for cpu in cpus})


def packages(cpus):
    return len({cpu.package for cpu in cpus})


def _numbers(cpus):
    return tuple(sorted(cpu.number for cpu in cpus))


def beside_generators(ordered, workers, generators):
    """Workers on the first CPUs, generators on the next."""
    taken = ordered[:workers + generators]
    return Place(_numbers(taken[:workers]), _numbers(taken[workers:]), cores(taken) < len(taken))


def beside_sender(ordered, workers):
    """The sender of `rubato fidelity` takes the lowest CPU that it may use."""
    taken = ordered[:workers + 1]
    numbers = _numbers(taken)
    return Place(numbers[1:], numbers[:1], cores(taken) < len(taken))


def generators_for(workers, workers_per_generator):
    return -(-workers // workers_per_generator)


def most_workers(cpus, workers_per_generator):
    """How many workers fit on so many CPUs beside their generators; 0 = not one."""
    most = 0
    while (most < MOST_WORKERS
           and most + 1 + generators_for(most + 1, workers_per_generator) <= cpus):
        most += 1
    return most


def worker_counts(most):
    """1, 2, 4, ... and `most`, where that is more than a little beyond the last of these."""
    counts = []
    power = 1
    while power <= most:
        counts.append(power)
        power *= 2
    if counts and most > counts[-1] * WORTH_A_POINT:
        counts.append(most)
    return counts


def thinned(counts, most):
    """At most so many of them, the first and the last included."""
    if len(counts) <= most:
        return counts
    return [counts[round(i * (len(counts) - 1) / (most - 1))] for i in range(most)]
