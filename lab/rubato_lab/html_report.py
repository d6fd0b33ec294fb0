# SPDX-License-Identifier: Apache-2.0
"""The demo's report: one HTML file that needs no network and no script."""

import shlex
from html import escape

from rubato_lab import comparison, figures, table, units

STYLE = """
:root { color-scheme: light dark; --ink:#1d2127; --soft:#5b6470; --rule:#dde1e6; --paper:#fff;
 --good:#00704f; --bad:#b53d00; --shade:rgba(0,0,0,.16); }
@media (prefers-color-scheme: dark) { :root { --ink:#e8eaed; --soft:#a3abb5; --rule:#33393f;
 --paper:#14171a; --good:#3ccaa2; --bad:#ff8b4d; --shade:rgba(255,255,255,.18); } }
body { margin: 0 auto; padding: 40px 20px 80px; max-width: 880px; color: var(--ink);
 background: var(--paper); font: 15px/1.55 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans',
 sans-serif; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 10px; } h2 { font-size: 18px;
 margin: 44px 0 8px; } p { margin: 8px 0; } .soft { color: var(--soft); }
/* Drawings keep the size of their words, and wide tables take what the window has; what is still
   wider scrolls in its box, whose right edge is shaded until its end is seen. */
figure { margin: 26px -20px; overflow-x: auto; } svg { height: auto; display: block; }
figure svg { width: 100%; min-width: 760px; }
.scroll { overflow-x: auto; background:
 linear-gradient(to left, var(--paper) 50%, transparent) right / 28px 100% no-repeat local,
 linear-gradient(to left, var(--shade), transparent) right 2px top / 12px 100% no-repeat scroll; }
.wide { width: max-content; min-width: 100%; max-width: calc(100vw - 40px); margin-left: 50%;
 transform: translateX(-50%); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums;
 font-size: 13px; width: 100%; } th, td { text-align: right; padding: 5px 6px;
 border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { font-weight: 600; color: var(--soft); vertical-align: bottom; } td small { color: var(--soft);
 display: block; font-size: 11px; }
table.facts { margin-top: 22px; } table.facts td { overflow-wrap: anywhere; }
table.facts td, table.facts th { text-align: left; white-space: normal; }
table.promises td:first-child { min-width: 9em; }
table.promises td:nth-child(n+2) { white-space: nowrap; }
table.figures tr > :first-child { position: sticky; left: 0; background: var(--paper); }
td.remark { text-align: left; white-space: normal; min-width: 15em; }
.met { color: var(--good); } .missed { color: var(--bad); }
pre { font-size: 12px; overflow-x: auto; padding: 12px 14px; line-height: 1.5;
 border: 1px solid var(--rule); border-radius: 6px; }
"""


def _table(head, lines, kind="figures", box="scroll"):
    """In a box that scrolls by itself, so that no table is cut off or widens the page. The box is
    as wide as the text; `wide` ones take what the window has."""
    return (f'<div class="{box}" tabindex="0"><table class="{kind}">{head}'
            f'{"".join(lines)}</table></div>')


def _heads(names):
    return "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"


def _range(spread, text):
    if spread is None:
        return "<td>-</td>"
    low_high = "" if spread.is_point else f"<small>{units.ends_of(spread, text)}</small>"
    return f"<td>{text(spread.mid)}{low_high}</td>"


def _row(row):
    mark = ' <span class="missed">invalid</span>' if row.flagged else ""
    return ("<tr><td>" + escape(row.name) + mark + "</td>"
            + "".join(_range(s, units.latency) for s in (row.get_p50, row.get_p99, row.get_p999))
            + _range(row.lower, units.times)
            + _range(row.undisturbed_p999, units.latency)
            + _range(row.undisturbed_share, units.percent) + _range(row.scan_p99, units.latency)
            + f"<td>{units.count(row.refused + row.lost)}</td>"
            + _range(row.achieved_rps, units.count)
            + f"<td>{units.latency(row.closed_p99)}</td>"
            + f"<td>{units.count(row.closed_rps)}</td></tr>")


def results_table(rows):
    heads = ("policy", "GET p50", "GET p99", "GET p99.9", "times lower<br>than fcfs",
             "GET p99.9<br>no stalls", "share with<br>no stalls", "scan p99",
             "refused<br>or lost", "served<br>per s", "closed loop<br>GET p99",
             "closed loop<br>per s")
    return _table(_heads(heads), map(_row, rows), box="scroll wide")


def beside_table(rows, keys):
    """GETs beside KEYS; empty where nothing was measured."""
    lines = [f"<tr><td>{escape(one.name)}</td>"
             + "".join(f"<td>{units.latency(us)}</td>" for us in (
                 one.alone_p99, one.get_p50, one.get_p99, one.get_p999, one.keys_us))
             + "</tr>" for one in rows]
    heads = _heads(("server", "GET p99<br>without KEYS", "GET p50<br>beside KEYS",
                    "GET p99<br>beside KEYS", "GET p99.9<br>beside KEYS", "KEYS"))
    title = f"<h2>GETs beside KEYS * of {units.count(keys)} keys, twice a second</h2>"
    return title + _table(heads, lines) if lines else ""


def verdict_table(verdicts):
    lines = []
    for v in verdicts:
        class_, word = {True: ("met", "met"), False: ("missed", "not met"),
                        None: ("missed", "not judged" if v.target else "")}[v.met]
        measured = units.spread_of(v.ratio, units.times)
        lines.append(f"<tr><td>{escape(v.what)}</td><td>{measured}</td>"
                     f'<td>{escape(v.target or v.reason)}</td>'
                     f'<td class="{class_}">{word}</td></tr>')
    heads = _heads(("promise", "measured", "target", ""))
    return _table(heads, lines, "facts promises") if lines else ""


def _noise_row(name, number, measured, remark):
    noise, report = measured.noise, measured.report
    gaps = report.noise.get("gaps_over_100us_per_s")
    lag = report.send_lag_us
    state = remark or ("valid" if report.valid else f"INVALID: {report.invalid_reason}")
    cells = (f"{name} {number}", f"{noise.foreign:.2f}", f"{100 * noise.steal:.1f} %",
             "-" if gaps is None else f"{gaps:.0f}",
             units.latency(report.noise.get("max_gap_us")), units.latency(lag.get("p99")),
             units.latency(report.latency("get", "p999")))
    return ("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells)
            + f'<td class="remark">{escape(state)}</td></tr>')


def noise_table(attempts_by_name):
    heads = ("run", "cores used<br>by others", "steal", "gaps &gt; 100 µs<br>per s",
             "longest<br>gap", "send lag<br>p99", "GET p99.9", "")
    lines = []
    for name, attempts in attempts_by_name.items():
        lines += [_noise_row(name, i + 1, m, "") for i, m in enumerate(attempts.opened)
                  if m is not None]
        lines += [_noise_row(name, "discarded", m, f"repeated: {m.report.invalid_reason}")
                  for m in attempts.discarded]
    return _table(_heads(heads), lines)


def facts_table(record):
    facts = {**record.machine, **record.settings}
    lines = [f"<tr><td>{escape(key.replace('_', ' '))}</td><td>{escape(str(value))}</td></tr>"
             for key, value in facts.items()]
    return _table("", lines, "facts")


def commands_text(record):
    lines = []
    for name, attempts in record.attempts.items():
        lines.append(f"# {name}")
        if name in record.server_commands:
            lines.append(shlex.join(record.server_commands[name]))
        lines += [shlex.join(m.command) for m in [*attempts.used()[:1], attempts.closed] if m]
    return "<pre>" + escape("\n".join(lines)) + "</pre>"


METHOD = """<p>Each policy served the same seeded arrivals in turn, one after the other and then
again, each time by a fresh server with one worker on one core; the generator had another core.
Latency runs from the moment a request was <em>scheduled</em> to be sent until its reply was
complete, so that a stalled server cannot thin out its own measurement. Cells, curves and dots show
the median of the repeats, the range below it or as thin lines; a ratio is taken repeat by repeat,
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


def render(record):
    """The whole page."""
    title = figures.finding(record)
    scans = figures.scan_text(record.settings)
    intro = (f"{units.count(record.settings['rate_rps'])} requests per second, open loop; {scans}."
             f" {escape(record.machine['cpu'])}, {record.machine['cores']} cores.")
    failures = "".join(
        f'<p class="missed">{escape(name)} was not measured: {escape(a.failure)}</p>'
        for name, a in record.attempts.items() if a.failure)
    drawings = [f'<figure tabindex="0">{drawing}</figure>' if drawing else "" for drawing in (
        figures.get_ccdf(record, "How many GETs waited, and how long"),
        figures.get_timeline(record), figures.scan_ccdf(record))]
    noise = table.noise_line(comparison.noise_summary(record.attempts))
    return "\n".join([
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Rubato: {escape(title)}</title><style>{STYLE}</style></head><body>",
        f'<h1>{escape(title)}</h1><p class="soft">{intro}</p>{failures}',
        beside_table(record.beside, record.settings.get("keys", 0)), drawings[0],
        results_table(comparison.rows(record.attempts)),
        verdict_table(comparison.verdicts(record.attempts)),
        f"<h2>How it was measured</h2>{METHOD}{STALLS}{CLOSED}", drawings[1], drawings[2],
        f"<h2>Noise of this machine</h2><p>{escape(noise)}.</p>",
        "<p>None of it was subtracted from any figure but those marked “no stalls”. On a busy or"
        " virtual machine p99.9 of the fastest policy shows the machine more than the server.</p>",
        noise_table(record.attempts), f"<h2>Settings</h2>{facts_table(record)}",
        f"<h2>Commands</h2>{commands_text(record)}", "</body></html>\n"])
