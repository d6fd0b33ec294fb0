# SPDX-License-Identifier: Apache-2.0
"""A figure of a report: lines over one axis, for dygraphs. Values; any thread."""

from dataclasses import dataclass

# How figures of an axis are written.
LATENCY, SHARE, RATIO, PLAIN = "latency", "share", "ratio", "plain"
LINEAR, LOGARITHMIC = "linear", "log"


@dataclass(frozen=True)
class Axis:
    """`kind` is one of LATENCY (microseconds), SHARE (of one), RATIO, PLAIN."""

    title: str
    kind: str = PLAIN
    scale: str = LINEAR


@dataclass(frozen=True)
class Line:
    """Points (x, y), or with an interval (x, y, low, high)."""

    name: str
    points: tuple


@dataclass(frozen=True)
class Chart:
    """Lines go on over points that they lack and others have. `steps`: a value holds until the next
    one."""

    title: str
    x: Axis
    y: Axis
    lines: tuple
    note: str = ""
    steps: bool = False

    @property
    def is_empty(self):
        return not any(len(line.points) > 0 for line in self.lines)

    def to_object(self):
        """As report.js takes it: a row for each x, a column for each line."""
        lines = [line for line in self.lines if line.points]
        bars = any(len(point) > 2 for line in lines for point in line.points)
        columns = [{point[0]: self._cell(point, bars) for point in line.points
                    if self._drawable(point)} for line in lines]
        xs = sorted({x for column in columns for x in column})
        nothing = [None, None, None] if bars else None
        return {"rows": [[x, *(column.get(x, nothing) for column in columns)] for x in xs],
                "names": [line.name for line in lines], "bars": bars, "steps": self.steps,
                "x": vars(self.x), "y": vars(self.y)}

    def _drawable(self, point):
        return all(value > 0 for value, axis in ((point[0], self.x), (point[1], self.y))
                   if axis.scale == LOGARITHMIC)

    def _cell(self, point, bars):
        if not bars:
            return point[1]
        low, high = point[2:] if len(point) > 2 else (point[1], point[1])
        if self.y.scale == LOGARITHMIC:
            low = max(low, point[1] / 100)
        return [low, point[1], high]
