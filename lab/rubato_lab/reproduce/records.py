# SPDX-License-Identifier: Apache-2.0
"""The claims of runs, kept as lines of JSON: docs/reproduction.jsonl, from which the page is made.
A figure is a line with its effort, followed by a line for each of its claims and probes."""

import json
from dataclasses import asdict, dataclass, fields, replace

from rubato_lab.options import ROOT
from rubato_lab.reproduce.claims import Claim
from rubato_lab.reproduce.probes import Probe

DATA = ROOT / "docs/reproduction.jsonl"
DIGITS = 6


@dataclass(frozen=True)
class Record:
    """What a figure's last kept run found."""

    requests: int
    seeds: int
    claims: tuple
    probes: tuple = ()


def _rounded(value):
    if isinstance(value, tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def load(path=DATA):
    """{figure: Record}; nothing without a file. Raises ValueError for a file that is none."""
    found = {}
    if not path.is_file():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        figure = entry.pop("figure")
        if "requests" in entry:
            found[figure] = Record(claims=(), **entry)
        elif "probe" in entry:
            probe = Probe(entry.pop("probe"), **entry)
            found[figure] = replace(found[figure], probes=(*found[figure].probes, probe))
        else:
            claim = Claim(**entry | {"each": tuple(entry.get("each", ()))})
            found[figure] = replace(found[figure], claims=(*found[figure].claims, claim))
    return found


def _line(figure, entry):
    return json.dumps({"figure": figure, **entry}, ensure_ascii=False)


def save(records, order, path=DATA):
    """Writes the records of the figures named in `order`, in that order. Raises OSError."""
    plain = {f.name: f.default for f in fields(Claim)}
    lines = []
    for figure in (name for name in order if name in records):
        record = records[figure]
        lines.append(_line(figure, {"requests": record.requests, "seeds": record.seeds}))
        for claim in record.claims:
            kept = {key: _rounded(value) for key, value in asdict(claim).items()
                    if key in ("paper", "ours") or value != plain[key]}
            lines.append(_line(figure, kept))
        lines += [_line(figure, {"probe": probe.what, "ours": _rounded(probe.ours),
                                 "unit": probe.unit}) for probe in record.probes]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
