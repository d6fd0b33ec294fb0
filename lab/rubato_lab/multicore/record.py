# SPDX-License-Identifier: Apache-2.0
"""What was measured as one object, schema rubato.multicore/1; times in microseconds."""

import json
from dataclasses import asdict
from pathlib import Path

from rubato_lab.multicore.cells import KINDS

SCHEMA = "rubato.multicore/1"
PERCENTILES = ("p50", "p99", "p999")


class RecordError(Exception):
    """The file is no such record."""


def spread_object(spread):
    if spread is None:
        return None
    return {"median": spread.mid, "low": spread.low, "high": spread.high}


def _tail(cell):
    if not cell.type_names():
        return None
    types = [{"name": name,
              **{f"{which}_us": spread_object(cell.latency(name, which)) for which in PERCENTILES},
              **{f"undisturbed_{which}_us": spread_object(
                  cell.latency(name, which, "undisturbed_us")) for which in PERCENTILES}}
             for name in cell.type_names()]
    return {"offered_rps": cell.runs["tail"][0].offered_rps, "types": types}


def cell_object(cell):
    return {"datapath": cell.datapath, "policy": cell.policy, "workers": cell.workers,
            "server_cpus": list(cell.place.server), "load_cpus": list(cell.place.load),
            "shares_cores": cell.place.shares_cores,
            "throughput_rps": spread_object(cell.throughput()), "tail": _tail(cell),
            "disturbed": {kind: cell.is_disturbed(kind) for kind in KINDS},
            "failures": cell.failures,
            "runs": {kind: [asdict(run) for run in cell.runs[kind]] for kind in KINDS}}


def to_object(head, checks, cells, complete):
    """`head` has the machine, the settings and whence the program comes."""
    return {"schema": SCHEMA, **head, "complete": complete,
            "noise_checks": [asdict(one) for one in checks],
            "cells": [cell_object(cell) for cell in cells]}


def load(path):
    """Raises RecordError."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error})") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise RecordError(f"{path}: not a {SCHEMA} object")
    if missing := sorted({"machine", "settings", "cells", "complete"} - data.keys()):
        raise RecordError(f"{path}: {', '.join(missing)} missing")
    return data
