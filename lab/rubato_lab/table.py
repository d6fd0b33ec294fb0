# SPDX-License-Identifier: Apache-2.0
"""The one table of the demo, its verdicts and its line about noise, as text for a terminal."""

import textwrap

from rubato_lab import comparison, units

MAX_COLUMNS = 100
COLUMN_GAP = 2


def _middle(spread, text):
    return text(spread.mid) if spread else "-"


def cells(row):
    """One line of the table as texts, in the order of HEADINGS."""
    name = row.name + (" !" if row.flagged else "")
    return [name, _middle(row.get_p50, units.latency), _middle(row.get_p99, units.latency),
            _middle(row.get_p999, units.latency), units.spread_of(row.lower),
            _middle(row.scan_p99, units.latency), units.count(row.refused + row.lost),
            _middle(row.achieved_rps, units.count), units.latency(row.closed_p99)]


HEADINGS = (
    ("", "policy"), ("GET", "p50"), ("", "p99"), ("", "p99.9"), ("times lower", "than fcfs"),
    ("scan", "p99"), ("refused", "or lost"), ("served", "per s"), ("closed loop", "GET p99"))


def render(rows):
    """At most 100 columns wide."""
    body = [cells(row) for row in rows]
    heads = [[heading[i] for heading in HEADINGS] for i in (0, 1)]
    widths = [max(len(line[i]) for line in heads + body) for i in range(len(HEADINGS))]
    gap = " " * COLUMN_GAP

    def line(texts):
        first = texts[0].ljust(widths[0])
        return gap.join([first, *(t.rjust(w) for t, w in zip(texts[1:], widths[1:]))]).rstrip()

    rule = "-" * (sum(widths) + COLUMN_GAP * (len(widths) - 1))
    return "\n".join([line(heads[0]), line(heads[1]), rule, *(line(b) for b in body)])


def verdict_lines(verdicts):
    lines = []
    for verdict in verdicts:
        word = {True: "met", False: "NOT MET", None: "not judged"}[verdict.met]
        judged = f"target {verdict.target:<7} {word}" if verdict.target else verdict.reason
        lines.append(f"{verdict.what:<31} {units.spread_of(verdict.ratio):<20} {judged}".rstrip())
    return lines


def undisturbed_lines(rows):
    """GET p99.9 without the machine's stalls, beside the table's; empty where nobody told."""
    told = [row for row in rows if row.undisturbed_share]
    if not told:
        return []
    width = max(len(row.name) for row in told)
    lines = ["GET p99.9 of the requests that no stall of the machine touched (stalls: 200 µs and "
             "more", "without a core, found from the kernel's figures; same rule for all):"]
    for row in told:
        share = units.percent(row.undisturbed_share.mid)
        p999 = (_middle(row.undisturbed_p999, units.latency) if row.undisturbed_p999
                else "too few to tell")
        lower = (f", {units.spread_of(row.undisturbed_lower)} times lower than fcfs"
                 if row.undisturbed_lower and row.name != comparison.BASELINE else "")
        lines.append(f"  {row.name:<{width}}  {p999} ({share} of the GETs){lower}")
    return lines


def beside_lines(rows, keys):
    """GETs beside KEYS; empty where nothing was measured."""
    if not rows:
        return []
    lines = [f"2 000 GETs/s beside KEYS * of {units.count(keys)} keys, twice a second:",
             f"  {'':<8} {'GET p99 without KEYS':>20} {'GET p99':>9} {'GET p99.9':>10} {'KEYS':>8}"]
    lines += [f"  {one.name:<8} {units.latency(one.alone_p99):>20} {units.latency(one.get_p99):>9}"
              f" {units.latency(one.get_p999):>10} {units.latency(one.keys_us):>8}"
              for one in rows]
    return lines


def noise_line(noise):
    """One honest sentence. None of it is subtracted from the figures of the whole run."""
    if noise is None:
        return "noise: nothing was measured"
    parts = [f"others used {noise.foreign_cores:.2f} cores (worst {noise.foreign_worst:.2f})",
             f"steal {noise.steal_percent:.1f} %"]
    if noise.gaps_over_100us_per_s is not None:
        parts.append(f"the generator lost its core for > 100 µs "
                     f"{noise.gaps_over_100us_per_s:.0f} times a second"
                     f" (worst {units.latency(noise.max_gap_us)})")
    if noise.floor_us:
        parts.append(f"a p99.9 below about {units.latency(noise.floor_us)} cannot be seen here now")
    if noise.discarded:
        parts.append(f"{noise.discarded} invalid run(s) repeated")
    if noise.invalid:
        parts.append(f"{noise.invalid} run(s) stayed INVALID")
    verdict = "not a quiet machine" if noise.is_dirty else "a quiet machine"
    return f"noise: {verdict}: " + "; ".join(parts)


def folded(words):
    """A long sentence over several lines."""
    return textwrap.fill(words, MAX_COLUMNS, subsequent_indent="       ")
