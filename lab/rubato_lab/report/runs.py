# SPDX-License-Identifier: Apache-2.0
"""The page of one or several runs, live or simulated: `rubato.run/1`, `rubato.sweep/1`,
`rubato.compare/1`, as `--json` of sim and load, and `report merge`, write them. Pure functions."""

import json
import shlex
from pathlib import Path

from rubato_lab import histogram, stats, units
from rubato_lab.program import RubatoError
from rubato_lab.report import chart
from rubato_lab.report.page import Page

RUN = "rubato.run/1"
SEVERAL = ("rubato.sweep/1", "rubato.compare/1")
PERCENTILES = ("mean", "p50", "p90", "p99", "p999", "max")
TITLES = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9", "max": "max"}
KEY = "latency_histogram_ns"


def read(path):
    """The runs of a file, each of which makes a page of its own. Raises RubatoError."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or f"no JSON: {error}"
        raise RubatoError(f"{path}: {why}", 2) from error
    runs = found.get("runs") if isinstance(found, dict) and found.get("schema") in SEVERAL \
        else [found]
    good = isinstance(runs, list) and runs and all(
        isinstance(run, dict) and run.get("schema") == RUN for run in runs)
    if not good:
        raise RubatoError(f"{path} is no {RUN}, {' or '.join(SEVERAL)}", 2)
    for run in runs:
        try:
            page([run]).body()
        except KeyError as error:
            raise RubatoError(f"{path}: a run lacks {error}", 2) from error
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise RubatoError(f"{path}: a field has no value of its type: {error}", 2) from error
    return runs


# What differs between the points of a line by load.
WITH_LOAD = ("load", "rate", "seed")


def _line(run):
    """Equal for runs that differ in their load alone."""
    head = _head(run)
    return (*(head[key] for key in head if key not in WITH_LOAD), run.get("cost_model"),
            json.dumps(run.get("settings") or {}, sort_keys=True))


def _head(run):
    """What tells a run from others, most telling first."""
    live = run["kind"] == "live"
    return {"policy": run["policy"], "target": run.get("target", "") if live else "",
            "loop": f"{run['loop']} loop" if run.get("loop") else "",
            "workload": run["workload"],
            "workers": f"{run['workers']} workers" if run["workers"] else "",
            "load": "" if run["load"] is None else f"load {run['load']:.3g}",
            "rate": f"{units.count(run['offered_rps'])}/s", "seed": f"seed {run['seed']}"}


def names(runs, but=()):
    """A name for each run: the parts in which they differ, without those of `but`. The same name
    twice gets a number."""
    heads = [{key: text for key, text in _head(run).items() if key not in but} for run in runs]
    differing = [key for key in heads[0] if len({head[key] for head in heads}) > 1]
    if "load" in differing or "loop" in differing:
        differing = [key for key in differing if key != "rate"]
    if len(differing) > 1:
        differing = [key for key in differing if key != "seed"] or differing
    found = [", ".join(filter(None, (head[key] for key in differing))) or head["policy"]
             or head["target"] for head in heads]
    return [f"{name} ({i + 1})" if found.count(name) > 1 else name
            for i, name in enumerate(found)]


def _counts(run, type_name=None):
    types = [one for one in run["types"] if type_name in (None, one["name"]) and KEY in one]
    return histogram.merged(one[KEY] for one in types)


def _all(run):
    """The name of all types of a run together: one that none of them has."""
    name = "all"
    while any(one["name"] == name for one in run["types"]):
        name += " types"
    return name


def _curve(counts):
    return tuple(stats.thinned(histogram.ccdf(counts))) if counts else ()


def distribution(runs, titles):
    """Of each run, or of a single run's types."""
    x = chart.Axis("latency", chart.LATENCY, chart.LOGARITHMIC)
    y = chart.Axis("share of requests beyond", chart.SHARE, chart.LOGARITHMIC)
    loads = {run["load"] for run in runs} - {None}
    note = ""
    if len(loads) > 1:  # a curve for each would be a thicket
        highest = max(loads)
        kept = [i for i, run in enumerate(runs) if run["load"] in (highest, None)]
        runs, titles = [runs[i] for i in kept], [titles[i] for i in kept]
        note = f"Of the runs with a load, those at {highest:.3g}."
    if len(runs) == 1:
        lines = [chart.Line(one["name"], _curve(_counts(runs[0], one["name"])))
                 for one in runs[0]["types"]]
        if len(lines) > 1:
            lines.append(chart.Line(_all(runs[0]), _curve(_counts(runs[0]))))
    else:
        lines = [chart.Line(name, _curve(_counts(run))) for name, run in zip(titles, runs)]
    return chart.Chart("How many requests take longer", x, y, tuple(lines), note, steps=True)


def _width(run, key):
    return (run.get("confidence", {}).get("latency_us") or {}).get(key)


def _point(run, x, key):
    value, width = run["latency_us"][key], _width(run, key)
    return (x, value) if width is None else (x, value, value - width, value + width)


def _bands_note(known):
    """`known` says of each point whether it has an interval."""
    if not any(known):
        return ""
    unknown = "" if all(known) else "; where one narrows to a point, that point's is not known"
    return f"Bands are 95 % intervals{unknown}."


def against_load(runs, key="p99"):
    """A line for runs that differ in nothing but their load, or where no load came twice, their
    seed; empty without several loads."""
    runs = [run for run in runs if run["load"] is not None]
    points = [(_line(run), run["load"]) for run in runs]
    by_seed = len(set(points)) < len(points)
    lines = {}
    for run in runs:
        lines.setdefault((_line(run), run["seed"] if by_seed else None), []).append(run)
    lines = {kind: found for kind, found in lines.items()
             if len({run["load"] for run in found}) > 1}
    titles = names([found[0] for found in lines.values()],
                   but=WITH_LOAD[:-1] if by_seed else WITH_LOAD) if lines else []
    return chart.Chart(
        f"{TITLES[key]} of all requests by load", chart.Axis("load", chart.RATIO),
        chart.Axis(f"{TITLES[key]} latency", chart.LATENCY, chart.LOGARITHMIC),
        tuple(chart.Line(name, tuple(sorted(_point(run, run["load"], key) for run in found)))
              for name, found in zip(titles, lines.values())),
        _bands_note([_width(run, key) is not None for run in runs]))


def timeline(run, key="p99"):
    found = run.get("timeline") or {}
    lines = tuple(chart.Line(one["name"], tuple(
        (slice_["start_s"], slice_["latency_us"][one["name"]][key])
        for slice_ in found.get("slices", ())
        if slice_["latency_us"].get(one["name"], {}).get("count"))) for one in run["types"])
    return chart.Chart(
        f"{TITLES[key]} over the run", chart.Axis("seconds into the run"),
        chart.Axis(f"{TITLES[key]} latency", chart.LATENCY, chart.LOGARITHMIC), lines,
        f"A value for each {found.get('slice_s', 0) * 1000:g} ms.")


def _cell(values, widths, key):
    value, width = values.get(key), (widths or {}).get(key)
    if value is None:
        return "-"
    return units.latency(value) if not width else (units.latency(value),
                                                   f"± {units.latency(width)}")


def _row(name, part, count, widths):
    cells = [_cell(part["latency_us"], widths, key) for key in PERCENTILES]
    if not count:
        cells = ["-"] * len(cells)
    failed = [units.count(part.get(key, 0)) for key in ("refused", "errors", "lost")]
    return [name, units.count(count), *cells, *failed]


def table_rows(runs, titles):
    rows = []
    for name, run in zip(titles, runs):
        confidence = run.get("confidence", {})
        widths = confidence.get("types") or [{}] * len(run["types"])
        for one, width in zip(run["types"], widths):
            title = one["name"] if len(runs) == 1 else f"{name}: {one['name']}"
            rows.append(_row(title, one, one["count"], width.get("latency_us")))
        if len(run["types"]) > 1:
            title = _all(run) if len(runs) == 1 else f"{name}: {_all(run)}"
            rows.append(_row(title, run, sum(one["count"] for one in run["types"]),
                             confidence.get("latency_us")))
    return rows


def verdict(run):
    if run["valid"]:
        return run.get("verdict") or "valid"
    why = run.get("invalid_reason") or ", ".join(run.get("verdict_reasons") or []) \
        or run.get("verdict") or "its figures are not to be trusted"
    return f"INVALID: {why}"


def noise_rows(runs, titles):
    """Of live runs; empty without any."""
    rows = []
    for name, run in zip(titles, runs):
        noise, lag = run.get("noise"), run.get("send_lag_us") or {}
        if noise:
            steal = noise.get("steal_percent")
            rows.append([name, f"{noise['gaps_over_100us_per_s']:.1f}",
                         units.latency(noise["max_gap_us"]), units.latency(lag.get("p99")),
                         units.count(noise["stalls"]), f"{noise['stalled_ms']:.0f} ms",
                         "-" if steal is None else f"{steal:.1f} %"])
    return rows


def command(run):
    """A line that repeats the run, as far as its report tells."""
    if run.get("command"):
        return run["command"]
    words = ["rubato", "sim", "--policy", run["policy"], "--workers", run["workers"],
             "--workload", run["workload"], "--load", f"{run['load'] or 0:.6g}", "--seed",
             run["seed"], "--requests", run["requests"]]
    if run.get("cost_model"):
        words += ["--costs", run["cost_model"]]
    return shlex.join(str(word) for word in words)


def _facts(run):
    yield "version", run["version"]
    machine = run.get("machine") or {}
    if machine.get("cpu"):
        yield "machine", (f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}, "
                          f"virtualised: {machine['virtualised']}")
    for key in ("kind", "policy", "workers", "workload", "load", "offered_rps", "achieved_rps",
                "seed", "target", "arrivals", "loop", "cost_model", "utilization", "wall_s"):
        if run.get(key) not in (None, "", 0):
            value = run[key]
            yield key.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else value
    for key, value in (run.get("settings") or {}).items():
        yield key.replace("_", " "), value


def title_of(runs, titles):
    if len(runs) == 1:
        run = runs[0]
        what = run["target"] if run.get("target") else f"{run['policy']}, {run['workload']}"
        return f"{what}: p99 {units.latency(run['latency_us']['p99'])}"
    workloads = {run["workload"] for run in runs}
    if len(workloads) == 1 and all(run["kind"] != "live" for run in runs) \
            and len({run["load"] for run in runs}) > 1:
        policies = list(dict.fromkeys(run["policy"] for run in runs))
        return f"{', '.join(policies)} on {runs[0]['workload']} at several loads"
    best = min(zip(runs, titles), key=lambda pair: (not pair[0]["valid"],
                                                    pair[0]["latency_us"]["p99"]))
    return (f"{len(runs)} runs: the lowest p99, {units.latency(best[0]['latency_us']['p99'])}, "
            f"is that of {best[1]}")


def page(runs):
    """A Page of at least one run."""
    titles = names(runs)
    total = sum(run["requests"] for run in runs)
    kinds = dict.fromkeys("live" if run["kind"] == "live" else "simulated" for run in runs)
    made = Page(title_of(runs, titles), f"{units.count(total)} requests, {' and '.join(kinds)}.")
    for name, run in zip(titles, runs):
        if not run["valid"]:
            made.words(f"{name}: {verdict(run)}", "missed")
    for key in ("p99", "p999"):
        made.chart(against_load(runs, key))
    made.chart(distribution(runs, titles))
    made.heading("Latencies")
    made.table(["", "requests", *TITLES.values(), "refused", "errors", "lost"],
               table_rows(runs, titles))
    for name, run in zip(titles, runs):
        drawing = timeline(run)
        if not drawing.is_empty and len(runs) > 1:
            made.heading(name)
        made.chart(drawing)
    if rows := noise_rows(runs, titles):
        made.heading("Noise of the machine")
        made.words("None of it was subtracted from a figure above.")
        made.table(["", "gaps over 100 µs per s", "longest gap", "send lag p99", "stalls",
                    "stalled", "stolen CPU"], rows)
    made.heading("Settings")
    for name, run in zip(titles, runs):
        if len(runs) > 1:
            made.words(f"{name}: {verdict(run)}")
        made.facts([*([] if len(runs) > 1 else [("verdict", verdict(run))]), *_facts(run)])
    made.heading("The same again")
    made.commands([command(run) for run in runs])
    return made
