# SPDX-License-Identifier: Apache-2.0
"""`make reproduce`: the papers' figures as CSV and SVG, each with the claims that it can check."""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from rubato_lab.options import ROOT
from rubato_lab.reproduce import (altocumulus, claims, coresync, coresync_more, figure, machines,
                                  output, persephone, sbb, simulator, synergy)

LIST, ALL = "list", "all"


def catalogue():
    """All figures by id."""
    return {f.id: f for paper in (synergy, persephone, sbb, altocumulus, coresync, coresync_more)
            for f in paper.figures()}


def parser():
    p = argparse.ArgumentParser(
        description="Reproduces figures of the papers by simulation: writes CSV and SVG, and "
        "prints what the paper says beside what we find.")
    p.add_argument("ids", nargs="*", default=[LIST], metavar="ID",
                   help="figures, or 'all'; 'list' (the default) tells which there are")
    p.add_argument("--quick", action="store_true",
                   help="fewer requests, one seed, every other point: a look, in under a minute")
    p.add_argument("--requests", type=int, metavar="N",
                   help="requests per run (default 4 million; quick: 1 million)")
    p.add_argument("--seeds", type=int, metavar="N", help="runs per point (default 3; quick: 1)")
    p.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    p.add_argument("--processes", type=int, default=simulator.PROCESSES, metavar="N",
                   help=f"simulations at a time (default {simulator.PROCESSES})")
    p.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/rubato",
                   metavar="FILE", help="the program (default build/release/bin/rubato)")
    p.add_argument("--out", type=Path, default=ROOT / "build/reproduce", metavar="DIR",
                   help="where the files go (default build/reproduce)")
    p.add_argument("--markdown", type=Path, metavar="FILE",
                   help="also write the claims as a table in Markdown")
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


def reproduce(chosen, simulation, folder, say):
    """Simulates and writes these figures; returns [Drawn]. Raises SimulatorError and OSError."""
    done = []
    policies = simulation.policies()
    for one in chosen:
        began, before = time.monotonic(), simulation.runs
        drawn = figure.simulate(figure.without_missing(one, policies), simulation)
        paths = output.save(drawn, folder)
        for line in output.told(drawn):
            say(line)
        say("")
        say(f"{simulation.runs - before} runs in {time.monotonic() - began:.0f} s; "
            f"{', '.join(str(path) for path in paths)}")
        say("")
        done.append(drawn)
    return done


def _write_markdown(path, done, simulation):
    effort = simulation.effort
    lines = [f"Runs of {effort.requests} requests, {effort.seeds} seeds each.", ""]
    for drawn in done:
        lines += [f"**{drawn.figure.id}**: {drawn.figure.title} ({drawn.figure.source})", "",
                  *claims.markdown(drawn.claims), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def main(arguments=None):
    """Exit status: 0 done, whatever the claims; 1 something failed; 2 bad arguments."""
    p = parser()
    options = p.parse_args(arguments)
    for name in ("requests", "seeds", "processes"):
        value = getattr(options, name)
        if value is not None and value < 1:
            p.error(f"--{name} takes a whole number from 1 on, not {value}")
    figures = catalogue()
    if options.ids == [LIST]:
        print("\n".join(_told_list(figures)))
        return 0
    chosen = _chosen(options.ids, figures, p.error)
    costs = options.out / "costs"
    simulation = simulator.Simulator(options.binary, effort_of(options), costs,
                                     options.processes, options.seed)
    try:
        machines.write(costs)
        done = reproduce(chosen, simulation, options.out, lambda line: print(line, flush=True))
        if options.markdown:
            _write_markdown(options.markdown, done, simulation)
    except (simulator.SimulatorError, OSError) as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("reproduce: stopped", file=sys.stderr)
        return 1
    judged = [c for drawn in done for c in drawn.claims if c.holds is not None]
    print(f"{sum(c.holds for c in judged)} of {len(judged)} claims hold")
    return 0
