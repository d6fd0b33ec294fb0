# SPDX-License-Identifier: Apache-2.0
"""Spins on one CPU and tells how often it was taken away: `spin.py CPU SECONDS` prints the
nanoseconds lost, the longest gap and the time it took. Run as a program of its own."""

import gc
import os
import sys
import time

# As src/load/stalls.h: shorter gaps are no stalls.
FLOOR_NS = 200_000


def spin(seconds):
    clock = time.perf_counter_ns
    lost = longest = 0
    started = last = clock()
    end = started + int(seconds * 1e9)
    while last < end:
        at = clock()
        gap = at - last
        if gap > FLOOR_NS:
            lost += gap
            longest = max(longest, gap)
        last = at
    return lost, longest, last - started


if __name__ == "__main__":
    gc.disable()
    os.sched_setaffinity(0, {int(sys.argv[1])})
    print(*spin(float(sys.argv[2])), file=sys.stderr)
