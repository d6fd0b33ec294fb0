# SPDX-License-Identifier: Apache-2.0
"""The papers' figures for the page that simulates (site/): what was found, from the kept records,
and the runs that draw a figure again, as arguments of `rubato`."""

import json
import tempfile
from pathlib import Path

from rubato_lab.reproduce import claims, machines, page, records
from rubato_lab.reproduce.papers import papers
from rubato_lab.reproduce.simulator import Offered

COSTS = "costs"  # the folder of cost files that the arguments name


def _line(line):
    return {"name": line.name, "note": line.note, "points": [
        {"x": point.x,
         "arguments": [*point.scenario.arguments(Path(COSTS)),
                       *Offered(point.load, point.rate_rps).arguments()]}
        for point in line.points]}


def _figure(figure, record):
    rows = [dict(zip(("what", "paper", "held", "ours", "null", "verdict"), claims.cells(claim)),
                 where=claim.where) for claim in record.claims]
    return {"id": figure.id, "title": figure.title, "source": figure.source,
            "about": figure.about, "axis": figure.x_axis,
            "panels": [panel.y_axis for panel in figure.panels],
            "requests": record.requests, "seeds": record.seeds, "claims": rows,
            "notes": [*figure.notes, *((probe.what, probe.text) for probe in record.probes)],
            "missing": list(figure.not_yet),
            "lines": [_line(line) for line in figure.lines]}


def content(found):
    """The object that the page is given. `found` are the records. Raises page.Stale."""
    found = page.checked(found)
    with tempfile.TemporaryDirectory() as folder:
        machines.write(Path(folder))
        costs = {f"{COSTS}/{file.name}": file.read_text(encoding="utf-8")
                 for file in sorted(Path(folder).iterdir())}
    listed = [{"name": paper.name,
               "figures": [_figure(figure, found[figure.id]) for figure in paper.figures],
               "missing": list(paper.missing)} for paper in papers()]
    return {"files": costs, "papers": listed}


def write(path):
    """Raises OSError, ValueError and page.Stale."""
    path.write_text(json.dumps(content(records.load()), ensure_ascii=False), encoding="utf-8")
