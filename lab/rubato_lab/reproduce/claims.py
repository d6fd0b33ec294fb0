# SPDX-License-Identifier: Apache-2.0
"""What a paper says of a figure and what we find: the paper's number, ours, the ratio."""

from dataclasses import dataclass

from rubato_lab import units

TOLERANCE = 0.15
EQUALS, AT_LEAST, AT_MOST = "", "at least ", "at most "
NOT_YET = "not yet"


@dataclass(frozen=True)
class Claim:
    """One number of a paper. `ours` is None when it cannot be had: `remark` says why. With `kind`
    AT_LEAST or AT_MOST the paper gives a bound."""

    what: str
    where: str
    paper: float
    ours: float | None
    unit: str = ""
    kind: str = EQUALS
    remark: str = ""

    @property
    def ratio(self):
        return None if self.ours is None or not self.paper else self.ours / self.paper

    @property
    def holds(self):
        """None when there is nothing to judge."""
        if self.ours is None:
            return None
        if self.kind == AT_LEAST:
            return self.ours >= self.paper
        if self.kind == AT_MOST:
            return self.ours <= self.paper
        return abs(self.ratio - 1) <= TOLERANCE

    @property
    def verdict(self):
        if self.holds is None:
            return NOT_YET
        if self.kind == EQUALS:
            return "within 15 %" if self.holds else "OFF"
        return "holds" if self.holds else "DOES NOT HOLD"


def number(value, unit=""):
    if value is None:
        return "-"
    return f"{units.significant(value, 4)} {unit}".rstrip()


def in_order(what, where, values):
    """The claim that `values`, by name and in the paper's order, rise strictly: ours is the share
    of neighbouring pairs that do. None among them leaves it open."""
    found = list(values.values())
    if None in found:
        return Claim(what, where, 1, None, kind=AT_LEAST)
    pairs = list(zip(found, found[1:]))
    rising = sum(a < b for a, b in pairs) / len(pairs)
    return Claim(what, where, 1, rising, kind=AT_LEAST, remark=" < ".join(values))


HEADINGS = ("claim", "paper", "ours", "ratio", "verdict")


def cells(claim):
    ratio = "-" if claim.ratio is None else f"{claim.ratio:.2f}"
    return (claim.what, claim.kind + number(claim.paper, claim.unit),
            number(claim.ours, claim.unit), ratio, claim.verdict)


def table(claims):
    """Lines for a terminal."""
    rows = [HEADINGS, *(cells(claim) for claim in claims)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    lines = []
    for row in rows:
        texts = [row[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(row[1:4], widths[1:4])),
                 row[4]]
        lines.append("  ".join(texts).rstrip())
    lines.insert(1, "-" * len(lines[0]))
    return lines


def markdown(claims):
    lines = ["| claim | source | paper | ours | ratio | verdict |", "|---|---|---|---|---|---|"]
    for claim in claims:
        what, paper, ours, ratio, verdict = cells(claim)
        lines.append(f"| {what} | {claim.where} | {paper} | {ours} | {ratio} | {verdict} |")
    return lines
