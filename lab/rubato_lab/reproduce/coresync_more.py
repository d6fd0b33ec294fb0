# SPDX-License-Identifier: Apache-2.0
"""Further figures of the CoreSync paper: Memcached (Fig. 6, Table II), and Fig. 3 and Table I on a
machine that stalls and with requests that come in bursts, of which the paper says nothing: what it
takes to find its ratios."""

from rubato_lab.reproduce import machines
from rubato_lab.reproduce.claims import AT_LEAST, Claim
from rubato_lab.reproduce.coresync import (BOUNDED, CAPACITY_RPS, CORES, CURVE, EXP10, LOADS, NAMES,
                                           ON_CALADAN, P99, PEERS, PRINTED, TABLE, THIRD, USR,
                                           all_at, below, beyond, frontier_claims, line, p99)
from rubato_lab.reproduce.figure import Figure, Panel

MEMCACHED = {"r": 20, "costs": machines.CORESYNC_MEMCACHED}  # R: IV-A
BEST_EFFORT = Panel("share of the cores for best-effort work",
                    lambda run: run.elastic["best_effort_share"], share=True)


def best_effort(run):
    return run.elastic["best_effort_share"]


def _judge_sixth(sim):
    where = "IV-C, Fig. 6"
    found = {load: all_at(sim, share, USR, **MEMCACHED) for load, share in LOADS.items()}
    claims = []
    for name in (PRINTED, BOUNDED):
        claims += [
            Claim(f"greatest p99 of a peer over {name}'s, any load", where, 1.6,
                  max(p99(runs[peer]) / p99(runs[name])
                      for runs in found.values() for peer in PEERS)),
            # "At high loads, CoreSync favors latency over BE throughput."
            Claim(f"greatest best-effort share of {name} over a peer's, low and medium load", where,
                  1.2, max(best_effort(found[load][name]) / best_effort(found[load][peer])
                           for load in ("low", "medium") for peer in PEERS))]
    return claims + frontier_claims(found, where)


def sixth():
    lines = tuple(line(name, CURVE, name, USR, **MEMCACHED) for name in NAMES)
    return Figure("coresync-6", "Latency and best-effort work below capacity, Memcached USR",
                  "CoreSync, Fig. 6: 16 cores, nearly constant 1 us", "load, % of capacity", lines,
                  (P99, BEST_EFFORT), _judge_sixth)


# Table II: throughput over CoreSync's.
SECOND_TABLE = {"Shenango": (1.019, 0.997, 0.999), "Caladan": (1.002, 1.001, 1.004),
                "Utilization Range": (1.006, 0.986, 0.995), "Delay Range": (0.986, 0.965, 0.984)}


def second_table():
    goodput = Panel("throughput, share of capacity",
                    lambda run: run.achieved_rps / CAPACITY_RPS[USR], share=True)
    lines = tuple(line(name, (0.9, 1.0, 1.1, 1.3, 1.5), name, USR, **MEMCACHED) for name in NAMES)
    return Figure("coresync-table-2", "Throughput near and beyond capacity, Memcached USR",
                  "CoreSync, Table II, drawn as a Fig.: 16 cores", "load, % of capacity", lines,
                  (goodput, P99), lambda sim: beyond(sim, "USR", USR, SECOND_TABLE,
                                                     "IV-C, Table II", **MEMCACHED))


STALLS = {"costs": machines.CORESYNC_STALLS}
MINE = (PRINTED, ON_CALADAN)


def _judge_stalls(sim):
    claims = below(sim, EXP10, "IV-B, Fig. 3", THIRD, MINE, **STALLS)
    quiet = all_at(sim, LOADS["medium"], EXP10, (PRINTED,))[PRINTED]
    stalled = all_at(sim, LOADS["medium"], EXP10, (PRINTED,), **STALLS)[PRINTED]
    claims.append(Claim("CoreSync: credits without stalls over those with, medium load", "ours", 2,
                        quiet.elastic["credits"]["total"] / stalled.elastic["credits"]["total"],
                        kind=AT_LEAST))
    return claims + beyond(sim, "exponential", EXP10, TABLE["exponential"][1], "IV-B, Table I",
                           **STALLS)


def stalls():
    lines = tuple(line(name, CURVE, name, EXP10, **STALLS) for name in PEERS + MINE)
    return Figure("coresync-stalls", "Fig. 3 and Table I on a machine that stalls",
                  "CoreSync, Fig. 3 again: all cores stand still for 150 us, 50 times a second",
                  "load, % of capacity", lines, (P99, CORES), _judge_stalls)


# "Requests are generated following an open-loop Poisson arrival process" (IV-A). What a NIC, a
# generator that wakes up late, and a network stack make of that, the server sees.
BURSTS = {"arrivals": "batch:3"}


def bursts():
    lines = tuple(line(name, CURVE, name, EXP10, **BURSTS) for name in NAMES)
    return Figure("coresync-bursts", "Fig. 3 with requests that come in threes",
                  "CoreSync, Fig. 3 again: requests come in batches of 3 on average",
                  "load, % of capacity", lines, (P99, CORES),
                  lambda sim: below(sim, EXP10, "IV-B, Fig. 3", THIRD, **BURSTS))


def figures():
    return (sixth(), second_table(), stalls(), bursts())
