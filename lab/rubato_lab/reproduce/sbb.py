# SPDX-License-Identifier: Apache-2.0
"""Figures of the SBB paper: two-level load balancing without a central part."""

from rubato_lab.reproduce import machines, slo
from rubato_lab.reproduce.claims import AT_LEAST, AT_MOST, Claim, in_order
from rubato_lab.reproduce.figure import Figure, Panel, loads, over_loads
from rubato_lab.reproduce.simulator import Scenario, concurrently
from rubato_lab.reproduce.slo import Slo

SLO = Slo(50)
SLOWDOWN = Panel("p99.9 slowdown", lambda run: run.slowdown(), (50, "objective: 50"), 1000)
STOLEN = Panel("share of requests stolen", lambda run: stolen(run), share=True)
# The published client's source ports, in rotation; its constant rate is not what the paper says.
FLOWS = "10000:in-turn"
LOADS = loads(0.1, 0.6, 0.05) + (0.62,)

ABLATION = {"without balancing": ("off", "off", "off"), "baseline ts": ("on", "off", "off"),
            "enhanced ts": ("on", "on", "off"), "hybrid": ("on", "on", "on")}


def sbb(workload, workers=16, costs=machines.SBB_SERVER, flows=FLOWS, variant="hybrid", more=()):
    names = ("stealing", "enhanced", "migration")
    return Scenario("sbb", workers, workload, costs, tuple(zip(names, ABLATION[variant])), flows,
                    more=more)


def stolen(run):
    return run.counters["stolen"] / run.report["requests"]


def mrps(run):
    return None if run is None else run.offered_rps / 1e6


def _best(sim, *scenarios, objective=SLO):
    return concurrently([lambda s=s: slo.highest(sim, s, objective) for s in scenarios])


# Fig. 4: a simulation of its own, without prices but for a steal; the flows and their number are
# not told. A few flows, so that the NIC's hash leaves some workers more than others.
FEW, UNEVEN = "128", ("--zipf", "0.9")
FOURTH_LOADS = loads(0.1, 0.9, 0.1) + (0.95,)


def ideal(policy):
    return Scenario(policy, 16, "fixed-1", machines.SBB_SIMULATION, (), FEW, more=UNEVEN)


def ideal_sbb():
    return sbb("fixed-1", costs=machines.SBB_SIMULATION, flows=FEW, more=UNEVEN)


def _judge_fourth(sim):
    where = "3.3, Fig. 4"
    designs = {"Single queue": ideal("cfcfs"), "JBSQ(2)": ideal("jbsq"),
               "Hybrid policy": ideal_sbb(),
               "Task stealing": ideal("steal")}
    runs = dict(zip(designs, concurrently([lambda s=s: sim.run(s, load=0.95)
                                           for s in designs.values()])))
    hybrid, stealing = runs["Hybrid policy"], runs["Task stealing"]
    return [
        in_order("p99.9 slowdown at 95 %, from best to worst", where,
                 {name: run.slowdown() for name, run in runs.items()}),
        Claim("Hybrid: p99.9 slowdown at 95 % over JBSQ(2)'s", where, 1,
              hybrid.slowdown() / runs["JBSQ(2)"].slowdown(),
              remark="the paper: nearly the same"),
        Claim("Hybrid: share of requests stolen, of task stealing's", where, 0.5,
              stolen(hybrid) / stolen(stealing), kind=AT_MOST,
              remark="the paper: largely reduces")]


def fourth():
    lines = (over_loads("Single queue", ideal("cfcfs"), FOURTH_LOADS),
             over_loads("JBSQ(2)", ideal("jbsq"), FOURTH_LOADS),
             over_loads("Task stealing", ideal("steal"), FOURTH_LOADS),
             over_loads("Hybrid policy", ideal_sbb(), FOURTH_LOADS))
    return Figure("sbb-4", "Load balancing with and without a central part",
                  "SBB, Fig. 4: 16 workers, fixed-1, a steal costs 200 ns", "load, % of capacity",
                  lines, (SLOWDOWN, STOLEN), _judge_fourth)


def _judge_eighth(sim):
    where = "6.2, Fig. 8"
    fixed, high, extreme = _best(sim, sbb("fixed-1"), sbb("high-bimodal"), sbb("extreme-bimodal"))
    return [Claim("Fixed(1): throughput within slowdown 50", where, 9.7, mrps(fixed), "Mrps"),
            Claim("High-Bimodal: throughput within slowdown 50", where, 0.26, mrps(high), "Mrps"),
            Claim("Extreme-Bimodal: throughput within slowdown 50", where, 3.4, mrps(extreme),
                  "Mrps")]


def eighth():
    lines = tuple(over_loads(name, sbb(name), loads(0.1, 0.95, 0.05))
                  for name in ("fixed-1", "high-bimodal", "extreme-bimodal"))
    return Figure("sbb-8", "SBB under three workloads", "SBB, Fig. 8: 16 workers",
                  "load, % of capacity", lines, (SLOWDOWN,), _judge_eighth,
                  ("Shinjuku", "Concord", "TQ"))


SCALES = (16, 32, 48)


def _judge_eleventh(sim):
    where = "6.4, Fig. 11"
    cases = [(w, n) for w in ("fixed-1", "high-bimodal", "extreme-bimodal") for n in SCALES]
    found = dict(zip(cases, map(mrps, _best(sim, *(sbb(w, n) for w, n in cases)))))

    def times(workload, workers):
        base, more = found[workload, 16], found[workload, workers]
        return more / base if base and more else None
    return [Claim("Fixed(1): 32 workers over 16", where, 2, times("fixed-1", 32)),
            Claim("Fixed(1): 48 workers over 16", where, 2.8, times("fixed-1", 48)),
            Claim("High-Bimodal: 32 workers over 16", where, 2, times("high-bimodal", 32)),
            Claim("Extreme-Bimodal: 32 workers over 16", where, 2, times("extreme-bimodal", 32)),
            Claim("Extreme-Bimodal: 48 workers over 16", where, 2 * 1.35,
                  times("extreme-bimodal", 48), kind=AT_LEAST)]


def eleventh():
    lines = tuple(over_loads(f"{workers} workers", sbb("fixed-1", workers), LOADS)
                  for workers in SCALES)
    return Figure("sbb-11", "SBB on more workers", "SBB, Fig. 11 (a): Fixed(1)",
                  "load, % of capacity", lines, (SLOWDOWN,), _judge_eleventh)


# Fig. 13, on few flows: on its ten thousand the hash spreads evenly, and nothing persists.
def uneven(variant):
    return sbb("fixed-1", flows=FEW, variant=variant, more=UNEVEN)


def _judge_thirteenth(sim):
    where = "6.5, Fig. 13"
    best = dict(zip(ABLATION, map(mrps, _best(sim, *map(uneven, ABLATION)))))
    base, enhanced = best["baseline ts"], best["enhanced ts"]
    return [in_order("order of throughput within slowdown 50", where,
                     {name: rate or 0 for name, rate in best.items()}),
            Claim("enhanced ts over baseline ts", where, 1.3,
                  enhanced / base if base and enhanced else None,
                  remark="here a steal costs its thief, who was idle, and not its victim")]


def thirteenth():
    lines = tuple(over_loads(v, uneven(v), LOADS) for v in ABLATION)
    return Figure("sbb-13", "What each part of the load balancing brings",
                  "SBB, Fig. 13: 16 workers, Fixed(1)", "load, % of capacity", lines,
                  (SLOWDOWN, STOLEN), _judge_thirteenth)


def figures():
    return (fourth(), eighth(), eleventh(), thirteenth())
