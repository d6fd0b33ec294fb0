# SPDX-License-Identifier: Apache-2.0
"""Figures 1 and 10 of the Persephone paper: 16 workers, extreme-bimodal, no network."""

from rubato_lab.reproduce import machines, slo
from rubato_lab.reproduce.claims import Claim, in_order
from rubato_lab.reproduce.figure import Figure, Panel, loads, over_loads
from rubato_lab.reproduce.simulator import Scenario, concurrently
from rubato_lab.reproduce.slo import Slo

WORKERS, WORKLOAD = 16, "extreme-bimodal"
WEIGHT = 3  # see synergy.WEIGHTS
SLO = Slo(10, per_type=True)
LOADS = loads(0.05, 0.95, 0.05) + (0.98,)
SHORT = Panel("short requests: p99.9 slowdown",
              lambda run: run.shortest()["slowdown"]["p999"], (10, "objective: 10"), 10000)
LONG = Panel("long requests: p99.9 slowdown",
             lambda run: run.longest()["slowdown"]["p999"], (10, "objective: 10"), 100)


def policy(name, costs=machines.PERSEPHONE, **settings):
    return Scenario(name, WORKERS, WORKLOAD, costs, tuple(settings.items()), weight=WEIGHT)


def mrps(run):
    return None if run is None else run.offered_rps / 1e6


DARC = policy("darc", literal="on")  # demand and rounding as printed
SYNERGY = policy("synergy", steal_threshold="0", long_turn="0us")


TS_SINGLE = policy("ps", quantum="5us")
TS_MULTI = policy("shinjuku", quantum="5us")


def _judge_first(sim):
    where = "2, Fig. 1"
    d_fcfs, c_fcfs, single, multi, darc = concurrently([
        lambda s=s: slo.highest(sim, s, SLO) for s in
        (policy("fcfs"), policy("cfcfs"), TS_SINGLE, TS_MULTI, DARC)])
    shared, base, reserved = concurrently([lambda s=s: sim.run(s, rate_rps=5.1e6)
                                   for s in (TS_MULTI, policy("cfcfs"), DARC)])
    return [
        Claim("c-FCFS: throughput within 10 for each type", where, 2.1, mrps(c_fcfs), "Mrps"),
        Claim("c-FCFS: share of the peak", where, 0.4, c_fcfs.load if c_fcfs else None),
        Claim("DARC: throughput within 10 for each type", where, 5.1, mrps(darc), "Mrps"),
        Claim("DARC at 5.1 Mrps: p99.9 of short requests", where, 9.87, _short_us(reserved), "us"),
        Claim("c-FCFS at 5.1 Mrps: p99.9 of short requests", where, 7738, _short_us(base), "us"),
        Claim("TS: throughput within 10 for each type", where, 3.7, mrps(multi), "Mrps"),
        Claim("TS at 5.1 Mrps: p99.9 of short requests", where, 161, _short_us(shared), "us"),
        Claim("TS with one queue instead: throughput within 10", where, 3.7, mrps(single), "Mrps",
              remark="`ps`, not what the paper simulates"),
        in_order("order of throughput within 10", where,
                 {"d-FCFS": mrps(d_fcfs) or 0, "c-FCFS": mrps(c_fcfs) or 0,
                  "TS": mrps(multi) or 0, "DARC": mrps(darc) or 0})]


def _short_us(run):
    return run.shortest()["latency_us"]["p999"]


def first():
    lines = (over_loads("d-FCFS", policy("fcfs"), LOADS),
             over_loads("c-FCFS", policy("cfcfs"), LOADS),
             over_loads("TS", TS_MULTI, LOADS, "`shinjuku`, 5 us, 1 us per preemption"),
             over_loads("DARC", DARC, LOADS),
             over_loads("TS, one queue", TS_SINGLE, LOADS, "ours, for comparison: `ps`"),
             over_loads("synergy", SYNERGY, LOADS, "ours, for comparison"))
    return Figure("persephone-1", "Policies on a mix of 0.5 us and 500 us requests",
                  "Persephone, Fig. 1: 16 workers, extreme-bimodal, no network",
                  "load, % of 5.34 Mrps", lines, (SHORT, LONG), _judge_first)


# Fig. 10: one queue, preemption as soon as a short request is blocked. The nearest that exists:
# synergy that looks after every 100 ns and steals single requests, half of the overhead on the way
# to the worker and half on it.

LOOK = "100ns"


def prompt(overhead_us):
    return policy("synergy", machines.preemption(overhead_us), fixed_quantum=LOOK,
                  steal_threshold="0", long_turn="0us").having(weight=1)


def _judge_tenth(sim):
    where = "6, Fig. 10"
    found = concurrently([lambda us=us: slo.highest(sim, prompt(us), SLO)
                          for us in machines.OVERHEADS_US])
    best = dict(zip(machines.OVERHEADS_US, (mrps(run) or 0 for run in found)))
    return [Claim("TS 1 us: throughput within 10, share of TS 0 us", where, 0.7,
                  best[1] / best[0] if best[0] else None),
            in_order("order: TS 4 us, 2 us, 1 us, 0 us", where,
                     {f"TS {us} us": best[us] for us in reversed(machines.OVERHEADS_US)})]


def tenth():
    lines = (*(over_loads(f"TS {us} us", prompt(us), LOADS) for us in machines.OVERHEADS_US),
             over_loads("DARC", DARC, LOADS))
    return Figure("persephone-10", "What interrupts may cost",
                  "Persephone, Fig. 10: 16 workers, extreme-bimodal, no network",
                  "load, % of 5.34 Mrps", lines, (SHORT, LONG), _judge_tenth)


def figures():
    return (first(), tenth())
