# SPDX-License-Identifier: Apache-2.0
"""Reads a latency figure back as its reader does: by its axis, its dots and its labels."""

import math
import re
from dataclasses import dataclass
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
UNITS_US = {"µs": 1.0, "ms": 1e3, "s": 1e6}
# Coordinates are written with one digit after the point.
PIXEL_ERROR = 0.06


@dataclass
class Drawn:
    """One series as drawn: its label's p99.9 in the words used, its dot and its bold curve."""

    name: str
    label: str
    dot: tuple
    curve: list


def _number(text):
    return float(re.match(r"[\d.]+", text)[0])


def microseconds(text):
    """'4.11 ms' -> 4110."""
    return _number(text) * UNITS_US[text.split()[-1]]


def half_a_digit_us(text):
    """How far from what it says a printed latency may be."""
    digits = text.split()[0].partition(".")[2]
    return 0.5 * 10.0 ** -len(digits) * UNITS_US[text.split()[-1]]


class Figure:
    """The axis runs through the outermost ticks that are named."""

    def __init__(self, text):
        root = ElementTree.fromstring(text)
        self.texts = [(e.get("class", ""), e.text, e) for e in root.iter(f"{SVG}text")]
        ticks = [(float(e.get("x")), microseconds(words)) for class_, words, e in self.texts
                 if class_ == "tick" and e.get("text-anchor") == "middle"]
        (self._x0, self._low), (self._x1, high) = ticks[0], ticks[-1]
        self._decades_a_pixel = math.log10(high / self._low) / (self._x1 - self._x0)
        self.series = self._series(root)

    def latency_at(self, x):
        return self._low * 10.0 ** ((x - self._x0) * self._decades_a_pixel)

    def reading_error(self):
        """The share by which a latency read from a dot may be wrong."""
        return 10.0 ** (2 * PIXEL_ERROR * self._decades_a_pixel) - 1

    def _series(self, root):
        dots = [((float(e.get("cx")), float(e.get("cy"))), e.get("fill"))
                for e in root.iter(f"{SVG}circle")]
        curves = [([tuple(map(float, p.split())) for p in e.get("d")[1:].split("L")],
                   e.get("stroke")) for e in root.iter(f"{SVG}path") if e.get("class") == "line"]
        names = [(w, e.get("style").removeprefix("fill:")) for c, w, e in self.texts
                 if c == "name halo"]
        labels = [w for c, w, _ in self.texts if c == "value halo"]
        found = []
        for (name, colour), label, dot, curve in zip(names, labels, dots, curves, strict=True):
            assert {colour} == {dot[1], curve[1]}, f"{name} has the dot or curve of another"
            found.append(Drawn(name, label.removeprefix("p99.9 "), dot[0], curve[0]))
        return found


def distance(point, curve):
    """Of a point to a polyline, in pixels."""
    def to_piece(a, b):
        length2 = (b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2
        along = 0 if not length2 else ((point[0] - a[0]) * (b[0] - a[0])
                                       + (point[1] - a[1]) * (b[1] - a[1])) / length2
        along = min(max(along, 0), 1)
        return math.dist(point, (a[0] + along * (b[0] - a[0]), a[1] + along * (b[1] - a[1])))

    return min(to_piece(a, b) for a, b in zip(curve, curve[1:]))
