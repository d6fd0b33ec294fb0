# SPDX-License-Identifier: Apache-2.0
"""The figure of the README: how many requests waited longer than x."""

import math
import statistics
from dataclasses import dataclass, field

from rubato_lab import stats, style, units

WIDTH, HEIGHT = 820, 480
P999 = 0.001
# A curve ends where fewer requests than this remain: what lies beyond is chance.
LEAST_BEYOND = 10
# A smaller gap than this leaves an arrow no room for its words.
LEAST_GAP = 3


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


def _lowest_share(series):
    """The first power of ten that enough requests are beyond."""
    wanted = LEAST_BEYOND / min(s.count for s in series)
    return 10.0 ** min(-3, max(-5, math.ceil(math.log10(wanted))))


def _draw_curve(ax, series):
    """The curve with its dot in it: thinned, or with few requests, it passes p99.9 by in a step."""
    points, dot = stats.thinned(series.curve), (series.p999_us, P999)
    before = [p for p in points if p[1] > P999 and p[0] <= dot[0]]
    after = [p for p in points if p[1] < P999 and p[0] >= dot[0]]
    ax.plot(*zip(*before, dot, *after), marker="o", markersize=6, markevery=[len(before)],
            label=f"{series.name}: p99.9 {units.latency(series.p999_us)}",
            **style.look(series.slot))


def _gap_arrow(ax, slow_us, fast_us, ratio):
    """From the baseline's p99.9 to the subject's, with the ratio above it."""
    if slow_us < LEAST_GAP * fast_us:
        return
    ax.annotate("", (fast_us, P999), (slow_us, P999), arrowprops={
        "arrowstyle": "->", "color": style.INK, "shrinkA": 5, "shrinkB": 5})
    ax.annotate(f"{units.times(ratio)} lower", (math.sqrt(slow_us * fast_us), P999), (0, 6),
                textcoords="offset points", ha="center", weight="bold",
                bbox={"color": style.PAPER, "pad": 1})


@style.applied()
def ccdf(series, title, lines, axes, arrow=None):
    """The share of requests slower than x, log-log, as a Figure: bold the repeats' median, thin
    each repeat. `series` have points, `axes` are the words of x and y. `arrow` is (slow, fast,
    ratio): two names between whose p99.9 an arrow tells the ratio."""
    figure = style.sheet(WIDTH, HEIGHT, title, [*lines, ""])
    ax = figure.subplots()
    for one in series:
        for run, _ in one.runs if len(one.runs) > 1 else ():
            ax.plot(*zip(*stats.thinned(run)), color=style.look(one.slot)["color"], linewidth=0.7,
                    alpha=0.4)
    for one in series:
        _draw_curve(ax, one)
    lowest = _lowest_share(series)
    ax.set(xlabel=axes[0], ylabel=axes[1], ylim=(0.8 * lowest, 1), xlim=(
        min(stats.value_at(s.curve, 0.995) for s in series),
        max(stats.value_at(run, lowest) for s in series for run, _ in s.runs)))
    style.logarithmic(ax, "x", units.latency, few=10_000)
    style.logarithmic(ax, "y", units.percent)
    p999_us = {one.name: one.p999_us for one in series}
    if arrow and arrow[2] and {arrow[0], arrow[1]} <= set(p999_us):
        _gap_arrow(ax, p999_us[arrow[0]], p999_us[arrow[1]], arrow[2])
    style.legend(figure, ax, len(lines) + 1, ncols=len(series))
    return figure
