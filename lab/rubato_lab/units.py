# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them: three significant digits and a unit."""


def significant(value, digits=3):
    """1234.5 -> '1234', 12.345 -> '12.3', 0.01234 -> '0.0123'."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def latency(us):
    """A latency given in microseconds: '312 µs', '7.12 ms', '1.3 s'; '-' when unknown."""
    if us is None:
        return "-"
    for limit, divisor, unit in ((999.5, 1, "µs"), (999.5e3, 1e3, "ms")):
        if us < limit:
            return f"{significant(us / divisor)} {unit}"
    return f"{significant(us / 1e6)} s"


def count(value):
    """25010 -> '25 010'; '-' when unknown."""
    return "-" if value is None else f"{value:,.0f}".replace(",", " ")


def times(value):
    """A ratio: '22.9x'; '-' when unknown."""
    return "-" if value is None else f"{significant(value)}x"


def percent(share):
    """A share of one: 0.001 -> '0.1 %'."""
    return f"{significant(share * 100)} %"


def ends_of(spread, text):
    """'840–848 µs': the unit once when both ends have the same."""
    low, high = text(spread.low), text(spread.high)
    figure, _, unit = low.rpartition(" ")
    same = unit and high.endswith(f" {unit}") and not unit.isdigit()
    return f"{figure if same else low}–{high}"


def spread_of(spread, text=significant):
    """'22.9 [18.2-27]', or the figure alone when there is but one."""
    if spread is None:
        return "-"
    if spread.is_point:
        return text(spread.mid)
    return f"{text(spread.mid)} [{significant(spread.low)}-{significant(spread.high)}]"
