# SPDX-License-Identifier: Apache-2.0
"""How many seeds a point needs. What is decided depends on the figures of the first seeds alone,
not on the order in which they came, so that a resumed sweep decides the same. Pure."""

import math
from statistics import NormalDist, fmean, stdev

# Student's t, 97.5 %, of 1 to 10 degrees of freedom.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def quantile(freedom):
    """Of Student's t at 97.5 %: the table, then the expansion of Cornish and Fisher."""
    if freedom <= len(T):
        return T[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    return (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2))


def half_width(values):
    """Half of the 95 % interval of their mean; None of fewer than two."""
    if len(values) < 2:
        return None
    return quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def wanted(seeds, figures):
    """How many seeds the point needs, as far as `figures` {seed: value} tell: first `least`, then
    what the interval asks for, at most twice as many each time."""
    count = seeds.least
    while count < seeds.most and seeds.metric is not None:
        known = [figures.get(seed) for seed in range(seeds.first, seeds.first + count)]
        if None in known:
            return count
        allowed = seeds.share * abs(fmean(known))
        width = half_width(known)
        if width <= allowed:
            return count
        needed = math.ceil(count * (width / allowed) ** 2) if allowed > 0 else 2 * count
        count = min(max(count + 1, needed), 2 * count, seeds.most)
    return count
