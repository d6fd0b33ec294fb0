# SPDX-License-Identifier: Apache-2.0
"""`make multicore`: plans the cells, measures them in turns, writes the JSON and the SVG."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

from rubato_lab import children, demo, machine, policies, style, units
from rubato_lab.extras import need
from rubato_lab.multicore import figure, noise, options, record, topology
from rubato_lab.multicore.cells import (DATAPATHS, LOOPBACK, TAIL, TCP, THROUGHPUT, Cell,
                                        CellFailed, in_turn)
from rubato_lab.multicore.loopback import Loopback
from rubato_lab.multicore.tcp import Tcp
from rubato_lab.program import RubatoError

FEWEST_CPUS = 4
SILENCE_S = 8.0
COLUMNS = 100
# What a run takes beside its length, for the estimate.
OVERHEAD_S = {LOOPBACK: 0.6, TCP: 0.6}
BAD_OPTIONS, INTERRUPTED = 2, 128 + signal.SIGINT


class Refused(Exception):
    """Told as it is, in one line; exit status 2."""


class Voice:
    """Prints lines, and one of its own after a while without any."""

    def __init__(self):
        self.last = time.monotonic()
        self.doing = ""

    def say(self, text):
        print(text, flush=True)
        self.last = time.monotonic()

    def beat(self):
        if time.monotonic() - self.last > SILENCE_S:
            self.say(f"    {self.doing} goes on, {time.strftime('%H:%M:%S')}")


@dataclass
class Plan:
    """What will be measured and where. `cpus` are the allowed ones, in the order of their use."""

    opts: object
    cpus: list
    names: list
    counts: list
    cells: list
    forced: bool


@dataclass
class Found:
    """What was measured so far."""

    mean_us: float = 0.0
    checks: list = field(default_factory=list)
    complete: bool = False


def chosen_counts(opts, cpus):
    """Raises Refused."""
    most = topology.most_workers(len(cpus), opts.workers_per_generator)
    if most == 0:
        raise Refused(f"one worker and its generator need 2 CPUs, this process may use {len(cpus)}")
    if opts.workers is None:
        counts = topology.worker_counts(most)
        return topology.thinned(counts, options.QUICK_COUNTS) if opts.quick else counts
    if opts.workers[-1] > most:
        raise Refused(f"--workers takes numbers from 1 to {most} on these {len(cpus)} CPUs, "
                      f"not {opts.workers[-1]}")
    return opts.workers


def chosen_policies(opts):
    """Raises Refused, and what policies.live() does."""
    known = [policy["name"] for policy in policies.live(opts.binary)]
    wanted = opts.policies
    if wanted is None:
        wanted = (",".join(name for name in options.QUICK_POLICIES if name in known)
                  if opts.quick else "all")
    try:
        return list(dict.fromkeys(policies.chosen(wanted, known, "--policies")))
    except ValueError as error:
        raise Refused(str(error)) from error


def place(datapath, cpus, workers, opts):
    if datapath == LOOPBACK:
        return topology.beside_sender(cpus, workers)
    generators = topology.generators_for(workers, opts.workers_per_generator)
    return topology.beside_generators(cpus, workers, generators)


def check_machine(opts, allowed):
    """Raises Refused."""
    if len(allowed) < FEWEST_CPUS and not opts.force:
        raise Refused(f"needs {FEWEST_CPUS} CPUs or more, this process may use {len(allowed)}; "
                      "--force measures with what fits")
    if shutil.which("taskset") is None:
        raise Refused("taskset is missing; it pins the server")


def prepare(folder):
    """What could not be written is not measured. Raises Refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refused(f"--out takes a folder that can be written to, not {folder}: "
                      f"{error.strerror}") from error


def make_plan(opts, allowed, names):
    """Raises Refused."""
    cpus = topology.in_order(topology.read(allowed))
    counts = chosen_counts(opts, cpus)
    cells = [Cell(datapath, name, workers, place(datapath, cpus, workers, opts))
             for datapath in opts.datapaths for workers in counts for name in names]
    return Plan(opts, cpus, names, counts, cells, len(allowed) < FEWEST_CPUS)


def estimate_s(plan):
    runs = 2 * plan.opts.rounds
    return sum(runs * (plan.opts.seconds + OVERHEAD_S[cell.datapath]) for cell in plan.cells)


def folded(text):
    return textwrap.fill(text, COLUMNS, subsequent_indent=" " * 11)


def describe(plan, version, say):
    facts, cpus, opts = machine.describe(), plan.cpus, plan.opts
    say(f"program    {version}")
    say(f"machine    {facts['cpu']}, {len(cpus)} CPUs on {topology.cores(cpus)} cores in "
        f"{topology.packages(cpus)} package(s), {facts['memory_gib']} GiB, {facts['kernel']}")
    if plan.forced:
        say(f"           FORCED on {len(cpus)} CPUs: this says nothing about many")
    say(folded(f"cells      {', '.join(plan.opts.datapaths)}; workers "
               f"{', '.join(map(str, plan.counts))}; {', '.join(plan.names)}"))
    say(folded(f"rounds     {opts.rounds} for the throughput, then {opts.rounds} for the tail at "
               f"{units.percent(opts.share)} of it, {opts.seconds:g} s each; about "
               f"{max(estimate_s(plan) / 60, 1):.0f} min"))


def look(plan, found, when, say):
    """Records how still the machine is now."""
    cpus = sorted({cpu for cell in plan.cells for cpu in cell.place.cpus})
    check = noise.check(cpus, when)
    found.checks.append(check)
    warning = "" if check.quiet else "  NOISY"
    say(f"  noise    {100 * check.lost_share:.2f} % of spinning lost, at most "
        f"{100 * check.worst_share:.2f} % (CPU {check.worst_cpu}), longest "
        f"{units.latency(check.longest_us)}; steal {100 * check.steal_share:.2f} %, others "
        f"{100 * check.foreign_share:.1f} %{warning}")


def rate_of(cell, share):
    """What is offered for the tail; None without a throughput."""
    spread = cell.throughput()
    return share * spread.mid if spread else None


def told(cell, kind, run):
    figures = f"{units.count(run.achieved_rps)}/s"
    if kind == TAIL and run.types:
        name, first = next(iter(run.types.items()))
        figures = (f"{name} p99 {units.latency(first['latency_us']['p99'])} at "
                   f"{units.count(run.offered_rps)}/s")
    state = f"  DISTURBED: {run.disturbed}" if run.disturbed else ""
    return f"  {cell.datapath:<8} {cell.workers:>3} {cell.policy:<14} {figures}{state}"


def measure_cell(plan, found, drivers, cell, kind, turn, voice):
    """One run, kept in the cell; a failure is kept as well."""
    rate = rate_of(cell, plan.opts.share) if kind == TAIL else None
    if cell.hopeless or (kind == TAIL and rate is None):
        return
    voice.doing = f"{kind} of {cell.name}"
    try:
        run = drivers[cell.datapath].run(cell, kind, plan.opts.seed + turn, rate, found.mean_us)
    except CellFailed as error:
        cell.failures.append(f"{kind}: {error}")
        voice.say(f"  {cell.name} FAILED: {error}")
        return
    run.round, run.check = turn, len(found.checks) - 1
    cell.runs[kind].append(run)
    voice.say(told(cell, kind, run))


def mean_service_us(plan, loopback):
    """Of the workload. Raises Refused and CellFailed."""
    pair = topology.beside_sender(plan.cpus, 1).cpus
    try:
        return loopback.mean_service_us(pair, plan.names[0])
    except CellFailed as error:
        if "--workload" in str(error):
            raise Refused(str(error).removeprefix("rubato: ")) from error
        raise


def measure(plan, found, folder, voice):
    """Fills in the plan's cells and `found`, so that an interrupted run keeps what it has. Raises
    Refused, CellFailed and ChildFailed."""
    opts = plan.opts
    made = {LOOPBACK: Loopback, TCP: Tcp}
    drivers = {name: made[name](opts.binary, folder, opts.workload, opts.seconds, voice.beat)
               for name in DATAPATHS}
    found.mean_us = mean_service_us(plan, drivers[LOOPBACK])
    voice.say(f"workload   {opts.workload}: a request takes {units.latency(found.mean_us)}, "
              f"a worker serves at most {units.count(1e6 / found.mean_us)}/s")
    for kind in (THROUGHPUT, TAIL):
        for turn, cells in in_turn(plan.cells, opts.rounds):
            voice.say(f"{kind}, round {turn + 1} of {opts.rounds}")
            look(plan, found, f"{kind} {turn + 1}", voice.say)
            for cell in cells:
                measure_cell(plan, found, drivers, cell, kind, turn, voice)
    look(plan, found, "end", voice.say)
    found.complete = True


def head_of(plan, found, version, arguments, took_s):
    opts = plan.opts
    facts = {**machine.describe(), "allowed_cpus": len(plan.cpus),
             "physical_cores": topology.cores(plan.cpus),
             "packages": topology.packages(plan.cpus),
             "cpus": [{"cpu": c.number, "core": c.core, "package": c.package}
                      for c in sorted(plan.cpus, key=lambda c: c.number)]}
    return {"version": version, "commit": demo.commit(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
            "command": shlex.join(["bench/multicore.py", *arguments]), "took_s": round(took_s),
            "machine": facts,
            "settings": {"workload": opts.workload, "mean_service_us": found.mean_us,
                         "share": opts.share, "seconds": opts.seconds, "rounds": opts.rounds,
                         "seed": opts.seed, "datapaths": opts.datapaths, "workers": plan.counts,
                         "policies": plan.names, "quick": opts.quick, "forced": plan.forced,
                         "workers_per_generator": opts.workers_per_generator,
                         "disturbed_above": noise.MOST_LOST}}


def write(folder, texts, say):
    """Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        say(f"written    {demo.shown(folder / name)}")


def _tail(key):
    return lambda cell: cell["tail"]["types"][0][key] if cell["tail"] else None


# (what, kind, its spread in a cell, how it is written, whether a disturbance is marked)
BLOCKS = (("requests/s", THROUGHPUT, lambda cell: cell["throughput_rps"], units.count, True),
          ("p99 of the first type", TAIL, _tail("p99_us"), units.latency, True),
          ("the same untouched by stalls", TAIL, _tail("undisturbed_p99_us"), units.latency, False))


def block(data, datapath, what, kind, value, text, marked):
    """Lines: a row per policy, a column per number of workers."""
    counts = data["settings"]["workers"]
    by_place = {(cell["policy"], cell["workers"]): cell for cell in data["cells"]
                if cell["datapath"] == datapath}

    def figure_of(cell):
        spread = value(cell)
        mark = "!" if marked and spread and cell["disturbed"][kind] else " "
        return text(spread["median"] if spread else None) + mark

    lines = ["", f"{f'{datapath}, {what}':<40}" + "".join(f"{f'{n} w ':>12}" for n in counts)]
    for name in data["settings"]["policies"]:
        cells = [figure_of(by_place[name, count]) for count in counts]
        lines.append(f"  {name:<38}" + "".join(f"{one:>12}" for one in cells))
    return lines


def table(data):
    lines = [line for datapath in data["settings"]["datapaths"] for one in BLOCKS
             for line in block(data, datapath, *one)]
    disturbed = any(flag for cell in data["cells"] for flag in cell["disturbed"].values())
    return lines + (["", "! = the machine disturbed half of the runs or more", ""]
                    if disturbed else [""])


def _terminated(*_):
    raise SystemExit(128 + signal.SIGTERM)


def measured(opts, arguments, voice):
    """(record, exit status). Raises Refused, what demo.version_of() does and what measure() does
    before there is anything to keep."""
    allowed = os.sched_getaffinity(0)
    check_machine(opts, allowed)
    version = demo.version_of(opts.binary)
    prepare(opts.out)
    plan = make_plan(opts, allowed, chosen_policies(opts))
    describe(plan, version, voice.say)
    found, status = Found(), 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            measure(plan, found, Path(folder), voice)
        except KeyboardInterrupt:
            status = INTERRUPTED
            voice.say("interrupted")
    if any(cell.failures for cell in plan.cells):
        status = status or 1
    if not any(cell.runs[THROUGHPUT] for cell in plan.cells):
        return None, status or 1
    head = head_of(plan, found, version, arguments, time.monotonic() - began)
    return record.to_object(head, found.checks, plan.cells, found.complete), status


def main(arguments=None):
    """Exit status: 0 measured, 1 something failed, 2 bad options or too few CPUs, 130
    interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    opts = options.parse(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(encoding="utf-8", errors="replace")
    voice = Voice()
    try:
        need("matplotlib")
        data, status = ((record.load(opts.source), 0) if opts.source
                        else measured(opts, arguments, voice))
        if data is not None:
            for line in table(data):
                voice.say(line)
            texts = {"multicore.svg": style.svg(figure.draw(data))}
            if not opts.source:
                texts["multicore.json"] = json.dumps(data, indent=1) + "\n"
            write(opts.out, texts, voice.say)
        return status
    except Refused as error:
        print(f"multicore: {error}", file=sys.stderr)
        return BAD_OPTIONS
    except (demo.DemoFailed, record.RecordError, CellFailed, RubatoError, children.ChildFailed,
            OSError, subprocess.SubprocessError) as error:
        print(f"multicore: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
