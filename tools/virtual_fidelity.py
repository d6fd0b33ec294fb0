#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The live runtime in virtual time against the simulator, for every live policy: the table of
docs/FIDELITY.md, from docs/virtual_fidelity.jsonl.

    tools/virtual_fidelity.py                   prints the table
    tools/virtual_fidelity.py --write BINARY    runs all again: the file and the table

BINARY is rubato-virtual of the preset `tsan`."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import generated_docs

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = "docs/virtual_fidelity.jsonl", "docs/FIDELITY.md"
MIXES = ("high-bimodal", "extreme-bimodal", "tpcc", "zippydb", "exp-10")
WORKERS = (1, 2, 8)
LOAD, REQUESTS = "0.7", "10000"
DEADLINE_S = 1800


def live_policies(binary):
    done = subprocess.run([binary, "policies", "--json"], check=True, text=True,
                          stdout=subprocess.PIPE)
    return [policy["name"] for policy in json.loads(done.stdout) if not policy["simulated_only"]]


def fidelity(binary, policies, mix, workers):
    with tempfile.NamedTemporaryFile("r") as out:
        subprocess.run([binary, "fidelity", "--host", "virtual", "--workload", mix, "--workers",
                        str(workers), "--policies", ",".join(policies), "--loads", LOAD,
                        "--requests", REQUESTS, "--json", out.name],
                       check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S)
        return json.load(out)


def entries(report):
    """What the table needs: the ratio of medians of the first type and of the slowdowns' p99."""
    for row in report["rows"]:
        first = row["types"][0]
        median = first["paired"].get("p50", {})
        yield {"mix": report["workload"], "workers": report["workers"],
               "policy": row["policy"], "type": first["name"],
               "p50": round(median["ratio"], 3) if median else None,
               "within": round(median["within"], 3) if median else None,
               "p99": round(row["live"]["p99"] / row["simulated"]["p99"], 3)}


def cells(entry):
    if entry is None:
        return ["-", "-"]
    median = "-" if entry["p50"] is None else f"{entry['p50']:.2f} +-{entry['within']:.2f}"
    return [median, f"{entry['p99']:.2f}"]


def table(found, mix):
    rows = {(entry["policy"], entry["workers"]): entry for entry in found if entry["mix"] == mix}
    policies = list(dict.fromkeys(policy for policy, _ in rows))
    first = next(iter(rows.values()))["type"]
    head = " | ".join(f"p50 {first}, {n} | p99, {n}" for n in WORKERS)
    lines = [f"**`{mix}`**", "", f"| policy | {head} |", "|---|" + "---|" * (2 * len(WORKERS))]
    for policy in policies:
        both = [cell for n in WORKERS for cell in cells(rows.get((policy, n)))]
        lines.append(f"| `{policy}` | {' | '.join(both)} |")
    return "\n".join(lines)


def tables():
    found = [json.loads(line) for line in (ROOT / DATA).read_text().splitlines()]
    mixes = dict.fromkeys(entry["mix"] for entry in found)
    return "\n\n".join(table(found, mix) for mix in mixes) + "\n"


def save(reports):
    lines = [json.dumps(entry) for report in reports for entry in entries(report)]
    (ROOT / DATA).write_text("\n".join(lines) + "\n")
    page = ROOT / PAGE
    page.write_text(generated_docs.replace(page.read_text(), "virtual-fidelity", tables()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", metavar="BINARY")
    args = parser.parse_args()
    if args.write:
        policies = live_policies(args.write)
        save([fidelity(args.write, policies, mix, n) for mix in MIXES for n in WORKERS])
    else:
        print(tables(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
