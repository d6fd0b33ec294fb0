# SPDX-License-Identifier: Apache-2.0
"""Finds what this machine holds: how many items make a scan of the wanted length, and at which
rate the server is half busy. All figures come from closed loops that keep the server busy, so
they count what a request really costs, sockets included."""

from dataclasses import dataclass

FIRST_LIMIT = 500
MIN_LIMIT = 10
# A probe is believed when the cost is within this factor of the wanted one.
GOOD_ENOUGH = 1.1
MAX_PROBES = 4


class CalibrationFailed(Exception):
    """A probe served nothing."""


@dataclass(frozen=True)
class Calibration:
    """What the demo runs with. `capacity_rps` is of the whole mix, on one worker."""

    scan_limit: int
    scan_us: float
    capacity_rps: float
    rate_rps: float


def choose_scan_limit(measure_us, wanted_us, most):
    """Items per scan so that `measure_us(limit)` is about `wanted_us`, and what it was then.
    The cost is nearly linear in the items, so each probe corrects the one before."""
    limit = min(FIRST_LIMIT, most)
    for _ in range(MAX_PROBES):
        cost_us = measure_us(limit)
        if cost_us <= 0:
            raise CalibrationFailed("the scan probe served nothing")
        off_by = wanted_us / cost_us
        following = max(MIN_LIMIT, min(most, round(limit * off_by)))
        if 1 / GOOD_ENOUGH <= off_by <= GOOD_ENOUGH or following == limit:
            return limit, cost_us
        limit = following
    return limit, measure_us(limit)


def rate_for(capacity_rps, utilisation):
    """Rounded down to two significant digits, so that it can be typed again."""
    if capacity_rps <= 0:
        raise CalibrationFailed("the capacity probe served nothing")
    rate = capacity_rps * utilisation
    step = 10 ** (len(str(int(rate))) - 2) if rate >= 100 else 1
    return max(float(int(rate / step) * step), 1.0)
