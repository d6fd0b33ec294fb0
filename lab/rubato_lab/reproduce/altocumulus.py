# SPDX-License-Identifier: Apache-2.0
"""Figures of the Altocumulus paper: groups of cores that migrate requests."""

from rubato_lab.reproduce import machines, slo
from rubato_lab.reproduce.claims import AT_LEAST, AT_MOST, Claim, in_order
from rubato_lab.reproduce.figure import Figure, Line, Panel, Point, loads, over_loads
from rubato_lab.reproduce.simulator import Scenario, concurrently
from rubato_lab.reproduce.slo import Slo

LATENCY = Panel("p99 latency, us", lambda run: run.latency_us("p99"), (300, "objective: 300 us"),
                3000)
LOADS = loads(0.05, 0.95, 0.05)
WEIGHT = 3  # see synergy.WEIGHTS
# Sixteen cores are fifteen workers and a manager; in the other systems all sixteen work.
CORES, WORKERS = 16, 15
SLO = Slo(latency_us=300, percentile="p99")


def hardware(policy, workers=CORES, workload="extreme-bimodal", costs=machines.AC_INT, **settings):
    return Scenario(policy, workers, workload, costs, tuple(settings.items()), weight=WEIGHT)


AC_RSS = hardware("altocumulus", WORKERS, costs=machines.AC_RSS)
SYSTEMS = {
    "IX": hardware("fcfs", costs=machines.AC_SOFTWARE),
    "ZygOS": hardware("zygos", costs=machines.AC_SOFTWARE),
    "Shinjuku": hardware("ps", WORKERS, costs=machines.AC_CENTRAL, quantum="5us"),
    "Nebula": hardware("nebula", costs="nebula"),
    "AC_rss": AC_RSS,
    "nanoPU": hardware("nanopu", costs="nanopu"),
}


def mrps(run):
    return None if run is None else run.offered_rps / 1e6


def _ratio(a, b):
    return a / b if a and b else None


def _judge_tenth(sim):
    where = "VIII-A, Fig. 10"
    best = dict(zip(SYSTEMS, map(mrps, concurrently(
        [lambda s=s: slo.highest(sim, s, SLO) for s in SYSTEMS.values()]))))
    low = concurrently([lambda s=s: sim.run(s, load=0.3)
                        for s in (SYSTEMS["Nebula"], SYSTEMS["Shinjuku"])])
    return [in_order("order of throughput within 300 us", where,
                     {name: rate or 0 for name, rate in best.items()}),
            Claim("Shinjuku over ZygOS: throughput", where, 5,
                  _ratio(best["Shinjuku"], best["ZygOS"]), kind=AT_MOST),
            Claim("Nebula over Shinjuku: throughput", where, 3.9,
                  _ratio(best["Nebula"], best["Shinjuku"])),
            Claim("AC_rss over ZygOS: throughput", where, 24.6,
                  _ratio(best["AC_rss"], best["ZygOS"])),
            Claim("AC_rss over Nebula: throughput", where, 1.05,
                  _ratio(best["AC_rss"], best["Nebula"])),
            Claim("AC_rss over nanoPU: throughput", where, 0.925,
                  _ratio(best["AC_rss"], best["nanoPU"])),
            Claim("Nebula over Shinjuku: p99 at 30 %", where, 4.7,
                  _ratio(low[0].latency_us("p99"), low[1].latency_us("p99")), kind=AT_MOST)]


def tenth():
    return Figure("altocumulus-10", "Altocumulus beside its peers",
                  "Altocumulus, Fig. 10: 16 cores, extreme-bimodal, p99 within 300 us",
                  "load, % of capacity",
                  tuple(over_loads(name, s, LOADS) for name, s in SYSTEMS.items()), (LATENCY,),
                  _judge_tenth)


# Fig. 11: 256 cores in 16 groups; mean service 630 ns, objective ten times that.
SCALE, MEAN = 240, "all:exp(630ns):100"
OBJECTIVE_US = 6.3
BULKS, PERIODS_NS = (8, 16, 24, 40), (10, 40, 100, 200, 400, 1000)


def many(**settings):
    # Few flows: RSS then leaves some groups with more than their share.
    return Scenario("altocumulus", SCALE, MEAN, machines.AC_RSS, tuple(settings.items()), "4096")


def _judge_eleventh(sim):
    where = "VIII-C, Fig. 11"
    p99 = lambda run: run.latency_us("p99")
    off, bulk16, bulk40, slow, *short = (p99(run) for run in concurrently(
        [lambda s=s: sim.run(s, load=0.9) for s in
         (many(migrate="off"), many(bulk="16"), many(bulk="40"), many(period="1000ns"),
          many(period="10ns"), many(period="100ns"), many(period="400ns"))]))
    return [Claim("Bulk 16: p99 within the objective of 6.3 us", where, OBJECTIVE_US, bulk16, "us",
                  kind=AT_MOST),
            Claim("without migration: p99 over that with Bulk 16", where, 1, off / bulk16,
                  kind=AT_LEAST),
            Claim("Bulk 40 over Bulk 16: p99", where, 1, bulk40 / bulk16, kind=AT_LEAST),
            Claim("p99 with periods of 10 to 400 ns: highest over lowest", where, 1,
                  max(short) / min(short)),
            Claim("period 1000 ns over 200 ns: p99", where, 1, slow / bulk16, kind=AT_LEAST)]


def eleventh():
    by_bulk = Line("Bulk (Period 200 ns)",
                   tuple(Point(bulk, many(bulk=str(bulk)), load=0.9) for bulk in BULKS))
    by_period = Line("Period in ns (Bulk 16)",
                     tuple(Point(ns, many(period=f"{ns}ns"), load=0.9) for ns in PERIODS_NS))
    panel = Panel("p99 latency, us", lambda run: run.latency_us("p99"),
                  (OBJECTIVE_US, "objective: 6.3 us"))
    return Figure("altocumulus-11", "How much and how often to migrate",
                  "Altocumulus, Fig. 11: 16 groups of 15 workers, 630 ns", "requests, or ns",
                  (by_bulk, by_period), (panel,), _judge_eleventh)


# Fig. 13 (a): a fixed 850 ns (the eRPC stack), objective ten times the mean.
SCALES = (15, 60, 120, 240)
SLO_850 = Slo(latency_us=8.5, percentile="p99")


def fixed(policy, workers, **settings):
    return Scenario(policy, workers, "fixed-850ns", machines.AC_INT, tuple(settings.items()))


def _judge_thirteenth(sim):
    where = "IX-C, Fig. 13 (a)"
    found = [mrps(run) for run in concurrently(
        [lambda w=w: slo.highest(sim, fixed("altocumulus", w), SLO_850) for w in SCALES])]
    claims = [Claim(f"AC_int: {workers} workers over 15, per worker", where, 1,
                    _ratio(rate, found[0]) * 15 / workers if rate and found[0] else None)
              for workers, rate in zip(SCALES[1:], found[1:])]
    rss, = concurrently([lambda: slo.highest(sim, fixed("fcfs", 240), SLO_850)])
    claims.append(Claim("AC_int over RSS on 240 workers", where, 1, _ratio(found[-1], mrps(rss)),
                        kind=AT_LEAST))
    return claims


def thirteenth():
    panel = Panel("p99 latency, us", lambda run: run.latency_us("p99"),
                  (8.5, "objective: 8.5 us"), 100)
    lines = tuple(over_loads(f"AC_int, {w} workers", fixed("altocumulus", w), LOADS)
                  for w in SCALES)
    return Figure("altocumulus-13", "Altocumulus on more cores",
                  "Altocumulus, Fig. 13 (a): 850 ns, Poisson arrivals", "load, % of capacity",
                  lines, (panel,), _judge_thirteenth)


def figures():
    return (tenth(), eleventh(), thirteenth())
