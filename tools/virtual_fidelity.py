#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The live runtime in virtual time against the simulator, for every live policy: the tables of
docs/FIDELITY.md, from docs/virtual_fidelity.jsonl.

    tools/virtual_fidelity.py                   prints the tables
    tools/virtual_fidelity.py --write BINARY    runs all again, on all processors: file and tables
    tools/virtual_fidelity.py --check BINARY    runs a sample with 8 workers again, shows what has
                                                changed, and fails where it is by more than CHANGED

BINARY is rubato-virtual, for --write that of the preset `virtual`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import generated_docs

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = "docs/virtual_fidelity.jsonl", "docs/FIDELITY.md"
MIXES = ("high-bimodal", "extreme-bimodal", "tpcc", "zippydb", "exp-10")
WORKERS = (1, 2, 8, 64)
LOADS = (0.3, 0.7, 0.9)
USUAL_LOAD = 0.7
REQUESTS = 10000
# The rows that --check runs again.
SAMPLE = {"workers": 8, "load": USUAL_LOAD, "mixes": ("high-bimodal",),
          "policies": ("fcfs", "cfcfs", "srpt")}
# Any change of the runtime makes other interleavings.
CHANGED = 0.1
# How near the hosts are to be.
AIM = {"p50": 0.02, "p99": 0.05}
DEADLINE_S = 3600


def live_policies(binary):
    done = subprocess.run([binary, "policies", "--json"], check=True, text=True,
                          stdout=subprocess.PIPE)
    return [policy["name"] for policy in json.loads(done.stdout) if not policy["simulated_only"]]


def fidelity(binary, policies, mix, workers, load):
    with tempfile.NamedTemporaryFile("r") as out:
        subprocess.run([binary, "fidelity", "--host", "virtual", "--workload", mix, "--workers",
                        str(workers), "--policies", ",".join(policies), "--loads", str(load),
                        "--requests", str(REQUESTS), "--json", out.name],
                       check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)
        return list(entries(json.load(out)))


def entries(report):
    """What the tables need: the ratio of medians of the first type and of the slowdowns' p99."""
    for row in report["rows"]:
        first = row["types"][0]
        median = first["paired"].get("p50", {})
        yield {"mix": report["workload"], "workers": report["workers"], "load": row["load"],
               "policy": row["policy"], "type": first["name"],
               "p50": round(median["ratio"], 3) if median else None,
               "within": round(median["within"], 3) if median else None,
               "p99": round(row["live"]["p99"] / row["simulated"]["p99"], 3)}


def load_data():
    return [json.loads(line) for line in (ROOT / DATA).read_text().splitlines()]


def key_of(entry):
    return entry["mix"], entry["workers"], entry["load"], entry["policy"]


def cells(entry):
    if entry is None:
        return ["-", "-"]
    median = "-" if entry["p50"] is None else f"{entry['p50']:.2f} +-{entry['within']:.2f}"
    return [median, f"{entry['p99']:.2f}"]


def table(found, mix):
    rows = {(entry["policy"], entry["workers"]): entry for entry in found
            if entry["mix"] == mix and entry["load"] == USUAL_LOAD}
    policies = list(dict.fromkeys(policy for policy, _ in rows))
    first = next(iter(rows.values()))["type"]
    head = " | ".join(f"p50 {first}, {n} | p99, {n}" for n in WORKERS)
    lines = [f"**`{mix}`**", "", f"| policy | {head} |", "|---|" + "---|" * (2 * len(WORKERS))]
    for policy in policies:
        both = [cell for n in WORKERS for cell in cells(rows.get((policy, n)))]
        lines.append(f"| `{policy}` | {' | '.join(both)} |")
    return "\n".join(lines)


def median_agrees(entry):
    return entry["p50"] is not None and abs(entry["p50"] - 1) <= max(entry["within"], AIM["p50"])


def p99_agrees(entry):
    return abs(entry["p99"] - 1) <= AIM["p99"]


def share(entries_of_cell, agrees):
    return f"{100 * sum(map(agrees, entries_of_cell)) / len(entries_of_cell):.0f} %"


def summary(found):
    """How many rows agree, by workers and load."""
    head = " | ".join(f"p50, {n} | p99, {n}" for n in WORKERS)
    lines = ["**Rows that agree, by workers and load**", "", f"| load | {head} |",
             "|---|" + "---|" * (2 * len(WORKERS))]
    for load in LOADS:
        line = []
        for workers in WORKERS:
            of_cell = [e for e in found if (e["workers"], e["load"]) == (workers, load)]
            line += [share(of_cell, median_agrees), share(of_cell, p99_agrees)]
        lines.append(f"| {load} | {' | '.join(line)} |")
    return "\n".join(lines)


def tables():
    found = load_data()
    mixes = dict.fromkeys(entry["mix"] for entry in found)
    return "\n\n".join([summary(found), *(table(found, mix) for mix in mixes)]) + "\n"


def write(binary):
    policies = live_policies(binary)
    runs = [(mix, workers, load) for mix in MIXES for workers in WORKERS for load in LOADS]
    with ThreadPoolExecutor(os.cpu_count()) as pool, (ROOT / DATA).open("w") as out:
        for result in pool.map(lambda run: fidelity(binary, policies, *run), runs):
            out.writelines(json.dumps(entry) + "\n" for entry in result)
            out.flush()
    page = ROOT / PAGE
    page.write_text(generated_docs.replace(page.read_text(), "virtual-fidelity", tables()))


def check(binary):
    """The number of rows of the sample that have changed too much."""
    known = {key_of(entry): entry for entry in load_data()}
    bad = 0
    for mix in SAMPLE["mixes"]:
        for entry in fidelity(binary, SAMPLE["policies"], mix, SAMPLE["workers"], SAMPLE["load"]):
            before = known[key_of(entry)]
            for field in ("p50", "p99"):
                if entry[field] == before[field]:
                    continue
                change = abs(entry[field] / before[field] - 1)
                bad += change > CHANGED
                print(f"{mix} {entry['policy']}: {field} live / simulated was {before[field]}, "
                      f"is {entry[field]}{' !' if change > CHANGED else ''}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", metavar="BINARY")
    parser.add_argument("--check", metavar="BINARY")
    args = parser.parse_args()
    if args.write:
        write(args.write)
    elif args.check:
        return 1 if check(args.check) else 0
    else:
        print(tables(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
