# SPDX-License-Identifier: Apache-2.0
"""The demo's report: one HTML file that needs no network."""

import shlex

from rubato_lab import comparison, figures, table, units
from rubato_lab.report.page import Page


def _range(spread, text):
    if spread is None:
        return "-"
    return text(spread.mid) if spread.is_point else (text(spread.mid), units.ends_of(spread, text))


def results_table(page, rows):
    page.table(
        ("policy", "GET p50", "GET p99", "GET p99.9", "times lower than fcfs",
         "GET p99.9, no stalls", "share with no stalls", "scan p99", "refused or lost",
         "served per s", "closed loop GET p99", "closed loop per s"),
        [(row.name + (" (invalid)" if row.flagged else ""),
          *(_range(s, units.latency) for s in (row.get_p50, row.get_p99, row.get_p999)),
          _range(row.lower, units.times), _range(row.undisturbed_p999, units.latency),
          _range(row.undisturbed_share, units.percent), _range(row.scan_p99, units.latency),
          units.count(row.refused + row.lost), _range(row.achieved_rps, units.count),
          units.latency(row.closed_p99), units.count(row.closed_rps)) for row in rows])


def beside_table(page, rows, keys):
    """GETs beside KEYS; nothing where nothing was measured."""
    if not rows:
        return
    page.heading(f"GETs beside KEYS * of {units.count(keys)} keys, twice a second")
    page.table(("server", "GET p99 without KEYS", "GET p50 beside KEYS", "GET p99 beside KEYS",
                "GET p99.9 beside KEYS", "KEYS"),
               [(one.name, *(units.latency(us) for us in (
                   one.alone_p99, one.get_p50, one.get_p99, one.get_p999, one.keys_us)))
                for one in rows])


def verdict_table(page, verdicts):
    if not verdicts:
        return
    words = {True: "met", False: "not met"}
    page.table(("promise", "measured", "target", "verdict"),
               [(v.what, units.spread_of(v.ratio, units.times), v.target or v.reason,
                 words.get(v.met, "not judged" if v.target else "")) for v in verdicts])


def _noise_row(name, number, measured, remark):
    noise, report = measured.noise, measured.report
    gaps = report.noise.get("gaps_over_100us_per_s")
    state = remark or ("valid" if report.valid else f"INVALID: {report.invalid_reason}")
    return ((f"{name} {number}", state), f"{noise.foreign:.2f}", f"{100 * noise.steal:.1f} %",
            "-" if gaps is None else f"{gaps:.0f}",
            units.latency(report.noise.get("max_gap_us")),
            units.latency(report.send_lag_us.get("p99")),
            units.latency(report.latency("get", "p999")))


def noise_table(page, attempts_by_name):
    lines = []
    for name, attempts in attempts_by_name.items():
        lines += [_noise_row(name, i + 1, m, "") for i, m in enumerate(attempts.opened)
                  if m is not None]
        lines += [_noise_row(name, "discarded", m, f"repeated: {m.report.invalid_reason}")
                  for m in attempts.discarded]
    page.table(("run", "cores used by others", "steal", "gaps > 100 µs per s", "longest gap",
                "send lag p99", "GET p99.9"), lines)


def command_lines(record):
    for name, attempts in record.attempts.items():
        yield f"# {name}"
        if name in record.server_commands:
            yield shlex.join(record.server_commands[name])
        yield from (shlex.join(m.command) for m in [*attempts.used()[:1], attempts.closed] if m)


METHOD = """<p>Each policy served the same seeded arrivals in turn, one after the other and then
again, each time by a fresh server with one worker on one core; the generator had another core.
Latency runs from the moment a request was <em>scheduled</em> to be sent until its reply was
complete, so that a stalled server cannot thin out its own measurement. Cells and curves show
the median of the repeats, and cells the range below it; a ratio is taken repeat by repeat,
between runs that were neighbours in time, and its median shown. The first tenth of each run is
warm-up and left out.</p>"""
STALLS = """<p>“No stalls” is the same percentile over the GETs that the machine left alone. A stall
is 200 µs or more in which the generator or a busy thread of the server was ready to run but had no
core, as the kernel counts it. It takes out what was due from 10 ms before it to five times its
length after it, under every policy alike, whatever the latency of those requests; shorter
disturbances stay in. The figures of the whole run stand beside it and count everything.</p>"""
CLOSED = """<p>“Closed loop” is what a classic tool reports: a fixed number of clients, each of
which waits for its reply before it sends again. While a scan holds the server these clients send
nothing, so the requests that would have suffered are never counted.</p>"""


def page_of(record):
    """The whole report, a Page."""
    scans = figures.scan_text(record.settings)
    page = Page(figures.finding(record), (
        f"{units.count(record.settings['rate_rps'])} requests per second, open loop; {scans}."
        f" {record.machine['cpu']}, {record.machine['cores']} cores."))
    for name, attempts in record.attempts.items():
        if attempts.failure:
            page.words(f"{name} was not measured: {attempts.failure}", "missed")
    beside_table(page, record.beside, record.settings.get("keys", 0))
    page.chart(figures.get_chart(record))
    results_table(page, comparison.rows(record.attempts))
    verdict_table(page, comparison.verdicts(record.attempts))
    page.heading("How it was measured")
    page.markup(METHOD + STALLS + CLOSED)
    page.chart(figures.timeline_chart(record))
    page.chart(figures.scan_chart(record))
    page.heading("Noise of this machine")
    page.words(table.noise_line(comparison.noise_summary(record.attempts)) + ".")
    page.words("None of it was subtracted from any figure but those marked “no stalls”. On a busy"
               " or virtual machine p99.9 of the fastest policy shows the machine more than the"
               " server.")
    noise_table(page, record.attempts)
    page.heading("Settings")
    page.facts((key.replace("_", " "), value)
               for key, value in {**record.machine, **record.settings}.items())
    page.heading("Commands")
    page.commands(command_lines(record))
    return page
