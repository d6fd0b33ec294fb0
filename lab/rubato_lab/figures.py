# SPDX-License-Identifier: Apache-2.0
"""The demo's figures from its record: that of the README as SVG, and those of its report. Their
titles are what was found, not what is drawn."""

from rubato_lab import charts, comparison, stats, units
from rubato_lab.comparison import BASELINE, SUBJECT
from rubato_lab.contenders import GET
from rubato_lab.report import chart

# Colour and dash of each contender; those not named here share the last.
SLOTS = {"fcfs": 0, "ps": 1, "synergy": 2, "redis": 3}
LAST_SLOT = 3
# Below the first ratio the title claims nothing, from the second on it claims all.
WORTH_A_CLAIM = 1.5
WORTH_A_PROMISE = 5


def slot_of(name):
    return SLOTS.get(name, LAST_SLOT)


def scan_text(settings):
    share = units.percent(settings["scan_share"])
    return f"{share} of requests are scans of about {units.latency(settings['scan_us'])}"


def ratio_of(attempts):
    """How many times lower the subject's GET p99.9 is, as the table has it; None if unknown."""
    for row in comparison.rows(attempts):
        if row.name == SUBJECT and row.lower and not row.flagged:
            return row.lower.mid
    return None


def finding(record):
    """The finding in one sentence without a full stop."""
    by_name = {row.name: row for row in comparison.rows(record.attempts)}
    base, subject = by_name.get(BASELINE), by_name.get(SUBJECT)
    if not base or not subject or not base.get_p999 or not subject.get_p999:
        return "GET latency while scans run"
    if base.flagged or subject.flagged:
        return "No valid run: the generator could not keep its schedule"
    slow, fast = units.latency(base.get_p999.mid), units.latency(subject.get_p999.mid)
    ratio = ratio_of(record.attempts)
    # Stalls of the machine can hide the gain at p99.9; where p99 shows it, that is said instead.
    if (ratio or 0) < WORTH_A_PROMISE <= base.get_p99.mid / subject.get_p99.mid:
        return (f"A scan no longer blocks a GET: p99 falls from {units.latency(base.get_p99.mid)} "
                f"to {units.latency(subject.get_p99.mid)}")
    if ratio is None or ratio < WORTH_A_CLAIM:
        return f"GET p99.9 with scans: {slow} under {BASELINE}, {fast} under {SUBJECT}"
    claim = "A scan no longer blocks a GET" if ratio >= WORTH_A_PROMISE else "Scans delay GETs less"
    return (f"{claim}: p99.9 falls from {slow} to {fast}, "
            f"{units.times(ratio)} lower")


def series_of(record, kind):
    """kind(attempts) names the request type whose latencies are drawn."""
    found = []
    for name, attempts in record.attempts.items():
        types = [m.report.type_named(kind(attempts)) for m in attempts.used()]
        runs = [(t.ccdf, t.count) for t in types if t is not None and t.ccdf]
        if runs:
            middle = stats.spread(m.report.latency(kind(attempts), "p999")
                                  for m in attempts.used())
            found.append(charts.Series(name, slot_of(name), runs, middle and middle.mid))
    return found


def _subtitle(record):
    rate = units.count(record.settings["rate_rps"])
    return f"{rate} requests/s, open loop, one worker; {scan_text(record.settings)}"


def statistic(record):
    """What the curves, the dots and the ratios are of; empty where one repeat is all there is."""
    repeats = max((len(a.used()) for a in record.attempts.values()), default=0)
    if repeats < 2:
        return ""
    return (f"bold and dots: the median of {repeats} repeats; thin: each repeat; ratios: the "
            "median of the repeats' own")


def get_ccdf(record):
    """matplotlib's Figure, or None without a point."""
    series = series_of(record, lambda _: GET)
    if not series:
        return None
    lines = [words for words in (_subtitle(record), statistic(record)) if words]
    axes = ("GET latency, from the scheduled send to the reply", "share of GETs slower than x")
    return charts.ccdf(series, finding(record), lines, axes,
                       (BASELINE, SUBJECT, ratio_of(record.attempts)))


def _distribution(record, kind, title, what):
    lines = tuple(chart.Line(one.name, tuple(stats.thinned(one.curve)))
                  for one in series_of(record, kind))
    repeats = max((len(a.used()) for a in record.attempts.values()), default=0)
    note = f"Medians of {repeats} repeats; latency is" if repeats > 1 else "Latency is"
    return chart.Chart(title, chart.Axis(f"{what} latency", chart.LATENCY, chart.LOGARITHMIC),
                       chart.Axis(f"share of {what}s slower", chart.SHARE, chart.LOGARITHMIC),
                       lines, f"{note} from the scheduled send to the end of the reply.",
                       steps=True)


def get_chart(record):
    return _distribution(record, lambda _: GET, "How many GETs waited, and how long", GET.upper())


def scan_chart(record):
    by_name = {row.name: row for row in comparison.rows(record.attempts)}
    base, subject = by_name.get(BASELINE), by_name.get(SUBJECT)
    title = "Scan latency"
    if base and subject and base.scan_p99 and subject.scan_p99:
        title = (f"What the scans pay: p99 {units.latency(subject.scan_p99.mid)} under {SUBJECT}, "
                 f"{units.latency(base.scan_p99.mid)} under {BASELINE}")
    return _distribution(record, lambda a: a.scan, title, "scan")


def typical(attempts):
    """The run whose GET p99.9 is nearest to the median of its contender's."""
    used = attempts.used()
    middle = stats.spread(m.report.latency(GET, "p999") for m in used)
    if middle is None:
        return None
    return min(used, key=lambda m: abs((m.report.latency(GET, "p999") or 0) - middle.mid))


def timeline_chart(record):
    lines = []
    slice_s = 0.1
    for name, attempts in record.attempts.items():
        run = typical(attempts)
        if run is None:
            continue
        slice_s = run.report.slice_s or slice_s
        lines.append(chart.Line(name, tuple(
            (start, types[GET]["p99"]) for start, types in run.report.timeline
            if types.get(GET, {}).get("count"))))
    return chart.Chart("GET p99 over one run", chart.Axis("seconds into the run"),
                       chart.Axis("GET p99", chart.LATENCY, chart.LOGARITHMIC), tuple(lines),
                       f"One value per {slice_s * 1000:g} ms; the run nearest to its policy's "
                       "median.")
