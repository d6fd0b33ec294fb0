# SPDX-License-Identifier: Apache-2.0
"""What the runs say together: medians over repeats, ratios to the baseline, verdicts, noise."""

from dataclasses import dataclass, field

from rubato_lab import stats
from rubato_lab.contenders import GET

BASELINE = "fcfs"
SUBJECT = "synergy"
# (figure, at least or at most this, how the figure is told)
GET_TARGET = 10.0
THROUGHPUT_TARGET = 0.97
P999 = 0.001
# Beyond this much of a core used by others, or stolen, a figure is of the machine's neighbours.
DIRTY_CORES = 0.05


@dataclass
class Attempts:
    """All runs of one contender: `opened[i]` is repeat i, the last try of it. `discarded` holds
    tries that were invalid and repeated. `closed` is the closed-loop run, if any."""

    scan: str
    opened: list = field(default_factory=list)
    discarded: list = field(default_factory=list)
    closed: object = None
    failure: str = ""

    def good(self):
        return [m for m in self.opened if m is not None and m.report.valid]

    def used(self):
        """The valid runs; when there is none, the invalid ones, which `flagged` tells."""
        return self.good() or [m for m in self.opened if m is not None]

    @property
    def flagged(self):
        return bool(self.used()) and not self.good()

    def per_repeat(self, figure):
        """One value per repeat, None where the repeat is not used."""
        used = {id(m) for m in self.used()}
        return [figure(m.report) if m is not None and id(m) in used else None
                for m in self.opened]


@dataclass(frozen=True)
class Row:
    """One line of the table. Latencies in microseconds, all as stats.Spread or None."""

    name: str
    get_p50: stats.Spread | None
    get_p99: stats.Spread | None
    get_p999: stats.Spread | None
    lower: stats.Spread | None  # GET p99.9 of the baseline over this one's
    # The same two of the GETs that no stall of the machine touched, and their share of all GETs.
    undisturbed_p999: stats.Spread | None
    undisturbed_lower: stats.Spread | None
    undisturbed_share: stats.Spread | None
    scan_p99: stats.Spread | None
    refused: int
    lost: int
    achieved_rps: stats.Spread | None
    closed_p99: float | None
    closed_rps: float | None
    flagged: bool


@dataclass(frozen=True)
class Verdict:
    """One promise held against the runs. `met` is None when there is nothing to judge by; without
    a `target` it is a figure to know beside the promises, and `reason` says why no target is
    set."""

    what: str
    ratio: stats.Spread | None
    target: str
    met: bool | None
    reason: str = ""


def _ratio(attempts, over, figure_of):
    """figure(attempts)/figure(over), repeat by repeat, or of the medians when no repeat is valid in
    both; figure_of(attempts) reads a report."""
    above, below = (a.per_repeat(figure_of(a)) for a in (attempts, over))
    pairs = stats.ratios(above, below)
    if not pairs and stats.spread(above) and stats.spread(below):
        pairs = stats.ratios([stats.spread(above).mid], [stats.spread(below).mid])
    return stats.spread(pairs)


def _get(which):
    return lambda _: lambda report: report.latency(GET, which)


# A machine that stalls for milliseconds several times a second sets the p99.9 of every policy. The
# median over 100 ms slices tells what the policies do between its stalls.
def _typical(_):
    return lambda report: report.typical(GET, "p999")


# The same percentile over the whole run, of the requests that no stall can have touched. Which ones
# those are is told by when they were due and when a core was lost, not by how long they took.
def _undisturbed(_):
    return lambda report: report.undisturbed_latency(GET, "p999")


def _scan(which):
    return lambda attempts: lambda report: report.latency(attempts.scan, which)


def row_of(name, attempts, baseline):
    def over_repeats(figure_of):
        return stats.spread(attempts.per_repeat(figure_of(attempts)))

    used = [m.report for m in attempts.used()]
    closed = attempts.closed.report if attempts.closed else None
    return Row(
        name=name, get_p50=over_repeats(_get("p50")), get_p99=over_repeats(_get("p99")),
        get_p999=over_repeats(_get("p999")),
        lower=_ratio(baseline, attempts, _get("p999")) if baseline else None,
        undisturbed_p999=over_repeats(_undisturbed),
        undisturbed_lower=_ratio(baseline, attempts, _undisturbed) if baseline else None,
        undisturbed_share=over_repeats(lambda _: lambda r: r.undisturbed_share(GET)),
        scan_p99=over_repeats(_scan("p99")), refused=sum(r.refused for r in used),
        lost=sum(r.lost for r in used),
        achieved_rps=stats.spread(r.achieved_rps for r in used),
        closed_p99=closed.latency(GET, "p99") if closed else None,
        closed_rps=closed.achieved_rps if closed else None, flagged=attempts.flagged)


def rows(attempts_by_name):
    baseline = attempts_by_name.get(BASELINE)
    return [row_of(name, attempts, baseline) for name, attempts in attempts_by_name.items()
            if attempts.used()]


def _judge(what, ratio, target, holds, by_valid_runs):
    met = holds(ratio.mid) if ratio and by_valid_runs else None
    return Verdict(what, ratio, target, met)


def verdicts(attempts_by_name):
    """Empty unless both the baseline and the subject ran."""
    base = attempts_by_name.get(BASELINE)
    subject = attempts_by_name.get(SUBJECT)
    if not base or not subject or not base.used() or not subject.used():
        return []
    valid = not base.flagged and not subject.flagged

    def rate(_):
        return lambda report: report.achieved_rps

    at_least = f">= {GET_TARGET:g}"
    return [
        _judge("GET p99, times lower", _ratio(base, subject, _get("p99")), at_least,
               lambda r: r >= GET_TARGET, valid),
        _judge("GET p99.9 without stalls", _ratio(base, subject, _undisturbed), at_least,
               lambda r: r >= GET_TARGET, valid),
        _judge("throughput, times that of fcfs", _ratio(subject, base, rate),
               f">= {THROUGHPUT_TARGET:g}", lambda r: r >= THROUGHPUT_TARGET, valid),
        Verdict("GET p99.9 of the whole run", _ratio(base, subject, _get("p999")), "", None,
                "the machine's stalls hit every policy alike"),
        Verdict("GET p99.9 in a typical 100 ms", _ratio(base, subject, _typical), "", None,
                "the median over slices of the run"),
        Verdict("scan p99, times that of fcfs", _ratio(subject, base, _scan("p99")), "", None,
                "the price: GETs overtake scans"),
    ]


@dataclass(frozen=True)
class NoiseSummary:
    """Of the open-loop runs: medians, and the worst where that says more."""

    foreign_cores: float
    foreign_worst: float
    steal_percent: float
    gaps_over_100us_per_s: float | None
    gaps_over_1ms_per_s: float | None
    max_gap_us: float | None
    discarded: int
    invalid: int

    @property
    def floor_us(self):
        """A latency that p99.9 can hardly be below here: gaps of this length take up a thousandth
        of the generator's time, so that a request in a thousand falls due in one. None if none."""
        if self.gaps_over_1ms_per_s and self.gaps_over_1ms_per_s * 1e-3 >= P999:
            return 1000.0
        if self.gaps_over_100us_per_s and self.gaps_over_100us_per_s * 1e-4 >= P999:
            return 100.0
        return None

    @property
    def is_dirty(self):
        return (self.foreign_cores > DIRTY_CORES or self.steal_percent > DIRTY_CORES * 100
                or self.invalid > 0 or self.floor_us == 1000.0)


def noise_summary(attempts_by_name):
    everything = [m for a in attempts_by_name.values() for m in a.opened if m is not None]
    if not everything:
        return None
    def gaps(key):
        return [m.report.noise.get(key) for m in everything]

    foreign = stats.spread(m.noise.foreign for m in everything)
    worst_gap = stats.spread(gaps("max_gap_us"))
    per_s = stats.spread(gaps("gaps_over_100us_per_s"))
    long_per_s = stats.spread(gaps("gaps_over_1ms_per_s"))
    return NoiseSummary(
        foreign.mid, foreign.high, 100 * stats.spread(m.noise.steal for m in everything).mid,
        per_s.mid if per_s else None, long_per_s.mid if long_per_s else None,
        worst_gap.high if worst_gap else None,
        sum(len(a.discarded) for a in attempts_by_name.values()),
        sum(not m.report.valid for m in everything))
