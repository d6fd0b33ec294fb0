# SPDX-License-Identifier: Apache-2.0
"""What a figure is: lines of points to simulate, panels to draw, claims to check."""

from dataclasses import dataclass, field, replace
from typing import Callable

from rubato_lab.reproduce import claims, probes
from rubato_lab.reproduce import simulator as sim


@dataclass(frozen=True)
class Point:
    """One run at `x` of the axis that all panels share."""

    x: float
    scenario: sim.Scenario
    load: float | None = None
    rate_rps: float | None = None


@dataclass(frozen=True)
class Line:
    name: str
    points: tuple
    note: str = ""

    @property
    def policy(self):
        return self.points[0].scenario.policy


@dataclass(frozen=True)
class Panel:
    """One drawing above the shared axis. `value` is a function of a Run; None leaves a gap.
    `limit` is a horizontal line: (value, words). With `ceiling` the axis ends there."""

    y_axis: str
    value: Callable
    limit: tuple | None = None
    ceiling: float | None = None
    lines: tuple | None = None  # names; None = all
    share: bool = False  # of one: linear from 0 to 1, not logarithmic


@dataclass(frozen=True)
class Figure:
    """`judge` takes a Simulator and returns Claims, `probe` one and returns Probes. `not_yet` names
    lines of the paper whose policy does not exist here. `notes` are (topic, words): why claims
    miss, and what was assumed. Tables and lone numbers have no lines to draw."""

    id: str
    title: str
    source: str
    x_axis: str
    lines: tuple
    panels: tuple
    judge: Callable
    probe: Callable = lambda sim: ()
    not_yet: tuple = ()
    about: str = ""
    notes: tuple = ()


@dataclass
class Drawn:
    """A figure with its runs: `curves` maps a line's name to [(x, Run)]."""

    figure: Figure
    curves: dict = field(default_factory=dict)
    claims: list = field(default_factory=list)
    probes: list = field(default_factory=list)


def over_loads(name, scenario, loads, note=""):
    """A line over the share of capacity, in per cent."""
    return Line(name, tuple(Point(load * 100, scenario, load=load) for load in loads), note)


def loads(first, last, step):
    """first, first + step, ... last."""
    count = int(round((last - first) / step)) + 1
    return tuple(round(first + i * step, 6) for i in range(count))


def chosen(points, stride):
    """Every stride-th point, counted from the last, which is where curves bend."""
    return points[::-1][::stride][::-1]


def without_missing(figure, policies):
    """The figure with the lines of policies that do not exist told as missing."""
    there = tuple(line for line in figure.lines if line.policy in policies)
    missing = tuple(line.name for line in figure.lines if line.policy not in policies)
    return replace(figure, lines=there, not_yet=missing + figure.not_yet)


def _each_seed(use, simulator):
    """What `use` makes of each seed by itself."""
    return sim.concurrently([lambda one=one: use(one) for one in simulator.each_seed()])


def simulate(figure, simulator, claims_only=False):
    """Runs a figure's points, unless only its claims are asked for, and its claims and probes at
    the same time."""
    jobs, places = [], []
    for line in () if claims_only else figure.lines:
        for point in chosen(line.points, simulator.effort.stride):
            places.append((line.name, point.x))
            jobs.append(lambda p=point: simulator.run(p.scenario, p.load, p.rate_rps))
    jobs += [lambda: claims.of_seeds(_each_seed(figure.judge, simulator)),
             lambda: probes.of_seeds(_each_seed(figure.probe, simulator))]
    *runs, found, probed = sim.concurrently(jobs)
    drawn = Drawn(figure, {} if claims_only else {line.name: [] for line in figure.lines}, found,
                  probed)
    for (name, x), run in zip(places, runs):
        drawn.curves[name].append((x, run))
    return drawn
