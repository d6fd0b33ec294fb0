# SPDX-License-Identifier: Apache-2.0
"""Runs that isolate the cause of a miss: one thing is changed, and what comes of it is told beside
the claims. Nothing is judged."""

import statistics
from dataclasses import dataclass, replace

from rubato_lab.reproduce.claims import number


@dataclass(frozen=True)
class Probe:
    """What is changed and measured, and what we find: None if a run cannot give it."""

    what: str
    ours: float | None
    unit: str = ""

    @property
    def text(self):
        return number(self.ours, self.unit)


def _joined(group):
    found = [one.ours for one in group]
    return replace(group[0], ours=None if None in found else statistics.median(found))


def of_seeds(found):
    """The probes of several seeds, as one list of medians."""
    return [_joined(group) for group in zip(*found, strict=True)]
