# SPDX-License-Identifier: Apache-2.0
"""The figure of the README: how many requests waited longer than x."""

import statistics
from dataclasses import dataclass, field

from rubato_lab import labels, stats, svg, units

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 106, 58
P999 = 0.001
# A curve ends where fewer requests than this remain: what lies beyond is chance.
LEAST_BEYOND = 10
# A shorter arrow than this has no room for its words.
LEAST_ARROW = 110
LABEL_SHARES = (0.004, 0.002, 0.0015, 0.02, 0.01, 0.05, 0.0006, 0.0003, 0.15)


@dataclass
class Series:
    """One contender. `runs` are (ccdf, count) per repeat, `p999_us` is the median of their p99.9
    (None: the curve's own); colour and dash go by `slot`. `curve` is the median of the repeats at
    each share, so that it goes through every median that is quoted beside it."""

    name: str
    slot: int
    runs: list
    p999_us: float | None = None
    curve: list = field(init=False)

    def __post_init__(self):
        self.curve = stats.median_ccdf(ccdf for ccdf, _ in self.runs)
        if self.p999_us is None:
            self.p999_us = stats.value_at(self.curve, P999)

    @property
    def count(self):
        """Of one repeat, as the curve is."""
        return statistics.median(count for _, count in self.runs)


@dataclass(frozen=True)
class Words:
    """Everything a figure says."""

    title: str
    subtitle: str
    x_axis: str
    y_axis: str
    note: str = ""


def _frame(words, height, parts):
    note = [svg.text(20, 68, words.note, "sub")] if words.note else []
    return [svg.text(20, 30, words.title, "title"), svg.text(20, 51, words.subtitle, "sub"),
            *note, *parts, svg.text(WIDTH - RIGHT, height - 14, words.x_axis, "unit", "end")]


def _lowest_share(series):
    fewest = min(s.count for s in series)
    return max(10.0 ** -5, min(0.001, svg.snap_up(LEAST_BEYOND / fewest)))


def _scales(series, height):
    lowest = _lowest_share(series)
    low = min(stats.value_at(s.curve, 0.995) for s in series)
    high = max(stats.value_at(run, lowest) for s in series for run, _ in s.runs if run)
    x = svg.LogScale(svg.snap_down(low), max(svg.snap_up(high * 1.02), low * 10), LEFT,
                     WIDTH - RIGHT)
    return x, svg.LogScale(lowest, 1.0, height - BOTTOM, TOP)


def _x_axis(x, height, labelled=True):
    parts = []
    for decade in svg.decades(x.low / 10, x.high):
        for step in (1, 2, 5):
            value = decade * step
            if not x.low <= value <= x.high * (1 + 1e-9):
                continue
            parts.append(svg.line(x(value), TOP, x(value), height - BOTTOM, "grid"))
            if labelled:
                parts.append(svg.text(x(value), height - BOTTOM + 18, units.latency(value),
                                      "tick", "middle"))
    return parts


def _y_share_axis(y, title):
    parts = [svg.text(20, TOP - 10, title, "unit")]
    for share in svg.decades(y.low, 1.0):
        parts += [svg.line(LEFT, y(share), WIDTH - RIGHT, y(share), "grid"),
                  svg.text(LEFT - 8, y(share) + 4, units.percent(share), "tick", "end")]
    return parts


def _pixels(ccdf, x, y):
    visible = [(at, beyond) for at, beyond in ccdf if beyond >= y.low and at >= x.low]
    return [(x(at), y(beyond)) for at, beyond in stats.thinned(visible)]


def _dot(series, x, y):
    """Where the quoted p99.9 lies; the axis reaches below that share."""
    return x(series.p999_us), y(P999)


def _through(points, dot):
    """The curve with its dot in it: thinned, or with few requests, it passes p99.9 by in a step."""
    return ([p for p in points if p[1] < dot[1] and p[0] <= dot[0]] + [dot]
            + [p for p in points if p[1] > dot[1] and p[0] >= dot[0]])


def _label(series, x, y, curves, taken):
    anchors = [(x(stats.value_at(series.curve, share)), y(share)) for share in LABEL_SHARES
               if share >= y.low]
    value = f"p99.9 {units.latency(series.p999_us)}"
    size = (max(len(value) * 6.6, len(series.name) * 7.8) + 4, 32)
    frame = labels.Box(LEFT, TOP, WIDTH - RIGHT - LEFT, y(y.low) - TOP)
    box = labels.place(anchors, size, frame, curves, taken)
    taken.append(box)
    # The side next to the curve is the one the words hold on to.
    on_left = min(abs(ax - box.x) for ax, _ in anchors) <= min(
        abs(ax - box.x - box.width) for ax, _ in anchors)
    at, anchor = (box.x, "start") if on_left else (box.x + box.width, "end")
    fill = f"fill:var(--c{series.slot})"
    return [svg.text(at, box.y + 13, series.name, "name halo", anchor, style=fill),
            svg.text(at, box.y + 28, value, "value halo", anchor)]


def _gap_arrow(base, subject, ratio, x, y, taken):
    """From the baseline's p99.9 to the subject's, with the ratio above it."""
    at, start, end = y(P999), x(base.p999_us) - 7, x(subject.p999_us) + 7
    if y.low > P999 or start - end < LEAST_ARROW or ratio < 1:
        return []
    middle = (start + end) / 2
    taken.append(labels.Box(end, at - 20, start - end, 24))
    head = f"M{svg.number(end + 8)} {svg.number(at - 4)}l-8 4l8 4"
    return [svg.line(start, at, end, at, "", stroke="var(--ink)", stroke_width=1.4),
            svg.element("path", d=head, fill="none", stroke="var(--ink)", stroke_width=1.4),
            svg.text(middle, at - 8, f"{units.times(ratio)} lower", "note halo", "middle")]


def ccdf(series, words, arrow=None, height=458):
    """The share of requests slower than x, log-log: bold the repeats' median, thin each repeat.
    `arrow` is (slow, fast, ratio): two names between whose p99.9 an arrow tells the ratio. Empty
    text when no series has points."""
    series = [s for s in series if s.curve]
    if not series:
        return ""
    x, y = _scales(series, height)
    parts = [*_x_axis(x, height), *_y_share_axis(y, words.y_axis),
             svg.line(LEFT, height - BOTTOM, WIDTH - RIGHT, height - BOTTOM, "axis")]
    curves = []
    for one in series:
        if len(one.runs) > 1:
            parts += [svg.path(_pixels(run, x, y), "thin", one.slot) for run, _ in one.runs]
        points = _through(_pixels(one.curve, x, y), _dot(one, x, y))
        curves.append(labels.dense(points))
        parts.append(svg.path(points, "line", one.slot, svg.DASHES[one.slot % 4]))
    taken = []
    by_name = {s.name: s for s in series}
    if arrow and arrow[2] and arrow[0] in by_name and arrow[1] in by_name:
        parts += _gap_arrow(by_name[arrow[0]], by_name[arrow[1]], arrow[2], x, y, taken)
    for one in series:
        at, beyond = _dot(one, x, y)
        parts.append(svg.element("circle", cx=at, cy=beyond, r=4, fill=f"var(--c{one.slot})",
                                 stroke="var(--paper)"))
    for one in series:
        parts += _label(one, x, y, curves, taken)
    return svg.document(WIDTH, height, words.title, _frame(words, height, parts))

