# SPDX-License-Identifier: Apache-2.0
"""`make reproduce`: the papers' figures as CSV and SVG, each with the claims that it can check."""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from rubato_lab.extras import need
from rubato_lab.options import ROOT
from rubato_lab.program import RubatoError
from rubato_lab.reproduce import claims, figure, machines, output, page, records, simulator, site
from rubato_lab.reproduce.papers import catalogue

LIST, ALL = "list", "all"
LEAST_REQUESTS = 1000  # fewer may leave none to measure after the warm-up
LAST_SEED = 2**63 - 1  # what `rubato sim` takes, less room for the seeds that follow


def parser():
    p = argparse.ArgumentParser(
        description="Reproduces figures of the papers by simulation: writes CSV and SVG, and "
        "prints what the paper says beside what we find.")
    p.add_argument("ids", nargs="*", default=[LIST], metavar="ID",
                   help="figures, or 'all'; 'list' (the default) tells which there are")
    p.add_argument("--quick", action="store_true",
                   help="fewer requests, one seed, every other point: a look, in under a minute")
    p.add_argument("--requests", type=int, metavar="N",
                   help="requests per run, but where a paper says how many (default 4 million; "
                   "quick: 1 million)")
    p.add_argument("--seeds", type=int, metavar="N", help="runs per point (default 3; quick: 1)")
    p.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    p.add_argument("--processes", type=int, default=simulator.PROCESSES, metavar="N",
                   help=f"simulations at a time (default {simulator.PROCESSES})")
    p.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/rubato",
                   metavar="FILE", help="the program (default build/release/bin/rubato)")
    p.add_argument("--out", type=Path, default=ROOT / "build/reproduce", metavar="DIR",
                   help="where the files go (default build/reproduce)")
    p.add_argument("--claims", action="store_true", help="judge the claims, draw nothing")
    p.add_argument("--write", action="store_true",
                   help="--claims, and keep what is found for docs/REPRODUCTION.md, which "
                   "tools/generated_docs.py --write renews")
    p.add_argument("--page", choices=sorted(page.PARTS),
                   help="print a generated part of docs/REPRODUCTION.md")
    p.add_argument("--site", type=Path, metavar="FILE",
                   help="write what the page of `make site` knows of the figures")
    return p


def effort_of(options):
    effort = simulator.QUICK if options.quick else simulator.FULL
    return replace(effort, requests=options.requests or effort.requests,
                   seeds=options.seeds or effort.seeds)


def _told_list(figures):
    width = max(len(name) for name in figures)
    return [f"{f.id.ljust(width)}  {f.source}" for f in figures.values()]


def _chosen(ids, figures, complain):
    unknown = [one for one in ids if one not in figures and one != ALL]
    if unknown:
        complain(f"ID takes one of {', '.join(figures)}, all or list, not '{unknown[0]}'")
    return list(figures.values()) if ALL in ids else [figures[one] for one in ids]


def reproduce(chosen, simulation, folder, say, claims_only=False):
    """Simulates and writes these figures, one after the other as asked for. Raises SimulatorError
    and OSError."""
    policies = simulation.policies()
    for one in chosen:
        began, before = time.monotonic(), simulation.runs
        drawn = figure.simulate(figure.without_missing(one, policies), simulation, claims_only)
        paths = output.save(drawn, folder)
        for line in output.told(drawn):
            say(line)
        say("")
        say(f"{simulation.runs - before} runs in {time.monotonic() - began:.0f} s; "
            f"{', '.join(str(path) for path in paths)}")
        say("")
        yield drawn


def _keep(drawn, effort, order):
    """Beside the records of other figures."""
    found = records.load()
    found[drawn.figure.id] = records.Record(effort.requests, effort.seeds, tuple(drawn.claims),
                                            tuple(drawn.probes))
    records.save(found, order)


def _kept(use):
    """The exit status of `use`, which takes the kept records."""
    try:
        use()
    except (page.Stale, ValueError, OSError) as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    return 0


def main(arguments=None):
    """Exit status: 0 done, whatever the claims; 1 something failed; 2 bad arguments."""
    p = parser()
    options = p.parse_args(arguments)
    for name, least in (("requests", LEAST_REQUESTS), ("seeds", 1), ("processes", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            p.error(f"--{name} takes a whole number from {least} on, not {value}")
    if not 0 <= options.seed <= LAST_SEED:
        p.error(f"--seed takes a whole number from 0 to {LAST_SEED}, not {options.seed}")
    if options.page:
        return _kept(lambda: print(page.part(options.page), end=""))
    if options.site:
        return _kept(lambda: site.write(options.site))
    figures = catalogue()
    if options.ids == [LIST]:
        print("\n".join(_told_list(figures)))
        return 0
    chosen = _chosen(options.ids, figures, p.error)
    costs = options.out / "costs"
    simulation = simulator.Simulator(options.binary, effort_of(options), costs,
                                     options.processes, options.seed)
    found = []
    try:
        if not (options.claims or options.write):
            need("matplotlib")
        machines.write(costs)
        for drawn in reproduce(chosen, simulation, options.out,
                               lambda line: print(line, flush=True),
                               options.claims or options.write):
            found += drawn.claims
            if options.write:
                _keep(drawn, simulation.effort, figures)
    except (simulator.SimulatorError, RubatoError, OSError) as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("reproduce: stopped", file=sys.stderr)
        return 1
    counted = claims.score(found)
    print(f"{counted.hold} of {counted.judged} claims hold, {counted.beyond} of which would not if "
          "all systems were equal")
    return 0
