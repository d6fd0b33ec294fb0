# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: a figure for each metric against an axis of numbers, a row for each point.
Pure functions."""

import shlex
from dataclasses import dataclass

from rubato_lab import units
from rubato_lab.report import chart
from rubato_lab.report.page import Page


@dataclass(frozen=True)
class Point:
    """A point of a sweep. `axes`: {axis: value, as it was given}; `figures`: of each metric its
    mean over the seeds and half of its 95 % interval, None of one seed; `load` and `rate` are
    means."""

    axes: dict
    seeds: int
    figures: list
    load: float
    rate: float
    valid: bool
    options: list


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None


def abscissa(points):
    """The axis of numbers with the most values, the load if it is one; None without any."""
    found = {}
    for axis in (points[0].axes if points else ()):
        values = {_number(point.axes[axis]) for point in points}
        if None not in values and len(values) > 1:
            found[axis] = len(values) + (1000 if axis == "load" else 0)
    return max(found, key=found.get, default=None)


def _kind(metric):
    return chart.LATENCY if metric.startswith("latency_us") else chart.RATIO


def _text(metric, value):
    return units.latency(value) if _kind(metric) == chart.LATENCY else units.significant(value)


def figure(metric, points, index):
    """Of a metric, the one of that number in every point. Empty without an axis of numbers."""
    axis = abscissa(points)
    lines = {}
    for point in (points if axis else ()):
        name = ", ".join(value for key, value in point.axes.items() if key != axis) or metric
        mean, width = point.figures[index]
        x = _number(point.axes[axis])
        lines.setdefault(name, []).append(
            (x, mean) if width is None else (x, mean, mean - width, mean + width))
    return chart.Chart(
        f"{metric.replace('_', ' ')} by {axis}", chart.Axis(axis or "", chart.PLAIN),
        chart.Axis(metric.replace("_", " "), _kind(metric), chart.LOGARITHMIC),
        tuple(chart.Line(name, tuple(sorted(found))) for name, found in lines.items()),
        "Means over the seeds; bands are 95 % intervals.")


def _rows(metrics, points):
    for point in points:
        cells = [(_text(metric, mean), "" if width is None else f"± {_text(metric, width)}")
                 for metric, (mean, width) in zip(metrics, point.figures)]
        name = ", ".join(f"{axis} {value}" for axis, value in point.axes.items())
        yield [name if point.valid else f"{name} (invalid)", str(point.seeds), *cells,
               units.significant(point.load), f"{units.count(point.rate)}/s"]


def _command(options):
    words = [word for name, values in options for value in values for word in (f"--{name}", value)]
    return "rubato sim " + shlex.join(words)


def page(name, told, metrics, points):
    """A Page. `told` is what the store notes of its specification."""
    runs = sum(point.seeds for point in points)
    made = Page(f"Sweep {name}", f"{len(points)} of {len(told['points'])} points, {runs} runs, "
                f"rubato {told['version']}.")
    if invalid := sum(not point.valid for point in points):
        made.words(f"{invalid} points have runs that are not valid.", "missed")
    for i, metric in enumerate(metrics):
        made.chart(figure(metric, points, i))
    made.heading("Points")
    made.table(["point", "seeds", *(metric.replace("_", " ") for metric in metrics), "load",
                "served"], _rows(metrics, points))
    if points:
        made.heading("A point again")
        made.commands([_command(points[0].options)])
    return made
