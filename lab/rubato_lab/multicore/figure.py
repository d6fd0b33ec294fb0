# SPDX-License-Identifier: Apache-2.0
"""Draws a record: small multiples, a row per datapath and handful of policies, with throughput,
throughput per worker and p99 against the number of workers. The other policies are grey lines."""

from dataclasses import dataclass
from typing import Callable

from rubato_lab import style, units
from rubato_lab.multicore.cells import DATAPATHS, LOOPBACK, TAIL, THROUGHPUT

TITLE = "Throughput and tail against the number of workers"
WIDTH, HEAD, KEY, ROW = 1000, 50, 30, 220
# What separates the policies' points where there is but one number of workers.
APART = 1.02
# How far the line of no overhead goes beyond the first and the last number of workers.
MARGIN = 1.06
OTHERS = "#9aa3ad"
NAMES = {LOOPBACK: "loopback", "tcp": "TCP"}


@dataclass(frozen=True)
class Column:
    """One kind of panel: `value` maps a cell's entry to a spread, None without one."""

    title: str
    kind: str
    value: Callable
    words: Callable
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
    count = -(-len(policies) // len(style.COLOURS))
    size = -(-len(policies) // max(count, 1))
    return [policies[i:i + size] for i in range(0, len(policies), size)]


def _ideal_rps(data, workers):
    return workers * 1e6 / data["settings"]["mean_service_us"]


def _draw_ideal(ax, data, column, counts):
    if column.kind == THROUGHPUT:
        ends = (counts[0] / MARGIN, counts[-1] * MARGIN)
        ax.plot(ends, [_ideal_rps(data, 1 if column.linear else count) for count in ends],
                color=style.SOFT, linestyle="--", linewidth=1)


def _draw_threads_begin(ax, cells):
    """A rule before the numbers of workers whose CPUs share cores."""
    shared = [cell["workers"] for cell in cells if cell["shares_cores"]]
    alone = [cell["workers"] for cell in cells if not cell["shares_cores"]]
    if shared and alone:
        at = (min(shared) * max(alone)) ** 0.5
        ax.axvline(at, color=style.SOFT, linestyle=":", linewidth=1)
        ax.annotate("SMT", (at, 0), (3, 4), xycoords=("data", "axes fraction"),
                    textcoords="offset points", color=style.SOFT, size=8)


def _points(cells, policy, column):
    """(cell, spread) by rising number of workers."""
    own = sorted((cell for cell in cells if cell["policy"] == policy), key=lambda c: c["workers"])
    return [(cell, spread) for cell in own if (spread := column.value(cell))]


def _draw_curve(ax, column, points, slot, aside):
    at = [cell["workers"] * aside for cell, _ in points]
    median, low, high = ([spread[key] for _, spread in points] for key in ("median", "low", "high"))
    look = style.look(slot)
    ax.plot(at, median, marker="o", **look)
    ax.vlines(at, low, high, color=look["color"], linewidth=1, alpha=0.6)
    hollow = [(x, y) for x, y, (cell, _) in zip(at, median, points)
              if cell["disturbed"][column.kind]]
    if hollow:
        ax.plot(*zip(*hollow), "o", color=look["color"], markerfacecolor=style.PAPER, zorder=3)


def _draw_panel(ax, data, column, datapath, group):
    cells = [cell for cell in data["cells"] if cell["datapath"] == datapath]
    counts = sorted({cell["workers"] for cell in data["cells"]})
    ax.set_title(f"{NAMES[datapath]}: {column.title}", size=8)
    style.logarithmic(ax, "x", units.significant)
    ax.set_xticks(counts)
    if not any(column.value(cell) for cell in cells):
        ax.set_title(f"{NAMES[datapath]}: {column.title}: nothing measured", size=8)
        return
    _draw_ideal(ax, data, column, counts)
    _draw_threads_begin(ax, cells)
    for policy in dict.fromkeys(cell["policy"] for cell in cells if cell["policy"] not in group):
        points = _points(cells, policy, column)
        ax.plot([cell["workers"] for cell, _ in points],
                [spread["median"] for _, spread in points], color=OTHERS, linewidth=0.8)
    for slot, policy in enumerate(group):
        aside = APART ** (slot - (len(group) - 1) / 2) if len(counts) == 1 else 1
        _draw_curve(ax, column, _points(cells, policy, column), slot, aside)


def _subtitles(data):
    settings, machine = data["settings"], data["machine"]
    drawn = [(cell, kind) for cell in data["cells"] for kind in (THROUGHPUT, TAIL)
             if cell["runs"][kind]]
    noisy = sum(cell["disturbed"][kind] for cell, kind in drawn)
    lines = [f"{machine['cpu']}, {machine['allowed_cpus']} CPUs on {machine['physical_cores']} "
             f"cores, {machine['kernel']}; {settings['workload']}, mean "
             f"{units.latency(settings['mean_service_us'])}",
             f"Medians of {settings['rounds']} rounds of {settings['seconds']:g} s, bars from the "
             "lowest to the highest; dashed grey: without any overhead",
             f"Hollow: the machine disturbed it ({noisy} of {len(drawn)} cells)" if noisy
             else "The machine kept still"]
    if not data["complete"]:
        lines.append("Interrupted: not every run was made")
    if settings["forced"]:
        lines.append("Forced on fewer than 4 CPUs: this says nothing about many")
    return lines


def _draw_key(row, group):
    for ax in row:
        ax.set_axis_off()
    for slot, policy in enumerate(group):
        row[0].plot([], [], marker="o", label=policy, **style.look(slot))
    row[0].legend(loc="center left", ncols=len(group)).set_in_layout(False)


@style.applied()
def draw(data):
    """A record as record.py makes it, as matplotlib's Figure."""
    parts = groups(list(dict.fromkeys(cell["policy"] for cell in data["cells"])))
    datapaths = [name for name in DATAPATHS if name in data["settings"]["datapaths"]]
    kinds, lines = columns(data), _subtitles(data)
    heights = [KEY, *[ROW] * len(datapaths)] * len(parts)
    sheet = style.sheet(WIDTH, HEAD + style.LINE * len(lines) + sum(heights), TITLE, lines)
    plots = sheet.subplots(len(heights), len(kinds), sharey="col",
                           gridspec_kw={"height_ratios": heights})
    rows = iter(plots)
    for group in parts:
        _draw_key(next(rows), group)
        for datapath, row in zip(datapaths, rows):
            for ax, column in zip(row, kinds):
                _draw_panel(ax, data, column, datapath, group)
    for ax, column in zip(plots[-1], kinds):
        ax.set_xlabel("workers")
        if column.linear:
            ax.set_ylim(bottom=0)
            ax.locator_params(axis="y", nbins=5)
            ax.yaxis.set_major_formatter(style.formatter(column.words))
        else:
            style.logarithmic(ax, "y", column.words, few=30)
    return sheet
