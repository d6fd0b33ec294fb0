# SPDX-License-Identifier: Apache-2.0
"""Files and words of a reproduced figure: CSV, SVG, claims."""

import csv

from rubato_lab import style
from rubato_lab.reproduce import claims, plot

PERCENTILES = ("p50", "p99", "p999")


def _columns(x, run):
    """Name and value of each column of the CSV but the line's name."""
    yield "x", x
    yield from (("load", run.load), ("offered_rps", run.offered_rps),
                ("achieved_rps", run.achieved_rps), ("loss", run.loss))
    for p in PERCENTILES:
        yield f"slowdown_{p}", run.slowdown(p)
    yield "slowdown_p999_half_width", run.half_width("slowdown", "p999")
    yield "worst_type_slowdown_p999", run.worst_slowdown()
    for p in PERCENTILES:
        yield f"latency_{p}_us", run.latency_us(p)
    yield "latency_p999_half_width_us", run.half_width("latency_us", "p999")
    yield "utilization", run.utilization
    if run.elastic:
        for key in ("cores", "best_effort_share", "unsent_by_clients", "rejected"):
            yield key, run.elastic[key]
        yield "credits", run.elastic["credits"]["total"]
    for counter in ("preemptions", "preemptions_avoided", "steals", "stolen", "migrations"):
        yield counter, run.counters[counter]


def _cell(value):
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_csv(drawn, file):
    writer = csv.writer(file, lineterminator="\n")
    header = None
    for name, points in drawn.curves.items():
        for x, run in points:
            columns = list(_columns(x, run))
            if header is None:
                header = ["line", *(column for column, _ in columns)]
                writer.writerow(header)
            writer.writerow([name, *(_cell(value) for _, value in columns)])


def write_claims(drawn, file):
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["figure", "claim", "source", "kind", "paper", "tolerance", "ours", "null",
                     "unit", "verdict", "null_holds", "remark", "each_seed"])
    for c in drawn.claims:
        writer.writerow([drawn.figure.id, c.what, c.where, c.kind.strip() or "equals",
                         _cell(c.paper), _cell(c.tolerance), _cell(c.ours), _cell(c.null), c.unit,
                         c.verdict, _cell(c.null_holds), c.remark, " ".join(map(_cell, c.each))])


def save(drawn, folder):
    """Writes ID.claims.csv and, if there is something to draw, ID.csv and ID.svg into `folder` and
    returns their paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    base = drawn.figure.id
    paths = [folder / f"{base}{end}" for end in (".claims.csv", ".csv", ".svg")]
    with open(paths[0], "w", encoding="utf-8", newline="") as file:
        write_claims(drawn, file)
    if not drawn.curves:
        return paths[:1]
    with open(paths[1], "w", encoding="utf-8", newline="") as file:
        write_csv(drawn, file)
    paths[2].write_text(style.svg(plot.draw(drawn)), encoding="utf-8")
    return paths


def told(drawn):
    """Lines for a terminal: the figure, its claims, what is not there yet."""
    figure = drawn.figure
    lines = [f"{figure.id}: {figure.title} ({figure.source})", "", *claims.table(drawn.claims)]
    if drawn.probes:
        lines += ["", "runs that isolate a cause:",
                  *(f"  {probe.what}: {probe.text}" for probe in drawn.probes)]
    remarks = [f"  {c.what}: {c.remark}" for c in drawn.claims if c.remark]
    if remarks:
        lines += ["", "remarks:", *remarks]
    notes = [f"  {line.name}: {line.note}" for line in figure.lines if line.note]
    if notes:
        lines += ["", "lines:", *notes]
    if figure.notes:
        lines += ["", "notes:", *(f"  {topic}: {words}" for topic, words in figure.notes)]
    if figure.not_yet:
        lines += ["", "not yet: " + ", ".join(figure.not_yet)]
    return lines
