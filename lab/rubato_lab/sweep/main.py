# SPDX-License-Identifier: Apache-2.0
"""The commands sweep, status, report, query and merge of `rubato-lab`."""

import csv
import json
import sys
import time
from pathlib import Path
from statistics import fmean

from rubato_lab import program
from rubato_lab.program import RubatoError
from rubato_lab.report import main as report_main
from rubato_lab.report import sweeps
from rubato_lab.sweep import cluster, engine, intervals, spec as specs
from rubato_lab.sweep.store import OF_MACHINE, Store

SPEC_FILE = "sweep.json"
# Points that are tried before a sweep, shortly, so that a wrong option is told at once.
TRIED = 64
TRIED_REQUESTS = "1000"
SAMPLED = 5


def add_commands(commands):
    sweep = commands.add_parser("sweep", help="run every point of a specification")
    sweep.add_argument("spec", metavar="SPEC.toml")
    sweep.add_argument("--cluster", default="local", metavar="WHERE",
                       help=f"{cluster.TAKES} (default local: a worker for each CPU)")
    sweep.add_argument("--store", type=Path, metavar="DIR",
                       help="folder of the rows (default: SPEC.store)")
    again = sweep.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on: run what the store lacks")
    again.add_argument("--fresh", action="store_true",
                       help="from the start; rows that are there are moved aside")
    sweep.add_argument("--retries", type=int, default=2, metavar="N",
                       help="attempts more of a run that fails (default 2)")
    sweep.add_argument("--dry-run", action="store_true",
                       help="run nothing; say how much there is, and what it will cost")
    sweep.set_defaults(call=run_sweep)
    for name, call, about in (("status", run_status, "how far a sweep is"),
                              ("report", run_report, "a row for each point, with intervals")):
        one = commands.add_parser(name, help=about)
        one.add_argument("store", type=Path, metavar="STORE")
        one.set_defaults(call=call)
    one.add_argument("--output", metavar="FILE", help="write a page with figures instead, "
                     "- is stdout")
    query = commands.add_parser("query", help="SQL over the rows: the view `runs`")
    query.add_argument("store", type=Path, metavar="STORE")
    query.add_argument("sql", metavar="SQL")
    query.add_argument("--format", choices=("table", "csv", "json"), default="table")
    query.set_defaults(call=run_query)
    merge = commands.add_parser("merge", help="one sorted store of several")
    merge.add_argument("stores", type=Path, nargs="+", metavar="STORE")
    merge.add_argument("--output", type=Path, required=True, metavar="DIR")
    merge.set_defaults(call=run_merge)


def run_sweep(options):
    if options.retries < 0:
        raise RubatoError(f"--retries takes a whole number from 0 on, not {options.retries}",
                          status=engine.BAD_ARGUMENTS)
    where = options.store or Path(options.spec).with_suffix(".store")
    kind, size = cluster.check(options.cluster)
    spec = specs.load(options.spec)
    _try(spec)
    if options.dry_run:
        return _dry_run(spec, Store(where) if where.is_dir() else None, kind, size)
    store = Store(where, create=True)
    with store.writing():
        if options.fresh and store.parts():
            _say(f"rows from before are in {store.set_aside()}")
        if store.parts() and not options.resume:
            raise RubatoError(f"{where} holds rows: --resume goes on, --fresh starts again")
        plan = _plan(spec, store)
        _note(spec, store)
        return _run(plan, store, options)


def _run(plan, store, options):
    total, before = len(plan.spec.points), plan.done()
    _say(f"{total} points, {before} of them done; at least {_least(plan)} runs to come")
    if before == total:
        return 0
    progress = engine.Progress(plan)
    try:
        with cluster.connected(options.cluster) as (client, others_join):
            engine.Engine(client, plan, store, options.retries, others_join, _say).run(progress)
    except KeyboardInterrupt:
        _say(f"stopped; {progress.runs} runs are kept, and --resume goes on")
        return 1
    progress.tell(0, force=True)
    for (point, seed), why in list(plan.failed.items())[:10]:
        _say(f"failed: {_told(point)} seed={seed}: {why}")
    if plan.failed:
        _say(f"{len(plan.failed)} runs failed; --resume tries them again")
    return 1 if plan.failed else 0


def _least(plan):
    return sum(len(plan.lacking(point)) for point in plan.spec.points)


def _plan(spec, store):
    plan = engine.Plan(spec, {})
    if store:
        plan.figures = store.figures(plan.column())
    return plan


def _note(spec, store):
    """What `status` and `report` need to know of the sweep."""
    seeds = spec.seeds
    told = {"points": [p.key for p in spec.points], "axes": spec.axes, "version":
            spec.points[0].version, "seeds": vars(seeds)}
    try:
        (store.folder / SPEC_FILE).write_text(json.dumps(told), encoding="utf-8")
    except OSError as error:
        raise RubatoError(f"{store.folder / SPEC_FILE}: {error.strerror}") from error


def _try(spec):
    """Runs some points shortly, each value of each axis once. Raises RubatoError."""
    seen, tried = set(), 0
    for point in spec.points:
        new = set(point.options) - seen
        if new and tried < TRIED:
            seen |= new
            tried += 1
            _short_run(point, spec.seeds.first, TRIED_REQUESTS)


def _short_run(point, seed, requests=None):
    options = {name: list(values) for name, values in point.options}
    if requests:
        options = {n: v for n, v in options.items() if n not in ("until", "max-requests")}
        options["requests"] = requests
    words = program.words_of(options)
    began = time.monotonic()
    program.run(["sim", *words, "--seed", str(seed), "--threads", "1", "--json", "-"])
    return time.monotonic() - began


def _dry_run(spec, store, kind, size):
    plan = _plan(spec, store)
    lacking = [point for point in spec.points if plan.lacking(point)]
    runs, most = _least(plan), len(lacking) * spec.seeds.most
    print(f"{len(spec.points)} points, {len(spec.points) - len(lacking)} of them done; {runs} runs "
          f"to come, at most {most}")
    if lacking:
        chosen = lacking[::max(1, len(lacking) // SAMPLED)][:SAMPLED]
        each = fmean(_short_run(point, spec.seeds.first) for point in chosen)
        workers = size if kind == "local" else 1
        print(f"a run takes {each:.2f} s here (mean of {len(chosen)}); with {workers} "
              f"worker{'s' * (workers > 1)} about {_time(runs * each / workers)}, at most "
              f"{_time(most * each / workers)}")
    if kind == "slurm":
        made, jobs = cluster.slurm(size)
        with made:
            print(f"{jobs} jobs of:\n{made.job_script()}")
    return 0


def _time(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _known(store):
    try:
        found = json.loads((store.folder / SPEC_FILE).read_text(encoding="utf-8"))
        return found, specs.Seeds(**found["seeds"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RubatoError(f"{store.folder} is no store of a sweep: {SPEC_FILE}: {error}") from error


def run_status(options):
    store = Store(options.store)
    told, seeds = _known(store)
    figures = store.figures(seeds.column("load"))
    done = sum(intervals.wanted(seeds, figures.get(key, {})) <= len(figures.get(key, {}))
               for key in told["points"])
    runs = sum(len(figures.get(key, {})) for key in told["points"])
    print(f"{done}/{len(told['points'])} points done, {runs} runs, rubato {told['version']}, "
          f"{len(store.parts())} files")
    return 0


def run_report(options):
    store = Store(options.store)
    told, seeds = _known(store)
    metrics = list(dict.fromkeys((seeds.column("latency_us_p99"), "latency_us_p99",
                                  "latency_us_p999")))
    points = _points(store, told, metrics)
    if options.output:
        page = sweeps.page(options.store.name, told, metrics, points)
        report_main.write(page.html(), options.output)
        return 0
    lines = [[*told["axes"], "seeds", metrics[0], "+-", "load", "achieved_rps", "valid"]]
    for point in points:
        mean, width = point.figures[0]
        lines.append([*point.axes.values(), point.seeds, f"{mean:.6g}",
                      "?" if width is None else f"{width:.3g}", f"{point.load:.4g}",
                      f"{point.rate:.6g}", "yes" if point.valid else "no"])
    _table(lines)
    return 0


def _points(store, told, metrics):
    """[sweeps.Point] of the rows, in the order of the specification."""
    lists = ", ".join(f"list({metric} ORDER BY seed)" for metric in metrics)
    _, rows = store.query(f"SELECT point, any_value(options), avg(load), avg(achieved_rps), "
                          f"bool_and(valid), {lists} FROM runs GROUP BY point")
    order = {key: i for i, key in enumerate(told["points"])}
    rows = sorted((row for row in rows if row[0] in order), key=lambda row: order[row[0]])
    return [sweeps.Point(dict(zip(told["axes"], _axes(text, told["axes"]))), len(values[0]),
                         [(fmean(one), intervals.half_width(one)) for one in values],
                         load, rate, valid, json.loads(text))
            for _, text, load, rate, valid, *values in rows]


def _axes(options, axes):
    """The values of the axes in a point's options."""
    found = {name: values for name, values in json.loads(options)}
    for axis in axes:
        option, _, setting = axis.partition(".")
        values = [v.removeprefix(f"{setting}=") for v in found[option]
                  if not setting or v.startswith(f"{setting}=")]
        yield " ".join(values)


def run_query(options):
    names, rows = Store(options.store).query(options.sql)
    if options.format == "json":
        print(json.dumps([dict(zip(names, row)) for row in rows], default=str))
    elif options.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    else:
        _table([names, *rows])
    return 0


def run_merge(options):
    """Rows that two stores have must be the same; what the machine decided is left out."""
    merged = {}
    notes = []
    for folder in options.stores:
        store = Store(folder)
        notes.append(_known(store)[0])
        for row in store.rows(without=OF_MACHINE):
            if merged.setdefault(row["key"], row)["report"] != row["report"]:
                raise RubatoError(f"{folder} has another result than the stores before it for "
                                  f"run {row['key']}, seed {row['seed']}: {row['options']}")
    output = Store(options.output, create=True)
    with output.writing():
        if output.parts():
            raise RubatoError(f"--output {options.output} holds rows already")
        rows = sorted(merged.values(), key=lambda row: row["key"])
        output.write(rows, output.folder / "part-0000001.parquet", without=OF_MACHINE)
        points = list(dict.fromkeys(key for note in notes for key in note["points"]))
        (output.folder / SPEC_FILE).write_text(json.dumps({**notes[0], "points": points}),
                                               encoding="utf-8")
    print(f"{len(rows)} runs in {options.output}")
    return 0


def _told(point):
    return " ".join(f"{name}={','.join(values)}" for name, values in point.options)


def _table(lines):
    texts = [[str(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*texts)]
    for line in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def _say(line):
    print(f"rubato-lab: {line}", file=sys.stderr, flush=True)
