# SPDX-License-Identifier: Apache-2.0
"""Reads the object that `rubato load --json` writes (schema rubato.run/1)."""

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = "rubato.run/1"


class ReportError(Exception):
    """The file is missing, is not JSON or lacks a key of the contract."""


# p99.9 of fewer requests than this rests on less than ten of them.
MIN_UNDISTURBED = 10_000


@dataclass
class TypeReport:
    """One request type. Latencies in microseconds; ccdf holds (latency, share slower)."""

    name: str
    count: int
    latency_us: dict
    refused: int = 0
    errors: int = 0
    lost: int = 0
    ccdf: list = field(default_factory=list)


@dataclass
class Undisturbed:
    """The requests of one type that no stall of the machine touched: how many, which share of the
    replies of their type, and their latencies in microseconds."""

    count: int
    share: float
    latency_us: dict


@dataclass
class RunReport:
    """One run of the generator. `timeline`: (start_s, {type: {count, p50, p99, p999, max}});
    `undisturbed`: {type: Undisturbed}, empty when the generator did not tell."""

    offered_rps: float
    achieved_rps: float
    requests: int
    refused: int
    lost: int
    valid: bool
    types: dict
    invalid_reason: str = ""
    seed: int = 0
    wall_s: float = 0.0
    noise: dict = field(default_factory=dict)
    send_lag_us: dict = field(default_factory=dict)
    machine: dict = field(default_factory=dict)
    version: str = ""
    slice_s: float = 0.0
    timeline: list = field(default_factory=list)
    undisturbed: dict = field(default_factory=dict)

    def type_named(self, name):
        """None when the run had no such requests."""
        return self.types.get(name)

    def latency(self, name, which):
        """A percentile (p50, p99, p999...) of a type in microseconds, None when unknown."""
        found = self.types.get(name)
        return found.latency_us.get(which) if found and found.count else None

    def undisturbed_latency(self, name, which):
        """A percentile of what no stall touched, None when too few requests are left to tell."""
        found = self.undisturbed.get(name)
        enough = found and found.count >= MIN_UNDISTURBED
        return found.latency_us.get(which) if enough else None

    def undisturbed_share(self, name):
        """None when the generator did not tell."""
        found = self.undisturbed.get(name)
        return found.share if found else None

    def typical(self, name, which):
        """The median over the timeline's slices of a percentile, None without a timeline. A stall
        of the machine spoils the slices it falls into, and not the others."""
        values = [types[name][which] for _, types in self.timeline
                  if types.get(name, {}).get("count") and which in types[name]]
        return statistics.median(values) if values else None


def _type_from(entry):
    return TypeReport(
        name=entry["name"], count=entry["count"], latency_us=dict(entry["latency_us"]),
        refused=entry.get("refused", 0), errors=entry.get("errors", 0),
        lost=entry.get("lost", 0), ccdf=[(at, beyond) for at, beyond in entry.get("ccdf", [])])


def _undisturbed_from(entry):
    return {t["name"]: Undisturbed(t["count"], t["share"], dict(t["latency_us"]))
            for t in (entry or {}).get("types", [])}


def from_object(data):
    """Raises ReportError when a key of the contract is missing."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ReportError(f"not a {SCHEMA} object")
    timeline = data.get("timeline") or {}
    try:
        return RunReport(
            offered_rps=data["offered_rps"], achieved_rps=data["achieved_rps"],
            requests=data["requests"], refused=data["refused"], lost=data["lost"],
            valid=data["valid"], types={t["name"]: _type_from(t) for t in data["types"]},
            invalid_reason=data.get("invalid_reason", ""), seed=data.get("seed", 0),
            wall_s=data.get("wall_s", 0.0), noise=data.get("noise") or {},
            send_lag_us=data.get("send_lag_us") or {}, machine=data.get("machine") or {},
            version=data.get("version", ""), slice_s=timeline.get("slice_s", 0.0),
            timeline=[(s["start_s"], s["latency_us"]) for s in timeline.get("slices", [])],
            undisturbed=_undisturbed_from(data.get("undisturbed")))
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"key missing or of the wrong shape: {error}") from error


def read(path):
    """Raises ReportError."""
    try:
        return from_object(json.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ReportError(f"{path}: not JSON ({error})") from error
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from error
