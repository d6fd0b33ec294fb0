# SPDX-License-Identifier: Apache-2.0
"""Small drawing kit: scales, ticks and SVG elements as text. Knows nothing of Rubato.

Drawings carry their own style, light and dark, so that they work as files and inside a page."""

import math
from dataclasses import dataclass
from html import escape

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
# Okabe and Ito's colours, which colour-blind readers can tell apart, with lighter twins for dark
# pages. Lines differ by dash as well.
STYLE = """
.rb { --ink:#1d2127; --soft:#5b6470; --grid:#e4e7eb; --axis:#9aa3ad; --paper:#ffffff;
 --c0:#c94f00; --c1:#007a5a; --c2:#0068a8; --c3:#6b7280; }
@media (prefers-color-scheme: dark) {
 .rb { --ink:#e8eaed; --soft:#a3abb5; --grid:#2b3036; --axis:#6a727c; --paper:#14171a;
 --c0:#ff8b4d; --c1:#3ccaa2; --c2:#63b9f5; --c3:#aab1ba; } }
.rb text { font-family: FONT; fill: var(--ink); }
.rb .bg { fill: var(--paper); }
.rb .title { font-size: 17px; font-weight: 650; }
.rb .sub, .rb .tick, .rb .unit { fill: var(--soft); }
.rb .sub, .rb .unit { font-size: 12.5px; } .rb .tick { font-size: 11.5px; }
.rb .grid { stroke: var(--grid); } .rb .axis { stroke: var(--axis); }
.rb .name { font-size: 13px; font-weight: 650; } .rb .value { font-size: 12px; }
.rb .note { font-size: 13px; font-weight: 650; }
.rb .halo { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.rb .line { fill: none; stroke-width: 2.4; stroke-linejoin: round; }
.rb .thin { fill: none; stroke-width: 1; opacity: .38; }
""".replace("FONT", FONT)
DASHES = ("", "7 4", "", "2 3")


@dataclass(frozen=True)
class LogScale:
    """Maps [low, high] to [start, end] logarithmically; what lies outside is clamped."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)


@dataclass(frozen=True)
class LinearScale:
    """Maps [low, high] to [start, end]."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value):
        part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def decades(low, high):
    """The powers of ten within [low, high]."""
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    return [10.0 ** e for e in range(first, last + 1)]


def snap_down(value):
    """The largest of 1, 2, 5 times a power of ten that does not exceed the value."""
    unit = 10.0 ** math.floor(math.log10(value) + 1e-12)
    return max(unit * step for step in (1, 2, 5) if unit * step <= value * (1 + 1e-9))


def snap_up(value):
    """The smallest of 1, 2, 5, 10 times a power of ten that is not below the value."""
    unit = 10.0 ** math.floor(math.log10(value) + 1e-12)
    return min(unit * step for step in (1, 2, 5, 10) if unit * step >= value * (1 - 1e-9))


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def element(tag, content="", **attributes):
    """`class_` and `font_size` become class and font-size; None leaves an attribute out."""
    parts = [tag]
    for key, value in attributes.items():
        if value is None or value == "":
            continue
        text = number(value) if isinstance(value, float) else str(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    head = " ".join(parts)
    return f"<{head}>{content}</{tag}>" if content else f"<{head}/>"


def text(x, y, words, class_, anchor="start", **more):
    return element("text", escape(words), x=float(x), y=float(y), class_=class_,
                   text_anchor=anchor, **more)


def line(x1, y1, x2, y2, class_, **more):
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2),
                   class_=class_, **more)


def path(points, class_, colour, dash=""):
    """A polyline through (x, y) in pixels; nothing for fewer than two points."""
    if len(points) < 2:
        return ""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return element("path", d="M" + steps, class_=class_, stroke=f"var(--c{colour})",
                   stroke_dasharray=dash)


def document(width, height, label, parts):
    """A whole drawing. `label` is what a screen reader says."""
    body = "\n".join(part for part in parts if part)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" class="rb" role="img" '
            f'aria-label="{escape(label)}">\n<style>{STYLE}</style>\n'
            f'<rect class="bg" width="{width}" height="{height}" rx="6"/>\n{body}\n</svg>\n')
