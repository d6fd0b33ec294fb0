# SPDX-License-Identifier: Apache-2.0
"""Finds room for a label beside its curve: tries places along the curve, on both sides, and takes
the one that covers the fewest curves and labels. Pixels; y grows downwards."""

from dataclasses import dataclass

GAP = 9
CROSSING_COST = 1
LABEL_COST = 40
OUTSIDE_COST = 400
# Prefers the first places offered when nothing else tells them apart.
LATER_COST = 0.01


@dataclass(frozen=True)
class Box:
    """A rectangle by its left upper corner."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other):
        return (self.x < other.x + other.width and other.x < self.x + self.width
                and self.y < other.y + other.height and other.y < self.y + self.height)

    def holds(self, x, y):
        return self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height


def dense(points, step=4.0):
    """The polyline with points no further apart than `step`, so that crossings are seen."""
    filled = []
    for (x1, y1), (x2, y2) in zip(points, points[1:]):
        pieces = max(1, int(max(abs(x2 - x1), abs(y2 - y1)) / step))
        filled += [(x1 + (x2 - x1) * i / pieces, y1 + (y2 - y1) * i / pieces)
                   for i in range(pieces)]
    return filled + list(points[-1:])


def _cost(box, frame, curves, taken):
    inside = (frame.holds(box.x, box.y)
              and frame.holds(box.x + box.width, box.y + box.height))
    crossings = sum(box.holds(x, y) for curve in curves for x, y in curve)
    return (CROSSING_COST * crossings + LABEL_COST * sum(box.overlaps(t) for t in taken)
            + (0 if inside else OUTSIDE_COST))


def place(anchors, size, frame, curves, taken):
    """The best Box for a label of `size` beside one of the `anchors` (points on its curve)."""
    width, height = size
    options = []
    for x, y in anchors:
        for left in (x + GAP, x - GAP - width):
            for top in (y - height / 2, y - height - GAP / 2, y + GAP / 2):
                options.append(Box(left, top, width, height))
    return min(enumerate(options),
               key=lambda option: _cost(option[1], frame, curves, taken) + LATER_COST * option[0]
               )[1]
