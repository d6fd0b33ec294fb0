# SPDX-License-Identifier: Apache-2.0
"""Draws a record: small multiples, a row per datapath and handful of policies, with throughput,
throughput per worker and p99 against the number of workers. The other policies are grey lines."""

from dataclasses import dataclass
from typing import Callable

from rubato_lab import svg, units
from rubato_lab.multicore.cells import DATAPATHS, LOOPBACK, TAIL, THROUGHPUT
from rubato_lab.reproduce.plot import DASHES, MORE_COLOURS, SLOTS

WIDTH, PANEL, HEIGHT = 1080, 272, 178
LEFT, GUTTER, TOP, BOTTOM = 76, 66, 118, 34
ROW = HEIGHT + 62
LEGEND, KEY = 30, 26
# Room beside the first and the last number of workers.
MARGIN = 1.12
# Between the policies' points where there is but one number of workers.
APART = 16
NAMES = {LOOPBACK: "loopback", "tcp": "TCP"}


@dataclass(frozen=True)
class Column:
    """One kind of panel: `value` maps a cell's entry to a spread, None without one."""

    title: str
    kind: str
    value: Callable
    tick: Callable
    linear: bool = False


def _throughput(cell):
    return cell["throughput_rps"]


def _per_worker(cell):
    spread = cell["throughput_rps"]
    return spread and {key: value / cell["workers"] for key, value in spread.items()}


def _p99(cell):
    return cell["tail"]["types"][0]["p99_us"] if cell["tail"] else None


def _short(value):
    """12 000 -> '12k'."""
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{units.significant(value / limit)}{letter}"
    return units.significant(value)


def columns(data):
    tails = [cell["tail"] for cell in data["cells"] if cell["tail"]]
    first = tails[0]["types"][0]["name"] if tails else "request"
    share = units.percent(data["settings"]["share"])
    return [Column("requests/s", THROUGHPUT, _throughput, _short),
            Column("requests/s per worker", THROUGHPUT, _per_worker, _short, linear=True),
            Column(f"p99 of '{first}' at {share} of that", TAIL, _p99, units.latency)]


def groups(policies):
    """In as few parts as have a colour for each policy, about equally large."""
    count = -(-len(policies) // SLOTS)
    size = -(-len(policies) // max(count, 1))
    return [policies[i:i + size] for i in range(0, len(policies), size)]


def _ideal_rps(data, workers):
    return workers * 1e6 / data["settings"]["mean_service_us"]


def _y_scale(data, column):
    """(low, high) of all panels of a column, so that they can be compared."""
    spreads = [spread for cell in data["cells"] if (spread := column.value(cell))]
    values = [spread[key] for spread in spreads for key in ("low", "high") if spread[key] > 0]
    if column.kind == THROUGHPUT:
        values += [_ideal_rps(data, 1 if column.linear else cell["workers"])
                   for cell in data["cells"]]
    if not values:
        return None
    if column.linear:
        return 0.0, max(values) * 1.08
    low = svg.snap_down(min(values))
    return low, max(svg.snap_up(max(values)), low * 10)


def _ticks(low, high):
    if low == 0:
        step = svg.snap_up(high / 5)
        return [i * step for i in range(int(high / step) + 1)]
    steps = (1, 2, 5) if high / low <= 30 else (1,)
    return [decade * step for decade in svg.decades(low / 10, high) for step in steps
            if low <= decade * step <= high * (1 + 1e-9)]


@dataclass(frozen=True)
class Frame:
    """Where a panel is; `x` and `y` are its scales."""

    left: float
    top: float
    x: svg.LogScale
    y: Callable

    @property
    def bottom(self):
        return self.top + HEIGHT


def _frame(bounds, counts, left, top):
    low, high = bounds
    x = svg.LogScale(min(counts) / MARGIN, max(counts) * MARGIN, left, left + PANEL)
    scale = svg.LinearScale if low == 0 else svg.LogScale
    return Frame(left, top, x, scale(low, high, top + HEIGHT, top))


def _far_enough(counts, x, apart=17):
    """The numbers of workers that have room for their name, the last before the others."""
    kept = []
    for count in reversed(counts):
        if not kept or x(kept[-1]) - x(count) >= apart:
            kept.append(count)
    return kept


def _grid(frame, column, counts, name):
    parts = [svg.text(frame.left, frame.top - 12, f"{name}: {column.title}", "unit")]
    for value in _ticks(frame.y.low, frame.y.high):
        at = frame.y(value)
        parts += [svg.line(frame.left, at, frame.left + PANEL, at, "grid"),
                  svg.text(frame.left - 7, at + 4, column.tick(value), "tick", "end")]
    parts.append(svg.line(frame.left, frame.bottom, frame.left + PANEL, frame.bottom, "axis"))
    for count in counts:
        parts.append(svg.line(frame.x(count), frame.bottom, frame.x(count), frame.bottom + 4,
                              "axis"))
    parts += [svg.text(frame.x(count), frame.bottom + 17, str(count), "tick", "middle")
              for count in _far_enough(counts, frame.x)]
    return parts


def _ideal(frame, data, column, counts):
    if column.kind != THROUGHPUT:
        return []
    first, last = frame.x.low, frame.x.high
    values = [_ideal_rps(data, 1 if column.linear else count) for count in (first, last)]
    return [svg.line(frame.x(first), frame.y(values[0]), frame.x(last), frame.y(values[1]), "axis",
                     stroke_dasharray="3 3")]


def _threads_begin(frame, cells):
    """A rule before the numbers of workers whose CPUs share cores."""
    shared = [cell["workers"] for cell in cells if cell["shares_cores"]]
    alone = [cell["workers"] for cell in cells if not cell["shares_cores"]]
    if not shared or not alone:
        return []
    at = (frame.x(min(shared)) + frame.x(max(alone))) / 2
    return [svg.line(at, frame.top, at, frame.bottom, "axis", stroke_dasharray="1 3"),
            svg.text(at + 4, frame.bottom - 6, "SMT", "tick")]


def _points(cells, policy, column):
    """(cell, spread) by rising number of workers."""
    own = sorted((cell for cell in cells if cell["policy"] == policy), key=lambda c: c["workers"])
    return [(cell, spread) for cell in own if (spread := column.value(cell))]


def _pixels(frame, points):
    return [(frame.x(cell["workers"]), frame.y(spread["median"])) for cell, spread in points]


def _curve(frame, column, points, slot, aside):
    colour = f"var(--c{slot})"
    pixels = [(x + aside, y) for x, y in _pixels(frame, points)]
    parts = [svg.path(pixels, "line", slot, DASHES[slot])]
    for (cell, spread), (x, y) in zip(points, pixels):
        if spread["low"] < spread["high"]:
            parts.append(svg.line(x, frame.y(spread["low"]), x, frame.y(spread["high"]), "bar",
                                  stroke=colour))
        hollow = cell["disturbed"][column.kind]
        parts.append(svg.element("circle", cx=x, cy=y, r=3.2, stroke=colour, stroke_width=1.6,
                                 fill="var(--paper)" if hollow else colour))
    return parts


def _grey(frame, points):
    steps = "L".join(f"{svg.number(x)} {svg.number(y)}" for x, y in _pixels(frame, points))
    return svg.element("path", d="M" + steps, class_="others") if len(points) > 1 else ""


def _panel(data, column, datapath, group, left, top):
    cells = [cell for cell in data["cells"] if cell["datapath"] == datapath]
    counts = sorted({cell["workers"] for cell in data["cells"]})
    bounds = _y_scale(data, column)
    if bounds is None or not any(column.value(cell) for cell in cells):
        return [svg.text(left, top - 12, f"{NAMES[datapath]}: {column.title}: nothing measured",
                         "unit")]
    frame = _frame(bounds, counts, left, top)
    parts = [*_grid(frame, column, counts, NAMES[datapath]), *_ideal(frame, data, column, counts),
             *_threads_begin(frame, cells)]
    others = dict.fromkeys(cell["policy"] for cell in cells if cell["policy"] not in group)
    parts += [_grey(frame, _points(cells, policy, column)) for policy in others]
    for slot, policy in enumerate(group):
        aside = (slot - (len(group) - 1) / 2) * APART if len(counts) == 1 else 0.0
        parts += _curve(frame, column, _points(cells, policy, column), slot, aside)
    return parts


def _legend(group, top):
    width = (WIDTH - LEFT) / SLOTS
    parts = []
    for slot, policy in enumerate(group):
        x = LEFT + slot * width
        parts += [svg.line(x, top - 4, x + KEY, top - 4, "line", stroke=f"var(--c{slot})",
                           stroke_dasharray=DASHES[slot]),
                  svg.text(x + KEY + 7, top, policy, "name")]
    return parts


def _subtitles(data):
    settings, machine = data["settings"], data["machine"]
    drawn = [(cell, kind) for cell in data["cells"] for kind in (THROUGHPUT, TAIL)
             if cell["runs"][kind]]
    noisy = sum(cell["disturbed"][kind] for cell, kind in drawn)
    told = (f"hollow: the machine disturbed it ({noisy} of {len(drawn)} cells)" if noisy
            else "the machine kept still")
    first = (f"{machine['cpu']}, {machine['allowed_cpus']} CPUs on {machine['physical_cores']} "
             f"cores, {machine['kernel']}; {settings['workload']}, mean "
             f"{units.latency(settings['mean_service_us'])}")
    second = (f"Medians of {settings['rounds']} rounds of {settings['seconds']:g} s, bars from the "
              f"lowest to the highest; dashed grey: without any overhead; {told}")
    third = ""
    if settings["forced"]:
        third = "Forced on fewer than 4 CPUs: this says nothing about many."
    if not data["complete"]:
        third = "Interrupted: not every run was made. " + third
    return [first, second, third]


STYLE = ("<style>.rb .bar { stroke-width: 1.4; opacity: .6; } "
         ".rb .others { fill: none; stroke: var(--axis); stroke-width: 1; opacity: .55; }</style>")


def draw(data):
    """The SVG text of a record as record.py makes it."""
    policies = list(dict.fromkeys(cell["policy"] for cell in data["cells"]))
    datapaths = [name for name in DATAPATHS if name in data["settings"]["datapaths"]]
    kinds = columns(data)
    parts = [MORE_COLOURS, STYLE,
             svg.text(20, 30, "Throughput and tail against the number of workers", "title")]
    parts += [svg.text(20, 51 + 18 * i, words, "sub")
              for i, words in enumerate(_subtitles(data)) if words]
    top = TOP
    for group in groups(policies):
        parts += _legend(group, top)
        top += LEGEND + 14
        for datapath in datapaths:
            for i, column in enumerate(kinds):
                parts += _panel(data, column, datapath, group, LEFT + i * (PANEL + GUTTER), top)
            top += ROW
    parts.append(svg.text(WIDTH - 20, top - 26, "workers", "unit", "end"))
    return svg.document(WIDTH, top, "Throughput and tail against the number of workers", parts)
