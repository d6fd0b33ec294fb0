# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/REPRODUCTION.md, from the kept records and the figures."""

from rubato_lab.reproduce import claims, records
from rubato_lab.reproduce.papers import papers


class Stale(Exception):
    """The kept records are not those of the figures."""


def checked(found):
    """The same records. Raises Stale if a figure has none, or a record has no figure."""
    known = {figure.id for paper in papers() for figure in paper.figures}
    missing = [one for one in known if one not in found]
    unknown = [one for one in found if one not in known]
    if missing:
        raise Stale(f"no record of {', '.join(sorted(missing))}: run tools/reproduce.py --write")
    if unknown:
        raise Stale(f"{records.DATA.name} has {', '.join(unknown)}, which no figure is")
    return found


def _row(name, score):
    numbers = (score.judged, score.hold, score.null, score.beyond, score.differ)
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def scores(found):
    """The table that opens the page."""
    lines = ["| paper | claims | hold | hold under the null model | hold, and not under it | "
             "differ by seed |", "|---|---|---|---|---|---|"]
    everything = []
    for paper in papers():
        mine = [c for figure in paper.figures for c in found[figure.id].claims]
        everything += mine
        lines.append(_row(paper.name, claims.score(mine)))
    lines.append(_row("**all**", claims.score(everything)))
    fitted = sum(bool(c.fitted) for c in everything)
    open_ones = sum(c.verdict == claims.NOT_YET for c in everything)
    apart = sum(any(claim.each for claim in record.claims) for record in found.values())
    lines += ["", f"Not judged: {fitted} numbers that prices were fitted to, {open_ones} that a "
              f"run could not give. Whether a verdict differs by seed is known of {apart} of "
              f"{len(found)} figures."]
    return lines


def _cell(text):
    return text.replace("|", "\\|")


def _claim(claim):
    what, paper, held, ours, null, _ = claims.cells(claim)
    mark = {claims.HOLDS: "✓", claims.MISSES: "✗"}.get(claim.verdict, claim.verdict)
    mark += claims.agreement(claim)
    if claim.fitted:
        mark += f": {claim.fitted}"
    return f"| {_cell(what)} | {claim.where} | {paper} | {held} | {ours} | {null} | {mark} |"


def _seeds(record):
    if record.seeds == 1:
        return "1 seed"
    apart = not record.claims or any(one.each for one in record.claims)
    return f"{record.seeds} seeds" + ("" if apart else ", judged together")


def _figure(figure, record):
    effort = f"{record.requests / 1e6:g} million requests a run, {_seeds(record)}"
    lines = [f"### {figure.id}: {figure.title}", "", f"{figure.source}. {effort}."]
    if figure.about:
        lines[-1] += f" {figure.about}"
    if record.claims:
        lines += ["", "| claim | source | paper | held to | ours | null | |",
                  "|---|---|---|---|---|---|---|", *map(_claim, record.claims)]
    if record.probes:
        lines += ["", "| run that isolates a cause | ours |", "|---|---|",
                  *(f"| {_cell(probe.what)} | {probe.text} |" for probe in record.probes)]
    if figure.notes:
        lines += ["", *(f"- *{topic}*: {words}" for topic, words in figure.notes)]
    if figure.not_yet:
        lines += ["", f"Lines of the paper without a model: {', '.join(figure.not_yet)}."]
    return lines + [""]


def figures(found):
    lines = []
    for paper in papers():
        lines += [f"## {paper.name}", ""]
        for figure in paper.figures:
            lines += _figure(figure, found[figure.id])
        lines += [f"### {paper.name}: what cannot be had", "",
                  *(f"- *{what}*: {why}" for what, why in paper.missing), ""]
    return lines[:-1]


PARTS = {"scores": scores, "figures": figures}


def part(name):
    """The text of one part. Raises Stale."""
    return "\n".join(PARTS[name](checked(records.load()))) + "\n"
