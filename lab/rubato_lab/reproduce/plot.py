# SPDX-License-Identifier: Apache-2.0
"""Draws a figure: panels above one shared axis, a line per policy, the objective as a rule."""

from html import escape

from rubato_lab import svg, units

WIDTH, PANEL, GAP = 760, 230, 34
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 72, 50
LEGEND_ROW, LEGEND_COLUMNS, KEY = 20, 3, 26
TICKS = 8
SHARES = (0, 0.25, 0.5, 0.75, 1)
# The kit's four colours and two more of Okabe and Ito's, each with its twin for dark pages.
MORE_COLOURS = ("<style>.rb { --c4:#a0478a; --c5:#8a6d00; } @media (prefers-color-scheme: dark) "
                "{ .rb { --c4:#e39ccf; --c5:#e8c84a; } }</style>")
SLOTS = 6
DASHES = ("", "7 4", "", "2 3", "9 3 2 3", "5 2")


def _legend(figure, left, top):
    parts = []
    width = (WIDTH - left - RIGHT) / LEGEND_COLUMNS
    for i, line in enumerate(figure.lines):
        x = left + (i % LEGEND_COLUMNS) * width
        y = top + (i // LEGEND_COLUMNS) * LEGEND_ROW
        slot = i % SLOTS
        parts += [svg.line(x, y - 4, x + KEY, y - 4, "line", stroke=f"var(--c{slot})",
                           stroke_dasharray=DASHES[slot]),
                  svg.text(x + KEY + 6, y, line.name, "value")]
    return parts


def _values(panel, drawn):
    """{name: [(x, value)]} of the points that have a value above nothing."""
    found = {}
    for name, points in drawn.curves.items():
        if panel.lines is not None and name not in panel.lines:
            continue
        values = [(x, panel.value(run)) for x, run in points]
        found[name] = [(x, v) for x, v in values if v]
    return found


def _y_scale(panel, values, top):
    if panel.share:
        return svg.LinearScale(0.0, 1.0, top + PANEL, top)
    every = [v for points in values.values() for _, v in points]
    low, high = min(every), max(every)
    if panel.limit:
        low, high = min(low, panel.limit[0]), max(high, panel.limit[0] * 2)
    if panel.ceiling:
        high = min(high, panel.ceiling)
    low = svg.snap_down(min(low, high))
    return svg.LogScale(low, max(svg.snap_up(high), low * 10), top + PANEL, top)


def _ticks(y):
    """(value, whether it has a name) of each line of the grid."""
    if y.low == 0:
        return [(share, True) for share in SHARES]
    found = [(decade * step, step == 1 or y.high / y.low <= 100)
             for decade in svg.decades(y.low / 10, y.high) for step in (1, 2, 5)]
    return [(value, named) for value, named in found if y.low <= value <= y.high * (1 + 1e-9)]


def _grid(y, panel, top):
    parts = [svg.text(20, top - 10, panel.y_axis, "unit")]
    for value, named in _ticks(y):
        parts.append(svg.line(LEFT, y(value), WIDTH - RIGHT, y(value), "grid"))
        if named:
            parts.append(svg.text(LEFT - 8, y(value) + 4, units.significant(value), "tick", "end"))
    return parts


def _clipped(points, y):
    """Up to the first point above the axis, which is drawn at its edge."""
    kept = []
    for x, value in points:
        kept.append((x, value))
        if value > y.high:
            break
    return kept


def _panel(panel, drawn, x, top):
    values = _values(panel, drawn)
    if not any(values.values()):
        return [svg.text(20, top - 10, f"{panel.y_axis}: nothing to draw", "unit")]
    y = _y_scale(panel, values, top)
    parts = _grid(y, panel, top)
    if panel.limit:
        value, words = panel.limit
        parts += [svg.line(LEFT, y(value), WIDTH - RIGHT, y(value), "axis",
                           stroke_dasharray="3 3"),
                  svg.text(LEFT + 6, y(value) - 5, words, "tick")]
    for i, line in enumerate(drawn.figure.lines):
        pixels = [(x(at), y(value)) for at, value in _clipped(values.get(line.name, []), y)]
        slot = i % SLOTS
        parts.append(svg.path(pixels, "line", slot, DASHES[slot]))
        parts += [svg.element("circle", cx=px, cy=py, r=2.4, fill=f"var(--c{slot})")
                  for px, py in pixels]
    parts.append(svg.line(LEFT, top + PANEL, WIDTH - RIGHT, top + PANEL, "axis"))
    return parts


def _x_step(span):
    """A step of 1, 2 or 5 times a power of ten that makes at most TICKS of a span."""
    return svg.snap_up(span / TICKS)


def _x_axis(x, bottom, words):
    parts = [svg.text(WIDTH - RIGHT, bottom + 38, words, "unit", "end")]
    step = _x_step(x.high - x.low)
    tick = -(-x.low // step) * step
    while tick <= x.high * (1 + 1e-9):
        parts.append(svg.text(x(tick), bottom + 18, units.significant(tick), "tick", "middle"))
        tick += step
    return parts


def draw(drawn):
    """The SVG text. Requires at least two different x among the points."""
    figure = drawn.figure
    every = [at for points in drawn.curves.values() for at, _ in points]
    x = svg.LinearScale(min(every), max(every), LEFT, WIDTH - RIGHT)
    rows = -(-len(figure.lines) // LEGEND_COLUMNS)
    top = TOP + rows * LEGEND_ROW + 26
    parts = [MORE_COLOURS, svg.text(20, 30, figure.title, "title"),
             svg.text(20, 51, figure.source, "sub"), *_legend(figure, 20, TOP + 4)]
    for i, panel in enumerate(figure.panels):
        parts += _panel(panel, drawn, x, top + i * (PANEL + GAP))
    bottom = top + len(figure.panels) * (PANEL + GAP) - GAP
    parts += _x_axis(x, bottom, figure.x_axis)
    return svg.document(WIDTH, bottom + BOTTOM, escape(figure.title), parts)
