# SPDX-License-Identifier: Apache-2.0
"""Medians, spreads and distributions of repeats. Pure functions over numbers."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """The median of some repeats and how far they lie apart."""

    mid: float
    low: float
    high: float

    @property
    def is_point(self):
        return self.low == self.high


def spread(values):
    """None when there is nothing to summarise."""
    values = [v for v in values if v is not None and math.isfinite(v)]
    if not values:
        return None
    return Spread(median(values), min(values), max(values))


def ratios(numerators, denominators):
    """Ratios of the pairs that ran next to each other, so that a slow minute hits both."""
    pairs = zip(numerators, denominators)
    return [a / b for a, b in pairs if a is not None and b]


def share_beyond(ccdf, value):
    """The share of requests slower than `value`, from points (value, share beyond it)."""
    share = 1.0
    for at, beyond in ccdf:
        if at > value:
            break
        share = beyond
    return share


def value_at(ccdf, share):
    """The smallest value that at most `share` of the requests exceed; None without points."""
    for at, beyond in ccdf:
        if beyond <= share:
            return at
    return ccdf[-1][0] if ccdf else None


def median_ccdf(curves):
    """One curve from several runs: at each share the median of what the runs have there, so that
    value_at() of it is the median of their value_at()."""
    curves = [curve for curve in curves if curve]
    falling = [[-beyond for _, beyond in curve] for curve in curves]
    shares = sorted({beyond for curve in curves for _, beyond in curve}, reverse=True)

    def value_of(i, share):
        first = min(bisect_left(falling[i], -share), len(curves[i]) - 1)
        return curves[i][first][0]

    return [(median(value_of(i, share) for i in range(len(curves))), share) for share in shares]


def thinned(ccdf, per_decade=60):
    """Fewer points for a drawing: at most `per_decade` of them per factor of ten on either axis,
    always with the first and the last one that can be drawn on a logarithmic axis."""
    drawable = [(at, beyond) for at, beyond in ccdf if at > 0 and beyond > 0]
    kept = []
    seen = None
    for at, beyond in drawable:
        cell = (int(math.log10(at) * per_decade), int(-math.log10(beyond) * per_decade))
        if cell != seen:
            kept.append((at, beyond))
        seen = cell
    if drawable and kept[-1] != drawable[-1]:
        kept.append(drawable[-1])
    return kept
