# SPDX-License-Identifier: Apache-2.0
"""Draws a figure: panels above one shared axis, a line per policy, the objective as a rule."""

import math

from rubato_lab import style, units

WIDTH, HEAD, PANEL = 760, 80, 260
COLUMNS = 3


def _values(panel, points):
    """[(x, value)] of the points that have a value above nothing."""
    values = [(x, panel.value(run)) for x, run in points]
    return [(x, v) for x, v in values if v]


def _y_axis(ax, panel, values):
    if panel.share:
        ax.set_ylim(0, 1)
        return
    low, high = min(values), max(values)
    if panel.limit:
        low, high = min(low, panel.limit[0]), max(high, 2 * panel.limit[0])
    ax.set_ylim(low / 1.2, max(min(1.2 * high, panel.ceiling or math.inf), 10 * low))
    style.logarithmic(ax, "y", units.significant)


def _draw_panel(ax, panel, drawn):
    ax.set_ylabel(panel.y_axis)
    values = []
    for i, line in enumerate(drawn.figure.lines):
        hidden = panel.lines is not None and line.name not in panel.lines
        points = [] if hidden else _values(panel, drawn.curves.get(line.name, []))
        ax.plot([x for x, _ in points], [v for _, v in points], marker="o", markersize=3,
                label=line.name, **style.look(i))
        values += [v for _, v in points]
    if not values:
        ax.set_ylabel(f"{panel.y_axis}: nothing to draw")
        return
    _y_axis(ax, panel, values)
    if panel.limit:
        value, words = panel.limit
        ax.axhline(value, color=style.SOFT, linestyle="--", linewidth=1)
        ax.annotate(words, (0, value), (4, 3), xycoords=("axes fraction", "data"),
                    textcoords="offset points", color=style.SOFT, size=8,
                    bbox={"color": style.PAPER, "pad": 1})


@style.applied()
def draw(drawn):
    """matplotlib's Figure."""
    figure = drawn.figure
    rows = -(-len(figure.lines) // COLUMNS)
    sheet = style.sheet(WIDTH, HEAD + style.LINE * rows + PANEL * len(figure.panels), figure.title,
                        [figure.source, *[""] * rows])
    plots = sheet.subplots(len(figure.panels), sharex=True, squeeze=False)[:, 0]
    for ax, panel in zip(plots, figure.panels):
        _draw_panel(ax, panel, drawn)
    plots[-1].set_xlabel(figure.x_axis)
    style.legend(sheet, plots[0], 2, COLUMNS)
    return sheet
