# SPDX-License-Identifier: Apache-2.0
"""Reads the histograms of reports (src/metrics/buckets.h has their layout). Pure functions."""

from rubato_lab.program import RubatoError

LAYOUT = "log-linear-64-8"
FINE_BITS, COARSE_BITS, FINE_TOP_BITS = 6, 3, 34
FINE_COUNT = (FINE_TOP_BITS - FINE_BITS + 1) << FINE_BITS


def low_of(index):
    """The smallest value of a bucket."""
    if index < 2 << FINE_BITS:
        return index
    if index < FINE_COUNT:
        shift = (index >> FINE_BITS) - 1
        return (index - (shift << FINE_BITS)) << shift
    coarse = index - FINE_COUNT
    shift = (coarse >> COARSE_BITS) + FINE_TOP_BITS - COARSE_BITS
    within = coarse & ((1 << COARSE_BITS) - 1)
    return (within + (1 << COARSE_BITS)) << shift


def counts_of(histogram):
    """{bucket: count}. Raises RubatoError if the layout is another one."""
    if histogram["layout"] != LAYOUT:
        raise RubatoError(f"a histogram has the layout '{histogram['layout']}', not '{LAYOUT}'")
    pairs = (pair.split(":") for pair in histogram["counts"].split())
    return {int(bucket): int(count) for bucket, count in pairs}


def merged(histograms):
    """{bucket: count} of all of them."""
    total = {}
    for histogram in histograms:
        for bucket, count in counts_of(histogram).items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def ccdf(counts, unit=1000.0):
    """[(value, share of the values beyond it)], where a bucket ends; `unit` values are one."""
    total = sum(counts.values())
    beyond, points = total, []
    for bucket in sorted(counts):
        beyond -= counts[bucket]
        points.append(((low_of(bucket + 1) - 1) / unit, beyond / total))
    return points
