# SPDX-License-Identifier: Apache-2.0
"""Figures of the CoreSync paper below capacity: allocators of cores, latency and cores."""

from rubato_lab.reproduce import machines
from rubato_lab.reproduce.claims import AT_LEAST, AT_MOST, bound, in_order, ratio, same
from rubato_lab.reproduce.figure import Figure, Line, Panel, Point
from rubato_lab.reproduce.probes import Probe
from rubato_lab.reproduce.simulator import Scenario, concurrently

WORKERS, COSTS = 16, machines.CORESYNC_PUBLISHED
EXP10, BIMODAL10 = "exp-10", "fast:2.5us:80,slow:40us:20"
EXP1, BIMODAL1 = "exp-1", "fast:0.25us:80,slow:4us:20"  # the published generator's two modes
USR = "usr"
CAPACITY_RPS = {EXP10: 1.2e6, BIMODAL10: 1.2e6, EXP1: 4e6, BIMODAL1: 4e6, USR: 3.5e6}  # IV-A
TARGET = {EXP10: "80us", BIMODAL10: "80us", EXP1: "45us", BIMODAL1: "45us", USR: "25us"}
# As the published runs, half of which is warm-up: credits take 0.6 s to reach their bound.
WARMUP, WEIGHT = ("--warmup", "0.5"), {EXP10: 2, BIMODAL10: 2, EXP1: 4, BIMODAL1: 4, USR: 4}
LOADS = {"low": 0.2, "medium": 0.5, "high": 0.8}  # IV-A
CURVE = (0.2, 0.35, 0.5, 0.65, 0.8)

MINE = "CoreSync"
ALLOCATORS = {"Shenango": "reactive", "Caladan": "caladan", "Utilization Range": "util-range",
              "Delay Range": "delay-range", MINE: "coresync"}
NAMES = tuple(ALLOCATORS)
PEERS = NAMES[:4]
# The published scripts run it on Caladan's scheduler, but for Memcached on Shenango's.
ON_CALADAN = ("--cores-set", "pause=off")
# The published ranges have no trigger for single requests, and pause.
AS_PUBLISHED = ("--cores-set", "threshold=0us", "--cores-set", "pause=on")

P99 = Panel("p99 latency, us", lambda run: run.latency_us("p99"), None, 1000)
CORES = Panel("share of the cores in use", lambda run: run.elastic["granted_share"], share=True)


def scenario(name, workload=EXP10, sessions=100, r=None, costs=COSTS, more=()):
    if name == MINE:
        more += ON_CALADAN if workload != USR else ()
        more += ("--cores-set", f"r={r}") if r is not None else ()
    if name in ("Utilization Range", "Delay Range"):
        more += AS_PUBLISHED
    return Scenario("steal", WORKERS, workload, costs, weight=WEIGHT[workload],
                    more=("--overload", "credits", "--target-delay", TARGET[workload],
                          "--cores", ALLOCATORS[name], "--guaranteed-cores", "0",
                          "--sessions", str(sessions), *WARMUP, *more))


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


def values(what, runs):
    return {name: what(run) for name, run in runs.items()}


def on_frontier(runs, name=MINE):
    """Whether no other is as good as this system in both latency and cores, and better in one."""
    mine = runs[name]
    return not any(p99(run) <= p99(mine) and cores(run) <= cores(mine) and
                   (p99(run) < p99(mine) or cores(run) < cores(mine)) for run in runs.values())


def frontier(found, where):
    """Were all equal, none would be better than CoreSync."""
    return bound("loads of 3 at which no peer has both lower p99 and fewer cores", where, AT_LEAST,
                 3, sum(map(on_frontier, found.values())), null=3)


def below(sim, workload, where, ratios_at_medium, further=lambda found, where: [], **more):
    """`ratios_at_medium` are (what, peer, figure, the paper's number): the peer's over
    CoreSync's."""
    found = {load: all_at(sim, share, workload, **more) for load, share in LOADS.items()}
    medium = found["medium"]
    return [*(ratio(f"{what}: {peer} over CoreSync, medium load", where, said,
                    value(medium[peer]) / value(medium[MINE]))
              for what, peer, value, said in ratios_at_medium),
            *further(found, where), frontier(found, where)]


def _figure(number, title, workload, said, words, further=lambda found, where: [],
            probe=lambda sim: (), notes=()):
    where = f"IV-B, Fig. {number}"
    lines = tuple(line(name, CURVE, name, workload) for name in NAMES)
    suffix = "" if isinstance(number, int) else "b"
    return Figure(f"coresync-{str(number).split()[0]}{suffix}", title,
                  f"CoreSync, Fig. {number}: 16 cores, {words}", "load, % of capacity", lines,
                  (P99, CORES), lambda sim: below(sim, workload, where, said, further), probe,
                  notes=notes)


def _third_further(found, where):
    delay = [p99(runs["Delay Range"]) / p99(runs[MINE]) for runs in found.values()]
    medium = found["medium"]
    rates = [[run.achieved_rps for run in runs.values()] for runs in found.values()]
    kept = {name: sum(on_frontier(runs, name) for runs in found.values())
            for name in ("Caladan", "Delay Range")}
    return [bound("throughput: most over least system, greatest of three loads", "IV-A", AT_MOST,
                  1.01, max(max(each) / min(each) for each in rates), null=1.0),
            bound("loads of 3 at which nobody has both lower p99 and fewer cores than Caladan",
                  where, AT_LEAST, 3, kept["Caladan"], null=3),
            bound("loads of 3 at which nobody has both lower p99 and fewer cores than Delay Range",
                  where, AT_MOST, 0, kept["Delay Range"], null=3),
            ratio("p99: Delay Range over CoreSync, least of three loads", where, 1.03, min(delay)),
            ratio("p99: Delay Range over CoreSync, greatest of three loads", where, 1.21,
                  max(delay)),
            same("p99: Utilization Range over CoreSync, medium load", where,
                 p99(medium["Utilization Range"]) / p99(medium[MINE]))]


def _probe_third(sim):
    changed = {"updates of the credits lose nothing": machines.CORESYNC, "as drawn": COSTS}
    return [Probe(f"{what}: CoreSync, cores at medium load",
                  cores(at(sim, LOADS["medium"], MINE, costs=costs)))
            for what, costs in changed.items()]


CREDITS = (
    ("CoreSync's cores", "Algorithm 1 lets a core park when the credits beyond one per session "
     "are at most R times the cores. Below capacity no request waits for 80 us, so the total "
     "grows to the published bound, 64 per session; half of it is issued, 3000, where R leaves "
     "500 to 900, and nearly all cores stay in use. Updates that lose what idle cores withhold or "
     "return (200 ns in 10 us) make the total wander. With the chance of a loss as a knob, instead "
     "of a time, 3 % gave 12.5 cores in one run: the result depends on seed and length."),
    ("Shenango's p99", "the published scripts run Shenango and the ranges on a scheduler that puts "
     "threads on sibling hyperthreads first, CoreSync and Caladan on one that spreads them. "
     "Siblings are part of coresync-table-1 only: their slowdown is fitted to it."))


def third():
    return _figure(3, "Latency and cores below capacity, exponential, 10 us", EXP10, (
        ("p99", "Shenango", p99, 1.7), ("p99", "Caladan", p99, 1.16),
        ("cores", "Caladan", cores, 0.98), ("cores", "Utilization Range", cores, 1.4),
        ("cores", "Delay Range", cores, 1.2)), "exponential, 10 us", _third_further,
                   _probe_third, CREDITS)


def fourth():
    return _figure(4, "Latency and cores below capacity, bimodal, 10 us", BIMODAL10, (
        ("p99", "Shenango", p99, 1.5), ("p99", "Caladan", p99, 1.1),
        ("cores", "Utilization Range", cores, 1.3),
        ("cores", "Delay Range", cores, 1.2)), "bimodal, 10 us")


def fifth():
    return _figure(5, "Latency and cores below capacity, exponential, 1 us", EXP1, (
        ("p99", "Shenango", p99, 1.6), ("p99", "Caladan", p99, 1.3),
        ("cores", "Utilization Range", cores, 1.1),
        ("cores", "Delay Range", cores, 1.05)), "exponential, 1 us")


def fifth_bimodal():
    return _figure("5 (b)", "Latency and cores below capacity, bimodal, 1 us", BIMODAL1, (
        ("p99", "Shenango", p99, 1.7), ("p99", "Caladan", p99, 1.2),
        ("cores", "Utilization Range", cores, 1.1),
        ("cores", "Delay Range", cores, 1.07)), "bimodal, 1 us")


# Fig. 1: Caladan that polls for longer before a core parks.

POLLS_US = (2, 5, 10, 20)


def polling(us):
    return {"more": ("--cores-set", f"poll={us}us")}


def _judge_first(sim):
    where = "II-B, Fig. 1"
    by_load = {}
    for load, share in LOADS.items():
        runs = concurrently([*(lambda us=us: at(sim, share, "Caladan", **polling(us))
                               for us in POLLS_US), lambda: at(sim, share, MINE)])
        by_load[load] = dict(zip((*POLLS_US, MINE), runs))
    medium = by_load["medium"]
    return [
        in_order("order of p99, medium load: Caladan polls 10 us, 5 us, 2 us", where,
                 {f"{us} us": p99(medium[us]) for us in (10, 5, 2)}),
        in_order("order of cores, medium load: Caladan polls 2 us, 5 us, 10 us", where,
                 {f"{us} us": cores(medium[us]) for us in (2, 5, 10)}),
        same("p99: Caladan polls 20 us over 10 us, medium load", where,
             p99(medium[20]) / p99(medium[10])),
        bound("p99: Caladan polls 10 us over CoreSync, least of three loads", where, AT_LEAST, 0.95,
              min(p99(runs[10]) / p99(runs[MINE]) for runs in by_load.values()), null=1.0),
        ratio("cores: Caladan polls 10 us over CoreSync, greatest of three loads", where, 1.13,
              max(cores(runs[10]) / cores(runs[MINE]) for runs in by_load.values()))]


def first():
    lines = (*(line(f"Caladan, {us} us", CURVE, "Caladan", **polling(us)) for us in POLLS_US),
             line(MINE, CURVE, MINE))
    return Figure("coresync-1", "Polling for longer", "CoreSync, Fig. 1: 16 cores, exponential, "
                  "10 us", "load, % of capacity", lines, (P99, CORES), _judge_first)


# Fig. 7 and 8: the parameter R, and the number of sessions.

RATIOS = (10, 20, 50, 100)


def _judge_seventh(sim):
    where = "IV-D, Fig. 7"
    runs = {f"R = {r}": at(sim, LOADS["medium"], MINE, r=r) for r in RATIOS}
    return [in_order("order of p99 at medium load, from the lowest R", where, values(p99, runs)),
            in_order("order of cores at medium load, from the highest R", where,
                     dict(reversed(list(values(cores, runs).items()))))]


def seventh():
    lines = tuple(line(f"R = {r}", CURVE, MINE, r=r) for r in RATIOS)
    return Figure("coresync-7", "What the proportionality parameter does",
                  "CoreSync, Fig. 7: 16 cores, exponential, 10 us", "load, % of capacity", lines,
                  (P99, CORES), _judge_seventh)


SCALES = {100: 50, 1000: 500, 10_000: 5000}  # IV-D


def _judge_eighth(sim):
    where = "IV-D, Fig. 8"
    claims = []
    for sessions, r in SCALES.items():
        runs = all_at(sim, LOADS["medium"], EXP10, ("Shenango", "Utilization Range", MINE),
                      sessions=sessions, r=r)
        claims += [
            ratio(f"{sessions} sessions, p99: Shenango over CoreSync, medium load", where, 1.5,
                  p99(runs["Shenango"]) / p99(runs[MINE])),
            ratio(f"{sessions} sessions, cores: Utilization Range over CoreSync, medium load",
                  where, 1.4, cores(runs["Utilization Range"]) / cores(runs[MINE]))]
    full = {sessions: at(sim, 1.0, MINE, sessions=sessions, r=r).achieved_rps
            for sessions, r in SCALES.items() if sessions != 1000}
    claims.append(in_order("order of CoreSync's throughput at 100 % load: 100, 10 000 sessions",
                           where, {str(sessions): rate for sessions, rate in full.items()}))
    return claims


def eighth():
    lines = tuple(line(f"{name}, {sessions}", CURVE, name, sessions=sessions, r=r)
                  for sessions, r in SCALES.items() for name in ("Shenango", MINE))
    return Figure("coresync-8", "From 100 to 10 000 sessions",
                  "CoreSync, Fig. 8: 16 cores, exponential, 10 us", "load, % of capacity", lines,
                  (P99, CORES), _judge_eighth)


MISSING = (
    ("Fig. 2", "the architecture: nothing to measure"),
    ("II-B, 436 credits", "an example of the text, for four cores that are not simulated"),
    ("Fig. 7, throughput", "the text gives no relation of throughputs"),
    ("IV-A, 1.2, 4 and 3.5 Mrps", "capacities for which the machines' prices were chosen"),
)


def figures():
    return (first(), third(), fourth(), fifth(), fifth_bimodal(), seventh(), eighth())
