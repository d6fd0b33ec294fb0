# SPDX-License-Identifier: Apache-2.0
"""The CoreSync paper near and beyond capacity (Tables I and II, II-B), and Memcached (Fig. 6)."""

from rubato_lab.reproduce import machines
from rubato_lab.reproduce.claims import AT_MOST, bound, ratio
from rubato_lab.reproduce.coresync import (BIMODAL10, CORES, CURVE, EXP10, LOADS, MINE, NAMES, P99,
                                           PEERS, USR, all_at, cores, frontier, line, p99, scenario)
from rubato_lab.reproduce.figure import Figure, Line, Panel, Point
from rubato_lab.reproduce.simulator import concurrently

# The published scripts' 100, 130 and 150 %: of 1.3 and of 3.3 million, not of the text's 1.2 and
# 3.5.
BEYOND = {"100 %": 1.0, "130 %": 1.3, "150 %": 1.5}
SCRIPTS_RPS = {EXP10: 1.3e6, BIMODAL10: 1.3e6, USR: 3.3e6}
MEMCACHED = {"r": 20, "costs": machines.CORESYNC_MEMCACHED}  # R: IV-A

# Tables I and II: throughput over CoreSync's.
TABLE = {"exponential": (EXP10, {"Shenango": (0.942, 0.974, 0.973),
                                 "Caladan": (1.029, 1.007, 0.998),
                                 "Utilization Range": (1.003, 0.988, 0.976),
                                 "Delay Range": (0.979, 0.968, 0.977)}),
         "bimodal": (BIMODAL10, {"Shenango": (0.939, 0.966, 0.975),
                                 "Caladan": (0.991, 0.997, 1.002),
                                 "Utilization Range": (0.974, 0.976, 0.979),
                                 "Delay Range": (0.962, 0.970, 0.976)})}
SECOND_TABLE = {"USR": (USR, {"Shenango": (1.019, 0.997, 0.999), "Caladan": (1.002, 1.001, 1.004),
                              "Utilization Range": (1.006, 0.986, 0.995),
                              "Delay Range": (0.986, 0.965, 0.984)})}


# The scheduler that the published scripts (section_4B) run a system on places its threads.
ON_SIMPLE = ("Shenango", "Utilization Range", "Delay Range")
FITTED = "coresync-testbed, slowdown of siblings"
# Beyond capacity it alone decides on the packed systems.
FITTED_LOADS = ("130 %", "150 %")


def placed(name, workload):
    """On a machine with siblings."""
    costs = machines.CORESYNC_PACKED if name in ON_SIMPLE else machines.CORESYNC_SPREAD
    return scenario(name, workload, costs=costs)


def _all_beyond(sim, workload, share, make=scenario, **more):
    runs = concurrently([lambda n=n: sim.run(make(n, workload, **more),
                                             rate_rps=share * SCRIPTS_RPS[workload])
                         for n in NAMES])
    return dict(zip(NAMES, runs))


def fitted_to(name, load):
    """The prices that were fitted to that number of Table I; "" = none."""
    return FITTED if name in ON_SIMPLE and load in FITTED_LOADS else ""


def beyond(sim, table, where, fitted=lambda name, load: "", **more):
    """`fitted` has words by system and load."""
    claims, tails = [], []
    for words, (workload, rows) in table.items():
        for i, (load, share) in enumerate(BEYOND.items()):
            found = _all_beyond(sim, workload, share, **more)
            mine = found[MINE].achieved_rps
            claims += [ratio(f"{words}, {load}: {name} over CoreSync", where, numbers[i],
                             found[name].achieved_rps / mine, fitted=fitted(name, load))
                       for name, numbers in rows.items()]
            each = [p99(run) for run in found.values()]
            tails.append(max(each) / min(each))
    return claims + [bound("p99: most over least system, greatest of all loads", "IV-A", AT_MOST,
                           1.03, max(tails), null=1.0)]


def _goodput_lines(workload, make=scenario, **more):
    return tuple(Line(name, tuple(Point(load * 100, make(name, workload, **more),
                                        rate_rps=load * SCRIPTS_RPS[workload])
                                  for load in (0.9, 1.0, 1.1, 1.3, 1.5))) for name in NAMES)


def _goodput(workload):
    return Panel("throughput, share of 100 %",
                 lambda run: run.achieved_rps / SCRIPTS_RPS[workload], share=True)


NOISE = ("tolerance", "the effects are some per cent and less: half of 0.002 is 0.001, which no "
         "run of some seconds resolves")


SIBLINGS = ("siblings", "the 16 workers share cores with a sibling each; the published scripts run "
            "Shenango and the ranges on a scheduler that fills cores, CoreSync and Caladan on one "
            "that spreads threads, so that two of sixteen have a core of their own. The slowdown "
            "of 120 % beside a busy sibling was chosen for the packed systems' 150 % column. "
            "Beyond capacity it alone decides, so that their 130 % column is not judged either. "
            "What a request costs beside its service was chosen for the capacity at 10 us alone: "
            "with 1 us this machine serves 6.2 Mrps, where the paper says 4 and coresync-testbed, "
            "without siblings, serves 3.8. Both capacities and this slowdown fit no one price. "
            "In Table II, where CoreSync runs on the first scheduler, too, there is no such "
            "difference.")


def table():
    return Figure("coresync-table-1", "Throughput near and beyond capacity",
                  "CoreSync, Table I, drawn as a Fig.: 16 cores, 10 us", "load, % of 1.3 Mrps",
                  _goodput_lines(EXP10, placed), (_goodput(EXP10), P99),
                  lambda sim: beyond(sim, TABLE, "IV-B, Table I", fitted_to, make=placed),
                  notes=(NOISE, SIBLINGS))


def second_table():
    return Figure("coresync-table-2", "Throughput near and beyond capacity, Memcached USR",
                  "CoreSync, Table II, drawn as a Fig.: 16 cores", "load, % of 3.3 Mrps",
                  _goodput_lines(USR, **MEMCACHED), (_goodput(USR), P99),
                  lambda sim: beyond(sim, SECOND_TABLE, "IV-C, Table II", **MEMCACHED),
                  notes=(NOISE,))


# II-B: what a smaller target delay does, and proactive allocators beside reactive ones.

def _judge_tradeoffs(sim):
    where = "II-B"
    delays = ("80us", "40us")

    def run(delay, share):
        base = scenario("Caladan")
        words = tuple(delay if word == "80us" else word for word in base.more)
        return sim.run(base.having(more=words), rate_rps=share * SCRIPTS_RPS[EXP10])
    runs = {(delay, share): run(delay, share) for delay in delays for share in BEYOND.values()}
    achieved = [runs["40us", share].achieved_rps / runs["80us", share].achieved_rps
                for share in BEYOND.values()]
    tails = [p99(runs["40us", share]) / p99(runs["80us", share]) for share in BEYOND.values()]
    found = _all_beyond(sim, EXP10, 1.3)
    worse = found["Utilization Range"].achieved_rps / found["Caladan"].achieved_rps
    return [ratio("target 40 us over 80 us: throughput, least", where, 0.9, min(achieved)),
            ratio("target 40 us over 80 us: p99, least", where, 0.7, min(tails)),
            ratio("target 40 us over 80 us: p99, greatest", where, 0.8, max(tails)),
            ratio("Utilization Range over Caladan: throughput at 130 %", where, 0.97, worse)]


def tradeoffs():
    return Figure("coresync-tradeoffs", "Targets, and proactive allocators", "CoreSync, II-B: 16 "
                  "cores, exponential, 10 us, no Fig.", "", (), (), _judge_tradeoffs, notes=(
                      ("loads", "the text says \"at high loads\" and \"2-4 % worse\": 100, 130 and "
                       "150 %, and 3 % at 130 %, are our reading"),))


# Fig. 6: Memcached and best-effort work.

BEST_EFFORT = Panel("share of the cores for best-effort work",
                    lambda run: run.elastic["best_effort_share"], share=True)


def best_effort(run):
    return run.elastic["best_effort_share"]


def _judge_sixth(sim):
    where = "IV-C, Fig. 6"
    found = {load: all_at(sim, share, USR, **MEMCACHED) for load, share in LOADS.items()}
    return [
        ratio("p99: a peer over CoreSync, greatest of peers and loads", where, 1.6,
              max(p99(runs[peer]) / p99(runs[MINE]) for runs in found.values()
                  for peer in PEERS)),
        # "At high loads, CoreSync favors latency over BE throughput."
        ratio("best-effort share: CoreSync over a peer, greatest at low and medium load", where,
              1.2, max(best_effort(found[load][MINE]) / best_effort(found[load][peer])
                       for load in ("low", "medium") for peer in PEERS)),
        frontier(found, where)]


def sixth():
    lines = tuple(line(name, CURVE, name, USR, **MEMCACHED) for name in NAMES)
    return Figure("coresync-6", "Latency and best-effort work below capacity, Memcached USR",
                  "CoreSync, Fig. 6: 16 cores, nearly constant 1 us", "load, % of capacity", lines,
                  (P99, BEST_EFFORT), _judge_sixth, notes=(
                      ("best-effort share", "a share of 16 cores, in the paper square roots per "
                       "second; Caladan's controllers of hyperthreads and memory bandwidth are not "
                       "modelled. The published run also had all 16 cores guaranteed."),))


def figures():
    return (sixth(), table(), second_table(), tradeoffs())
