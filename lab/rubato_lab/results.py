# SPDX-License-Identifier: Apache-2.0
"""What the simulator answers, typed. Latencies are in microseconds, rates per second, loads and
utilisations shares of the workers' time. `report` is the whole JSON. Values; any thread."""

import hashlib
import json
from dataclasses import dataclass, field, fields

from rubato_lab import histogram
from rubato_lab.extras import need

LATENCY, SLOWDOWN = "latency_us", "slowdown"
HISTOGRAMS = {LATENCY: "latency_histogram_ns", SLOWDOWN: "slowdown_histogram_thousandths"}


@dataclass(frozen=True)
class Percentiles:
    """Of the latencies in microseconds, or of the slowdowns. A slowdown has no `max`."""

    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float | None = None

    @classmethod
    def of(cls, found):
        return cls(*(found.get(name) for name in ("mean", "p50", "p90", "p99", "p999", "max")))


@dataclass(frozen=True)
class TypeResult:
    """One request type of a run."""

    name: str
    service_us: float
    share: float
    count: int
    refused: int
    lost: int
    latency_us: Percentiles
    slowdown: Percentiles
    report: dict = field(repr=False)

    @classmethod
    def of(cls, found):
        return cls(found["name"], found["service_us"], found["share"], found["count"],
                   found["refused"], found["lost"], Percentiles.of(found[LATENCY]),
                   Percentiles.of(found[SLOWDOWN]), found)


@dataclass(frozen=True)
class Run:
    """One simulated run, or the mean over its seeds."""

    policy: str
    workers: int
    workload: str
    seed: int
    load: float
    offered_rps: float
    achieved_rps: float
    requests: int
    refused: int
    lost: int
    valid: bool
    verdict: str | None
    utilization: float
    latency_us: Percentiles
    slowdown: Percentiles
    types: tuple[TypeResult, ...]
    counters: dict = field(repr=False)
    version: str = ""
    report: dict = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, found):
        return cls(*(found[name] for name in (
            "policy", "workers", "workload", "seed", "load", "offered_rps", "achieved_rps",
            "requests", "refused", "lost", "valid")), found.get("verdict"), found["utilization"],
            Percentiles.of(found[LATENCY]), Percentiles.of(found[SLOWDOWN]),
            tuple(TypeResult.of(one) for one in found["types"]), found["counters"],
            found["version"], found)

    def __getitem__(self, type_name):
        """The type of that name. Raises KeyError."""
        for one in self.types:
            if one.name == type_name:
                return one
        raise KeyError(f"no type '{type_name}', but {', '.join(t.name for t in self.types)}")

    @property
    def digest(self):
        """SHA-256 of the report but for what the machine and the version decide: equal wherever
        the same question is simulated."""
        told = {k: v for k, v in self.report.items() if k not in ("wall_s", "machine", "version")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def half_width(self, *keys):
        """Half of the 95 % interval of the figure at that path of the report, such as
        ("latency_us", "p99"); None if it is not known."""
        found = self.report.get("confidence", {})
        for key in keys:
            found = found.get(key, {})
        return found or None

    def ccdf(self, type_name=None, of=LATENCY):
        """[(value, share of requests beyond it)] of one type, or of all."""
        chosen = self.types if type_name is None else (self[type_name],)
        counts = histogram.merged(one.report[HISTOGRAMS[of]] for one in chosen if one.count)
        return histogram.ccdf(counts)

    def rows(self):
        """A dict for each type, and one for all together."""
        head = {name: getattr(self, name) for name in (
            "policy", "workers", "workload", "load", "seed", "valid", "verdict")}
        parts = [(one.name, one) for one in self.types] + [("all", self)]
        return [{**head, "type": name,
                 "count": part.requests if part is self else part.count,
                 "refused": part.refused, "lost": part.lost,
                 **{f"{of}_{key}": value for of in (LATENCY, SLOWDOWN)
                    for key, value in vars(getattr(part, of)).items()
                    if value is not None}} for name, part in parts]

    def to_pandas(self):
        """A DataFrame with a row for each type and one for all. Raises RubatoError."""
        return need("pandas").DataFrame(self.rows())


class _Several:
    """A sequence of what was found of several policies, in the first field of a dataclass."""

    def _all(self):
        return getattr(self, fields(self)[0].name)

    def __iter__(self):
        return iter(self._all())

    def __len__(self):
        return len(self._all())

    def __getitem__(self, which):
        """The one of that number; of a policy's name, its only one. Raises KeyError, IndexError."""
        if not isinstance(which, str):
            return self._all()[which]
        found = [one for one in self if one.policy == which]
        if len(found) != 1:
            raise KeyError(f"{len(found)} {fields(self)[0].name} of '{which}'")
        return found[0]


@dataclass(frozen=True)
class Runs(_Several):
    """Several runs: of several policies, loads, or both; a sequence of `Run`."""

    runs: tuple[Run, ...]
    report: dict = field(repr=False)

    def to_pandas(self):
        """A DataFrame with a row for each run and type. Raises RubatoError."""
        return need("pandas").DataFrame([row for one in self.runs for row in one.rows()])


@dataclass(frozen=True)
class MaxLoad:
    """The highest load of one policy that meets the SLO, and half of its 95 % interval."""

    policy: str
    load: float
    load_half_width: float | None
    rate_rps: float
    per_seed: tuple[float, ...]
    runs: int

    @classmethod
    def of(cls, found):
        return cls(found["policy"], found["load"]["mean"], found["load"].get("half_width"),
                   found["rate_rps"]["mean"], tuple(found["per_seed"]), found["runs"])


@dataclass(frozen=True)
class MaxLoads(_Several):
    """The answer of find_max, a sequence of `MaxLoad`."""

    results: tuple[MaxLoad, ...]
    report: dict = field(repr=False)

    def to_pandas(self):
        """A DataFrame with a row for each policy. Raises RubatoError."""
        return need("pandas").DataFrame([vars(one) for one in self.results])


@dataclass(frozen=True)
class Tuned:
    """The cheapest configuration that meets the SLO. `text` is the file that `serve --config`
    takes, whose comments tell what was assumed and predicted; `notes` are these, by their first
    word."""

    policy: str
    workers: int
    classify: str
    settings: dict
    notes: dict
    text: str = field(repr=False)

    def to_pandas(self):
        """A DataFrame of one row. Raises RubatoError."""
        return need("pandas").DataFrame([{
            "policy": self.policy, "workers": self.workers, "classify": self.classify,
            **{f"set.{k}": v for k, v in self.settings.items()}, **self.notes}])


@dataclass(frozen=True)
class ProfileType:
    """One request type of recorded traffic; `service_ns` are [low, high, count]."""

    name: str
    count: int
    service_us: float
    service_ns: tuple = field(repr=False)


@dataclass(frozen=True)
class Profile:
    """What a server recorded. Its `workload` is that of simulate, compare, find_max and tune."""

    path: str
    rate_rps: float
    types: tuple[ProfileType, ...]
    report: dict = field(repr=False)

    @property
    def workload(self):
        return f"profile:{self.path}"

    def to_pandas(self):
        """A DataFrame with a row for each type. Raises RubatoError."""
        total = sum(one.count for one in self.types)
        return need("pandas").DataFrame([
            {"type": one.name, "count": one.count, "share": one.count / total,
             "service_us": one.service_us} for one in self.types])
