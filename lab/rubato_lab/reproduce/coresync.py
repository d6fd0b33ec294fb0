# SPDX-License-Identifier: Apache-2.0
"""Figures of the CoreSync paper: allocators of cores below capacity, and throughput beyond it."""

from rubato_lab.reproduce import machines
from rubato_lab.reproduce.claims import AT_LEAST, Claim, in_order
from rubato_lab.reproduce.figure import Figure, Line, Panel, Point
from rubato_lab.reproduce.simulator import Scenario, concurrently

WORKERS, COSTS = 16, machines.CORESYNC
EXP10, BIMODAL10 = "exp-10", "fast:2.5us:80,slow:40us:20"
EXP1, BIMODAL1 = "exp-1", "fast:0.25us:80,slow:4us:20"  # the published generator's two modes
USR = "usr"
CAPACITY_RPS = {EXP10: 1.2e6, BIMODAL10: 1.2e6, EXP1: 4e6, BIMODAL1: 4e6, USR: 3.5e6}  # IV-A
TARGET = {EXP10: "80us", BIMODAL10: "80us", EXP1: "45us", BIMODAL1: "45us", USR: "25us"}
# As the published runs, half of which is warm-up: credits take 0.6 s to reach their bound.
WARMUP, WEIGHT = ("--warmup", "0.5"), {EXP10: 2, BIMODAL10: 2, EXP1: 4, BIMODAL1: 4, USR: 4}
LOADS = {"low": 0.2, "medium": 0.5, "high": 0.8}  # IV-A
CURVE = (0.2, 0.35, 0.5, 0.65, 0.8)
BEYOND = {"100 %": 1.0, "130 %": 1.3, "150 %": 1.5}

# Algorithm 1, with the bounds of the published code; and with no more credits than it would leave
# if all cores were in use (16 R + sessions, so 9 a session, or 4 if R is 20), on the scheduler of
# the published scripts.
PRINTED, BOUNDED = "CoreSync", "CoreSync, bounded"
ON_SCRIPTS = ("--cores-set", "pause=off")
ALLOCATORS = {"Shenango": "reactive", "Caladan": "caladan", "Utilization Range": "util-range",
              "Delay Range": "delay-range", PRINTED: "coresync", BOUNDED: "coresync"}
NAMES = tuple(ALLOCATORS)
# As printed, but for the scheduler: where a machine stalls (coresync_more.py).
ON_CALADAN = "CoreSync on Caladan"
ALLOCATORS[ON_CALADAN] = "coresync"

P99 = Panel("p99 latency, us", lambda run: run.latency_us("p99"), None, 1000)
CORES = Panel("share of the cores in use", lambda run: run.elastic["granted_share"], share=True)


def session_limit(most):
    return ("--credits-set", f"session_limit={most}")


def scenario(name, workload=EXP10, sessions=100, r=None, costs=COSTS, arrivals="poisson"):
    more = ON_SCRIPTS if name in (BOUNDED, ON_CALADAN) else ()
    if name == BOUNDED:
        more += session_limit(3 if workload == USR else 8)
    if r is not None and ALLOCATORS[name] == "coresync":
        more += ("--cores-set", f"r={r}")
    return Scenario("steal", WORKERS, workload, costs, weight=WEIGHT[workload],
                    more=("--overload", "credits", "--target-delay", TARGET[workload],
                          "--cores", ALLOCATORS[name], "--guaranteed-cores", "0",
                          "--sessions", str(sessions), "--arrivals", arrivals, *WARMUP, *more))


def at(sim, load, name, workload=EXP10, **more):
    return sim.run(scenario(name, workload, **more), rate_rps=load * CAPACITY_RPS[workload])


def line(label, loads, name, workload=EXP10, **more):
    return Line(label, tuple(Point(load * 100, scenario(name, workload, **more),
                                   rate_rps=load * CAPACITY_RPS[workload]) for load in loads))


def all_at(sim, load, workload, names=NAMES, **more):
    runs = concurrently([lambda n=n: at(sim, load, n, workload, **more) for n in names])
    return dict(zip(names, runs))


def p99(run):
    return run.latency_us("p99")


def cores(run):
    return run.elastic["cores"]


def on_frontier(runs, name, others):
    """Whether none of the others is as good in both latency and cores, and better in one."""
    mine = runs[name]
    return not any(p99(run) <= p99(mine) and cores(run) <= cores(mine) and
                   (p99(run) < p99(mine) or cores(run) < cores(mine))
                   for run in (runs[other] for other in others))


PEERS = NAMES[:4]


def frontier_claims(found, where, mine=(PRINTED, BOUNDED)):
    return [Claim(f"{name}: loads of 3 at which no peer has both lower p99 and fewer cores", where,
                  3, sum(on_frontier(runs, name, PEERS) for runs in found.values()), kind=AT_LEAST)
            for name in mine]


def below(sim, workload, where, ratios, mine=(PRINTED, BOUNDED), **more):
    """`ratios` are (what, peer, load, figure, the paper's number): the peer's over CoreSync's."""
    found = {load: all_at(sim, share, workload, PEERS + mine, **more)
             for load, share in LOADS.items()}
    claims = []
    for what, peer, load, value, paper in ratios:
        for name in mine:
            ours = value(found[load][peer]) / value(found[load][name])
            claims.append(Claim(f"{what} of {peer} over {name}'s, {load} load", where, paper, ours))
    return claims + frontier_claims(found, where, mine)


def _figure(number, title, workload, ratios, words):
    where = f"IV-B, Fig. {number}"
    lines = tuple(line(name, CURVE, name, workload) for name in NAMES)
    suffix = "" if isinstance(number, int) else "b"
    return Figure(f"coresync-{str(number).split()[0]}{suffix}", title,
                  f"CoreSync, Fig. {number}: 16 cores, {words}", "load, % of capacity", lines,
                  (P99, CORES), lambda sim: below(sim, workload, where, ratios))


THIRD = (("p99", "Shenango", "medium", p99, 1.7), ("p99", "Caladan", "medium", p99, 1.16),
         ("cores", "Caladan", "medium", cores, 0.98),
         ("cores", "Utilization Range", "medium", cores, 1.4),
         ("cores", "Delay Range", "medium", cores, 1.2))


def third():
    return _figure(3, "Latency and cores below capacity, exponential, 10 us", EXP10, THIRD,
                   "exponential, 10 us")


def fourth():
    return _figure(4, "Latency and cores below capacity, bimodal, 10 us", BIMODAL10, (
        ("p99", "Shenango", "medium", p99, 1.5), ("p99", "Caladan", "medium", p99, 1.1),
        ("cores", "Utilization Range", "medium", cores, 1.3),
        ("cores", "Delay Range", "medium", cores, 1.2)), "bimodal, 10 us")


def fifth():
    return _figure(5, "Latency and cores below capacity, exponential, 1 us", EXP1, (
        ("p99", "Shenango", "medium", p99, 1.6), ("p99", "Caladan", "medium", p99, 1.3),
        ("cores", "Utilization Range", "medium", cores, 1.1),
        ("cores", "Delay Range", "medium", cores, 1.05)), "exponential, 1 us")


def fifth_bimodal():
    return _figure("5 (b)", "Latency and cores below capacity, bimodal, 1 us", BIMODAL1, (
        ("p99", "Shenango", "medium", p99, 1.7), ("p99", "Caladan", "medium", p99, 1.2),
        ("cores", "Utilization Range", "medium", cores, 1.1),
        ("cores", "Delay Range", "medium", cores, 1.07)), "bimodal, 1 us")


# Table I: throughput over CoreSync's.
TABLE = {"exponential": (EXP10, {"Shenango": (0.942, 0.974, 0.973),
                                 "Caladan": (1.029, 1.007, 0.998),
                                 "Utilization Range": (1.003, 0.988, 0.976),
                                 "Delay Range": (0.979, 0.968, 0.977)}),
         "bimodal": (BIMODAL10, {"Shenango": (0.939, 0.966, 0.975),
                                 "Caladan": (0.991, 0.997, 1.002),
                                 "Utilization Range": (0.974, 0.976, 0.979),
                                 "Delay Range": (0.962, 0.970, 0.976)})}


def beyond(sim, words, workload, rows, where, **more):
    """Throughput of each of `rows` over CoreSync's, at each load of Table I or II."""
    claims = []
    for i, (load, share) in enumerate(BEYOND.items()):
        runs = all_at(sim, share, workload, (*rows, PRINTED), **more)
        for name, numbers in rows.items():
            claims.append(Claim(f"{words}, {load}: {name} over {PRINTED}", where, numbers[i],
                                runs[name].achieved_rps / runs[PRINTED].achieved_rps))
        if rows["Shenango"][i] < 1:
            claims.append(in_order(f"{words}, {load}: throughput, Shenango's first", where,
                                   {name: runs[name].achieved_rps
                                    for name in ("Shenango", PRINTED)}))
    return claims


def _judge_table(sim):
    return [claim for words, (workload, rows) in TABLE.items()
            for claim in beyond(sim, words, workload, rows, "IV-B, Table I")]


def table():
    goodput = Panel("throughput, share of capacity", lambda run: run.achieved_rps /
                    CAPACITY_RPS[EXP10], share=True)
    lines = tuple(line(name, (0.9, 1.0, 1.1, 1.3, 1.5), name) for name in NAMES)
    return Figure("coresync-table-1", "Throughput near and beyond capacity",
                  "CoreSync, Table I, drawn as a Fig.: 16 cores, 10 us", "load, % of capacity",
                  lines, (goodput, P99), _judge_table)


RATIOS = (10, 20, 50, 100)


def _judge_seventh(sim):
    where = "IV-D, Fig. 7"
    claims = []
    for name in (PRINTED, BOUNDED):
        runs = {f"R = {r}": at(sim, LOADS["medium"], name, r=r) for r in RATIOS}
        claims += [
            in_order(f"{name}: p99 at medium load, from the lowest R", where,
                     {label: p99(run) for label, run in runs.items()}),
            in_order(f"{name}: cores at medium load, from the highest R", where,
                     {label: cores(run) for label, run in reversed(runs.items())})]
    return claims


def seventh():
    lines = tuple(line(f"R = {r}", CURVE, BOUNDED, r=r) for r in RATIOS)
    return Figure("coresync-7", "What the proportionality parameter does",
                  "CoreSync, Fig. 7: 16 cores, exponential, 10 us; bounded credits",
                  "load, % of capacity", lines, (P99, CORES), _judge_seventh)


SCALES = {100: 50, 1000: 500, 10_000: 5000}  # IV-D


def _judge_eighth(sim):
    where = "IV-D, Fig. 8"
    claims = []
    for sessions, r in SCALES.items():
        runs = all_at(sim, LOADS["medium"], EXP10,
                      ("Shenango", "Utilization Range", PRINTED, BOUNDED), sessions=sessions, r=r)
        for name in (PRINTED, BOUNDED):
            claims += [
                Claim(f"{sessions} sessions: p99 of Shenango over {name}'s, medium load", where,
                      1.5, p99(runs["Shenango"]) / p99(runs[name])),
                Claim(f"{sessions} sessions: cores of Utilization Range over {name}'s", where,
                      1.4, cores(runs["Utilization Range"]) / cores(runs[name]))]
    full = all_at(sim, BEYOND["100 %"], EXP10, ("Shenango", PRINTED), sessions=10_000, r=5000)
    claims.append(in_order("10000 sessions, 100 % load: throughput, Shenango's first", where,
                           {name: run.achieved_rps for name, run in full.items()}))
    return claims


def eighth():
    lines = tuple(line(f"{name}, {sessions}", CURVE, name, sessions=sessions, r=r)
                  for sessions, r in SCALES.items() for name in ("Shenango", BOUNDED))
    return Figure("coresync-8", "From 100 to 10 000 sessions",
                  "CoreSync, Fig. 8: 16 cores, exponential, 10 us", "load, % of capacity", lines,
                  (P99, CORES), _judge_eighth)


# Not a figure of the paper: what decides where CoreSync lies between Shenango and all cores.
LIMITS = (3, 5, 8, 12, 20, 63)


def _judge_credits(sim):
    runs = {f"{limit} credits": sim.run(_limited(limit), rate_rps=0.5 * CAPACITY_RPS[EXP10])
            for limit in LIMITS}
    return [in_order("cores at medium load, from the fewest credits", "ours",
                     {label: cores(run) for label, run in runs.items()}),
            in_order("p99 at medium load, from the most credits", "ours",
                     {label: p99(run) for label, run in reversed(runs.items())})]


def _limited(limit):
    base = scenario(PRINTED)
    return base.having(more=base.more + session_limit(limit))


def credits():
    lines = tuple(Line(f"{limit} credits", tuple(Point(load * 100, _limited(limit),
                                                       rate_rps=load * CAPACITY_RPS[EXP10])
                                                 for load in CURVE)) for limit in LIMITS)
    return Figure("coresync-credits", "What the credits of a session decide",
                  "CoreSync, Fig. 3 again: R = 50, up to so many credits for each of 100 sessions",
                  "load, % of capacity", lines, (P99, CORES), _judge_credits)


def figures():
    return (third(), fourth(), fifth(), fifth_bimodal(), table(), seventh(), eighth(), credits())
