#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The live runtime in virtual time against the simulator, for every live policy: the tables of
docs/FIDELITY.md, from docs/virtual_fidelity.jsonl and docs/virtual_fidelity_long.jsonl.

    tools/virtual_fidelity.py                   prints the tables
    tools/virtual_fidelity.py --write BINARY    runs all again, on all processors: file and tables
    tools/virtual_fidelity.py --long BINARY     the same of LONG and of what has no other cause
                                                than too few requests, with --requests many each
    tools/virtual_fidelity.py --explain RUBATO  simulates again what does not agree, with other work
    tools/virtual_fidelity.py --check BINARY    runs SAMPLES again, shows what has changed, and
                                                fails where it is by too much

BINARY is rubato-virtual, for --write and --long that of the preset `virtual`. RUBATO is rubato; its
figures go into the files that --write and --long have written."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import generated_docs

ROOT = Path(__file__).resolve().parent.parent
DATA, LONG_DATA, PAGE = ("docs/virtual_fidelity.jsonl", "docs/virtual_fidelity_long.jsonl",
                         "docs/FIDELITY.md")
MIXES = ("high-bimodal", "extreme-bimodal", "tpcc", "zippydb", "exp-10")
USUAL_LOAD = 0.7
LOADS = (USUAL_LOAD, 0.3, 0.9)
USUAL_WORKERS = 8
# Requests of a run, by workers.
REQUESTS = {1: 10000, 2: 10000, 8: 10000, 16: 10000, 64: 4000}
# Live requests in flight at most. With 2,048, which `rubato fidelity` has unless told, the sender
# passes over those of workers behind a long request, so that `fcfs` looks five times as good.
FLOWS = 30_000
# What the long runs compare, of every mix, beside rows with figures that nothing else explains.
LONG = {"workers": USUAL_WORKERS, "load": USUAL_LOAD}
LONG_REQUESTS = 1_000_000
class Sample(typing.NamedTuple):
    """Rows that --check runs again; figures that change by more than `most` fail."""
    workers: int
    load: float
    policies: tuple
    percents: tuple
    most: float
    mix: str = "high-bimodal"


SAMPLES = (
    # Any change of the runtime makes other interleavings.
    Sample(USUAL_WORKERS, USUAL_LOAD, ("fcfs", "cfcfs", "srpt"), ("p50", "p99"), 0.1),
    # Here they hardly matter, so that an event with a price too much or too little shows.
    Sample(1, 0.3, ("fcfs", "steal", "srpt", "synergy"), ("p50",), 0.02),
)
PERCENTS = ("p50", "p99", "p999")
AIM = 0.02  # how near the hosts are to be
DEADLINE_S = 3600


def live_policies(binary):
    done = subprocess.run([binary, "policies", "--json"], check=True, text=True,
                          stdout=subprocess.PIPE)
    return [policy["name"] for policy in json.loads(done.stdout) if not policy["simulated_only"]]


def fidelity(binary, policies, mix, workers, load, requests):
    with tempfile.NamedTemporaryFile("r") as out:
        subprocess.run([binary, "fidelity", "--host", "virtual", "--workload", mix, "--workers",
                        str(workers), "--policies", ",".join(policies), "--loads", str(load),
                        "--requests", str(requests), "--flows", str(min(FLOWS, requests)), "--json",
                        out.name],
                       check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)
        return list(entries(json.load(out)))


def entries(report):
    """What the tables need: by type the ratio of each percentile, live / simulated, with half of
    its 95 % interval, where there are enough requests to say."""
    for row in report["rows"]:
        types = {kind["name"]: {percent: [round(figure["ratio"], 3), round(figure["within"], 3)]
                                for percent, figure in kind["paired"].items()}
                 for kind in row["types"]}
        yield {"mix": report["workload"], "workers": report["workers"], "load": row["load"],
               "requests": report["requests"], "policy": row["policy"],
               "busy": round(row["simulated_busy_share"], 3), "types": types}


def load_data(path=DATA):
    file = ROOT / path
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def key_of(entry):
    return entry["mix"], entry["workers"], entry["load"], entry["policy"]


def agrees(figure):
    ratio, within = figure
    return abs(ratio - 1) <= max(within, AIM)


# How much of a worker's time the prices may be off. What that does to a figure is simulated.
PRICES_OFF = 0.015
EXPLAIN_REQUESTS = 200_000  # of such a simulation, at most
# Policies without preemption of which workers run steps for all, which access more than the verbs
# that have prices (docs/SCALING.md counts it).
DEAR_HOOKS = ("jbsq", "altocumulus")
DARC_WINDOW = 10_000  # requests, after which it has a plan
CUT_FOR_NEW = ("ps", "shinjuku", "tinyquanta", "srpt", "las", "mlfq", "sbb", "synergy")
MANY_WORKERS = 16
OVERLOADED = 0.985  # of the workers' time


def ratio_of(entry, kind, percent):
    return entry["types"][kind][percent][0]


def reaches(entry, runs, kind, percent, also=()):
    """Has the simulator, between the figures of these runs, the live one, or one that agrees?"""
    found = entry.get(runs, {}).get(kind, {}).get(percent)
    if found is None:
        return False
    ratio, within = entry["types"][kind][percent]
    slack = max(within, AIM)
    return min(*found, *also) - slack <= ratio <= max(*found, *also) + slack


def is_amplified(entry, kind, percent):
    """With prices within PRICES_OFF."""
    return reaches(entry, "moves", kind, percent)


def is_helped_once(entry, kind, percent):
    """The same where no type that falls behind is helped, or in between."""
    return reaches(entry, "unhelped", kind, percent, also=(1,))


def is_settled(entry, kind, percent):
    """By a long run of the same."""
    figure = entry.get("longer", {}).get(kind, {}).get(percent)
    return figure is not None and agrees(figure)


# Why hosts differ, by the letter that marks a figure in the tables: the first whose test holds.
CAUSES = {
    "s": (is_amplified,
          f"the prices are off by {100 * PRICES_OFF:g} % of a worker's time at most, which waits "
          "multiply: simulated with so much less or more work, the figure moves as far"),
    "o": (lambda entry, kind, percent: entry["busy"] >= OVERLOADED,
          f"overloaded by its prices: live requests beyond {FLOWS:,}, and in a server those beyond "
          "its fibers, wait in the order of their coming, whatever the policy"),
    "n": (lambda entry, kind, percent: entry["policy"] in CUT_FOR_NEW
          and ratio_of(entry, kind, percent) < 1,
          "live an idle worker may take what a busy one has just polled before that one asks the "
          "policy"),
    "h": (is_helped_once,
          "one host finds once, at the end of a window, that a type has fallen behind, and helps "
          "it from then on, the other does not: simulated without that help, the figure moves as "
          "far"),
    "p": (lambda entry, kind, percent: entry["policy"] in DEAR_HOOKS
          and ratio_of(entry, kind, percent) > 1,
          "the steps that a worker runs for all access more than the verbs that have a price"),
    "c": (lambda entry, kind, percent: entry["workers"] >= MANY_WORKERS
          and ratio_of(entry, kind, percent) > 1,
          f"not priced with {MANY_WORKERS} workers or more: probably accesses to one queue that "
          "fail and are made again"),
    "m": (lambda entry, kind, percent: entry["workers"] > 1 and percent == "p50"
          and entry["policy"] in DEAR_HOOKS,
          "without preemption half of the requests find a worker idle and the others wait in the "
          "ring of one for up to 100 us: the median is where latencies jump, and a small share "
          "more moves it far; p99 agrees"),
    "f": (is_settled,
          f"of too few requests: of {LONG_REQUESTS:,} the figure agrees"),
}


def cause(entry, kind, percent):
    """The letter of the first cause that fits; ? = none is known."""
    for letter, (fits, _) in CAUSES.items():
        if fits(entry, kind, percent):
            return letter
    return "?"


def wants_more_requests(entry):
    """Is there a figure that nothing else explains?"""
    return any(not agrees(figure) and cause(entry, kind, percent) in "f?"
               for kind, percent, figure in figures_of(entry))


def figures_of(entry, percents=PERCENTS):
    for kind, figures in entry["types"].items():
        for percent in percents:
            if percent in figures:
                yield kind, percent, figures[percent]


def cell(entry, kind, percent):
    figure = entry["types"].get(kind, {}).get(percent) if entry else None
    if figure is None:
        return "-"
    mark = "" if agrees(figure) else f" {cause(entry, kind, percent)}"
    return f"{figure[0]:.2f} +-{figure[1]:.2f}{mark}"


def by_workers(found, mix):
    """Of the first type, by policy and workers."""
    rows = {(entry["policy"], entry["workers"]): entry for entry in found
            if entry["mix"] == mix and entry["load"] == USUAL_LOAD}
    policies = list(dict.fromkeys(policy for policy, _ in rows))
    first = next(iter(next(iter(rows.values()))["types"]))
    head = " | ".join(f"{n}: p50 | p99" for n in REQUESTS)
    lines = [f"**`{mix}`, {first}**", "", f"| policy | {head} |",
             "|---|" + "---|" * (2 * len(REQUESTS))]
    for policy in policies:
        both = [cell(rows.get((policy, n)), first, percent) for n in REQUESTS
                for percent in ("p50", "p99")]
        lines.append(f"| `{policy}` | {' | '.join(both)} |")
    return "\n".join(lines)


def by_types(rows, title):
    """All types and percentiles, a line per policy."""
    kinds = list(rows[0]["types"])
    head = " | ".join(f"{kind}: p50 | p99 | p99.9" for kind in kinds)
    lines = [title, "", f"| policy | {head} |", "|---|" + "---|" * (3 * len(kinds))]
    for entry in rows:
        both = [cell(entry, kind, percent) for kind in kinds for percent in PERCENTS]
        lines.append(f"| `{entry['policy']}` | {' | '.join(both)} |")
    return "\n".join(lines)


def long_tables(found):
    for table in dict.fromkeys(key_of(entry)[:3] for entry in found):
        rows = [entry for entry in found if key_of(entry)[:3] == table]
        mix, workers, load = table
        many = " or ".join(f"{count:,}" for count in sorted({row["requests"] for row in rows}))
        yield by_types(rows, f"**`{mix}`, {workers} workers, load {load}, {many} requests**")


def share(of_cell, percent):
    figures = [figure for entry in of_cell for _, _, figure in figures_of(entry, (percent,))]
    if not figures:
        return "-"
    return f"{100 * sum(map(agrees, figures)) / len(figures):.0f} %"


def summary(found):
    """How many figures agree, by workers and load."""
    head = " | ".join(f"{n}: p50 | p99 | p99.9" for n in REQUESTS)
    lines = ["**Figures that agree, all types**", "", f"| load | {head} |",
             "|---|" + "---|" * (len(PERCENTS) * len(REQUESTS))]
    for load in sorted(LOADS):
        line = []
        for workers in REQUESTS:
            of_cell = [e for e in found if (e["workers"], e["load"]) == (workers, load)]
            line += [share(of_cell, percent) for percent in PERCENTS]
        lines.append(f"| {load} | {' | '.join(line)} |")
    return "\n".join(lines)


def legend(found):
    """What the letters say, and how many figures have each."""
    letters = [cause(entry, kind, percent) for entry in found
               for kind, percent, figure in figures_of(entry) if not agrees(figure)]
    lines = ["**Why the others do not**, with the number of figures", ""]
    for letter, (_, text) in CAUSES.items():
        lines.append(f"- `{letter}` ({letters.count(letter)}): {text}")
    lines.append(f"- `?` ({letters.count('?')}): not known.")
    return "\n".join(lines)


def tables():
    found = load_data()
    mixes = dict.fromkeys(entry["mix"] for entry in found)
    usual = [[e for e in found if (e["mix"], e["workers"], e["load"]) ==
              (mix, USUAL_WORKERS, USUAL_LOAD)] for mix in mixes]
    wide = [by_types(rows, f"**`{rows[0]['mix']}`, {USUAL_WORKERS} workers, all types**")
            for rows in usual if rows and len(rows[0]["types"]) > 1]
    return "\n\n".join([summary(found), legend(found), *long_tables(load_data(LONG_DATA)),
                        *(by_workers(found, mix) for mix in mixes), *wide]) + "\n"


def write_page():
    page = ROOT / PAGE
    page.write_text(generated_docs.replace(page.read_text(), "virtual-fidelity", tables()))


def run_all(path, runs, jobs, kept=()):
    """Each of the runs is a call that returns entries; they are written in the order of `runs`,
    after those that are `kept`."""
    with ThreadPoolExecutor(jobs) as pool, (ROOT / path).open("w") as out:
        out.writelines(json.dumps(entry) + "\n" for entry in kept)
        for result in pool.map(lambda run: run(), runs):
            out.writelines(json.dumps(entry) + "\n" for entry in result)
            out.flush()
    write_page()


def latencies(binary, entry, share, settings=(), most=EXPLAIN_REQUESTS):
    """Simulated, by type and percentile, with that share of the workers' time more to do."""
    load = entry["load"] * (1 + share / entry["busy"])
    done = subprocess.run([binary, "sim", "--policy", entry["policy"], "--workload", entry["mix"],
                           "--workers", str(entry["workers"]), "--load", str(load), "--requests",
                           str(min(entry["requests"], most)), "--costs", "virtual",
                           "--classify", "feedback", "--json", "-", *settings],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          timeout=DEADLINE_S)
    return {kind["name"]: kind["latency_us"] for kind in json.loads(done.stdout)["types"]}


def moves(binary, entry):
    """Of the figures that do not agree: with PRICES_OFF less and more work, over those without."""
    off = [(kind, percent) for kind, percent, figure in figures_of(entry) if not agrees(figure)]
    if not off:
        return {}
    usual, less, more = (latencies(binary, entry, share) for share in (0, -PRICES_OFF, PRICES_OFF))
    found = {}
    for kind, percent in off:
        found.setdefault(kind, {})[percent] = [
            round(other[kind][percent] / usual[kind][percent], 3) for other in (less, more)]
    return found


def unhelped(binary, entry):
    """Of the figures under darc, with plans, that do not agree: without help for types that fall
    behind, with PRICES_OFF less and more work and without, over those with help."""
    off = [(kind, percent) for kind, percent, figure in figures_of(entry) if not agrees(figure)]
    if entry["policy"] != "darc" or entry["requests"] <= DARC_WINDOW or not off:
        return {}
    usual = latencies(binary, entry, 0, most=entry["requests"])
    without = [latencies(binary, entry, share, ("--set", "behind=1000000"), entry["requests"])
               for share in (-PRICES_OFF, 0, PRICES_OFF)]
    found = {}
    for kind, percent in off:
        found.setdefault(kind, {})[percent] = [
            round(other[kind][percent] / usual[kind][percent], 3) for other in without]
    return found


def longer(entry, long_runs):
    """Of the figures that do not agree: those of the long run of the same, if there is one."""
    run = long_runs.get(key_of(entry))
    if run is None or run["requests"] <= entry["requests"]:
        return {}
    found = {}
    for kind, percent, figure in figures_of(entry):
        if not agrees(figure) and percent in run["types"].get(kind, {}):
            found.setdefault(kind, {})[percent] = run["types"][kind][percent]
    return found


def explain(binary, jobs):
    long_runs = {key_of(entry): entry for entry in load_data(LONG_DATA)}
    causes = {"moves": moves, "unhelped": unhelped,
              "longer": lambda _, entry: longer(entry, long_runs)}
    for path in DATA, LONG_DATA:
        known = load_data(path)
        with ThreadPoolExecutor(jobs) as pool:
            for name, simulate in causes.items():
                found = list(pool.map(lambda entry, of=simulate: of(binary, entry), known))
                for entry, figures in zip(known, found):
                    entry.pop(name, None)
                    if figures:
                        entry[name] = figures
        (ROOT / path).write_text("".join(json.dumps(entry) + "\n" for entry in known))
    write_page()


def write(binary, jobs):
    policies = live_policies(binary)
    run_all(DATA, [lambda mix=mix, workers=workers, load=load, requests=requests:
                   fidelity(binary, policies, mix, workers, load, requests)
                   for load in LOADS for mix in MIXES for workers, requests in REQUESTS.items()],
            jobs)


def write_long(binary, policies, requests, jobs):
    """What is there of other policies stays."""
    kept = [entry for entry in load_data(LONG_DATA) if entry["policy"] not in policies]
    usual = [(mix, LONG["workers"], LONG["load"], policy) for mix in MIXES for policy in policies]
    others = [key_of(entry) for entry in load_data()
              if entry["policy"] in policies and wants_more_requests(entry)]
    run_all(LONG_DATA, [lambda row=row: fidelity(binary, [row[3]], *row[:3], requests)
                        for row in dict.fromkeys(usual + others)], jobs, kept)


def changes(binary, sample, known):
    """(row, type, percentile, ratio before, ratio now) of the figures that have changed."""
    for entry in fidelity(binary, sample.policies, sample.mix, sample.workers, sample.load,
                          REQUESTS[sample.workers]):
        before = known[key_of(entry)]["types"]
        for kind, percent, figure in figures_of(entry, sample.percents):
            if figure != before[kind][percent]:
                yield entry, kind, percent, before[kind][percent][0], figure[0]


def check(binary):
    """The number of figures of the samples that have changed too much."""
    known = {key_of(entry): entry for entry in load_data()}
    bad = 0
    for sample in SAMPLES:
        for entry, kind, percent, was, now in changes(binary, sample, known):
            too_much = abs(now / was - 1) > sample.most
            bad += too_much
            print(f"{entry['mix']} {entry['policy']} {kind}, {entry['workers']} workers: {percent} "
                  f"live / simulated was {was}, is {now}{' !' if too_much else ''}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", metavar="BINARY")
    parser.add_argument("--long", metavar="BINARY")
    parser.add_argument("--requests", type=int, default=LONG_REQUESTS, help="of each long run")
    parser.add_argument("--policies", help="of the long runs, joined by commas; else all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs side by side")
    parser.add_argument("--explain", metavar="RUBATO")
    parser.add_argument("--check", metavar="BINARY")
    args = parser.parse_args()
    for name in "jobs", "requests":
        if getattr(args, name) < 1:
            parser.error(f"--{name} takes 1 or more, not {getattr(args, name)}")
    if args.write:
        write(args.write, args.jobs)
    elif args.long:
        policies = args.policies.split(",") if args.policies else live_policies(args.long)
        write_long(args.long, policies, args.requests, args.jobs)
    elif args.explain:
        explain(args.explain, args.jobs)
    elif args.check:
        return 1 if check(args.check) else 0
    else:
        print(tables(), end="")
    return 0


def run():
    """main(); a program that is not there, or another one, is told in a line."""
    try:
        return main()
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        return f"virtual_fidelity: it takes rubato-virtual, --explain rubato: {error}"


if __name__ == "__main__":
    sys.exit(run())
