# SPDX-License-Identifier: Apache-2.0
"""What a paper says of a figure and what we find, with verdicts that can fail.

A claim is held to a part of what it says: a ratio to half of its distance from one, the number of a
system to half of its distance from the next system's, and never to more than 15 % of the number.
Beside it stands what a null model scores, in which all systems that are compared do the same."""

import math
import statistics
from dataclasses import dataclass, replace

from rubato_lab import units

# The part of an effect, and the most of a number, by which ours may differ from the paper's.
EFFECT, MOST = 0.5, 0.15
# What counts as the same, where a paper says that something makes no difference.
SAME = 0.05
EQUALS, AT_LEAST, AT_MOST = "", "at least ", "at most "
HOLDS, MISSES, FITTED, NOT_YET = "holds", "MISSES", "fitted", "not yet"


@dataclass(frozen=True)
class Claim:
    """One number or relation of a paper. `ours` is None when it cannot be had: `remark` says why.
    With `kind` AT_LEAST or AT_MOST the paper gives a bound. `null` is ours if all systems were
    equal; None where nothing is compared: there the null model does as we do. `fitted` names the
    prices that were chosen so that this number comes out: it is not judged. `each` is ours with
    each seed, if there were several."""

    what: str
    where: str
    paper: float
    ours: float | None
    unit: str = ""
    kind: str = EQUALS
    tolerance: float = 0.0
    null: float | None = None
    fitted: str = ""
    remark: str = ""
    each: tuple = ()

    @property
    def ratio(self):
        return None if self.ours is None or not self.paper else self.ours / self.paper

    def _held_by(self, found):
        if self.kind == AT_LEAST:
            return found >= self.paper
        if self.kind == AT_MOST:
            return found <= self.paper
        return abs(found - self.paper) <= self.tolerance

    @property
    def holds(self):
        """None when there is nothing to judge."""
        return None if self.ours is None or self.fitted else self._held_by(self.ours)

    @property
    def null_holds(self):
        """Whether the claim would hold if all systems were equal; None as `holds`."""
        if self.holds is None:
            return None
        return self.holds if self.null is None else self._held_by(self.null)

    @property
    def agreeing(self):
        """How many seeds of `each` have the verdict of all; None where none is judged."""
        if self.holds is None or not self.each:
            return None
        return sum(self._held_by(found) == self.holds for found in self.each)

    @property
    def differs(self):
        """Whether some seed has another verdict."""
        return self.agreeing is not None and self.agreeing < len(self.each)

    @property
    def verdict(self):
        if self.ours is None:
            return NOT_YET
        if self.fitted:
            return FITTED
        return HOLDS if self.holds else MISSES


def number(value, unit=""):
    if value is None:
        return "-"
    return f"{units.significant(value, 4)} {unit}".rstrip()


def value(what, where, paper, ours, unit="", **more):
    """The number of a system beside which nothing is compared."""
    return Claim(what, where, paper, ours, unit, tolerance=MOST * abs(paper), **more)


def ratio(what, where, paper, ours, null=1.0, **more):
    """A ratio of two systems, held to half of its distance from `null`: what equal systems have,
    which is one, or more where one of them has more workers. If that is nothing, to SAME."""
    effect = abs(paper - null)
    tolerance = min(MOST * paper, EFFECT * effect) if effect > 1e-9 else SAME * paper
    return Claim(what, where, paper, ours, tolerance=tolerance, null=null, **more)


def same(what, where, ours, **more):
    """The paper says that something makes no difference."""
    return ratio(what, where, 1, ours, **more)


def bound(what, where, kind, paper, ours, unit="", **more):
    """The paper says at least, or at most, so much."""
    return Claim(what, where, paper, ours, unit, kind, **more)


def equal(found):
    """What each system has if all are equal: the geometric mean; None of nothing."""
    return math.exp(sum(map(math.log, found)) / len(found)) if found else None


def systems(what, where, paper, ours, unit="", fitted=None, beside=(), **more):
    """A claim for each system of `paper`, by name. `beside` has the paper's numbers of others that
    are compared with them elsewhere. `ours` may have further systems: the null model gives to all
    the geometric mean of ours. `fitted` has words by name."""
    found = [one for one in ours.values() if one]
    mean = equal(found)
    claims = []
    for name, said in paper.items():
        apart = [abs(other - said) for other in (*paper.values(), *beside) if other != said]
        tolerance = min([MOST * said, *(EFFECT * gap for gap in apart)])
        null = mean if len(found) > 1 else None
        claims.append(Claim(f"{name}: {what}", where, said, ours.get(name), unit,
                            tolerance=tolerance, null=null,
                            fitted=(fitted or {}).get(name, ""), **more))
    return claims


def ratios(what, where, paper, subject, peers):
    """A claim for each peer of `paper`, by name: `subject` over it; `paper` has the ratio. Numbers
    that are None or 0 make ours 0: nothing was sustained."""
    return [ratio(f"{what}, over {name}", where, said,
                  subject / peers[name] if subject and peers[name] else 0.0)
            for name, said in paper.items()]


def in_order(what, where, values, null=0.0):
    """The claim that `values`, by name and in the paper's order, rise strictly: ours is the share
    of neighbouring pairs that do. None among them leaves it open. `null` is 1 where it is one
    system at several loads, which would do so whatever the others do."""
    found = list(values.values())
    if None in found:
        return Claim(what, where, 1, None, kind=AT_LEAST)
    pairs = list(zip(found, found[1:]))
    rising = sum(a < b for a, b in pairs) / len(pairs)
    return Claim(what, where, 1, rising, kind=AT_LEAST, null=null, remark=" < ".join(values))


def _joined(group):
    each = tuple(one.ours for one in group)
    nulls = [one.null for one in group if one.null is not None]
    return replace(group[0], each=each, ours=None if None in each else statistics.median(each),
                   null=statistics.median(nulls) if nulls else None)


def of_seeds(found):
    """The claims that a judge found with each seed, as one list: medians, and what each seed
    gave."""
    return found[0] if len(found) == 1 else [_joined(one) for one in zip(*found, strict=True)]


def everywhere(what, where, lower, higher):
    """The claim that one system has less than another at every load: ours is the share of the
    loads at which it does. Both have a number per load; equal ones are not less."""
    shares = [a < b for a, b in zip(lower, higher, strict=True)]
    return bound(f"loads at which {what}, share", where, AT_LEAST, 1, sum(shares) / len(shares),
                 null=0.0)


HEADINGS = ("claim", "paper", "held to", "ours", "null", "verdict")


def held_to(claim):
    return f"± {units.significant(claim.tolerance, 2)}" if claim.kind == EQUALS else "the bound"


def null_text(claim):
    """What the null model has, and whether the claim would hold with it."""
    if claim.null_holds is None:
        return "-"
    shown = "as ours" if claim.null is None else number(claim.null)
    return shown + (" ✓" if claim.null_holds else "")


def agreement(claim):
    """Words after a verdict that is not that of every seed."""
    return f", {claim.agreeing} of {len(claim.each)} seeds" if claim.differs else ""


def cells(claim):
    return (claim.what, claim.kind + number(claim.paper, claim.unit), held_to(claim),
            number(claim.ours, claim.unit), null_text(claim), claim.verdict + agreement(claim))


def table(claims):
    """Lines for a terminal."""
    rows = [HEADINGS, *(cells(claim) for claim in claims)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    lines = []
    for row in rows:
        texts = [row[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(row[1:5], widths[1:5])),
                 row[5]]
        lines.append("  ".join(texts).rstrip())
    lines.insert(1, "-" * len(lines[0]))
    return lines


@dataclass(frozen=True)
class Score:
    """How many claims are judged, hold, would hold if all systems were equal, hold that then would
    not, and have another verdict with some seed."""

    judged: int
    hold: int
    null: int
    beyond: int
    differ: int


def score(claims):
    judged = [c for c in claims if c.holds is not None]
    return Score(len(judged), sum(c.holds for c in judged), sum(c.null_holds for c in judged),
                 sum(c.holds and not c.null_holds for c in judged),
                 sum(c.differs for c in judged))
