# SPDX-License-Identifier: Apache-2.0
"""Reads the specification of a sweep (TOML) and turns it into points and runs. Pure but for files
that are read."""

import hashlib
import itertools
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rubato_lab import program
from rubato_lab.program import RubatoError

TABLES = {"run", "axes", "seeds"}
SEED_KEYS = {"first", "least", "most", "until"}
# Options of `rubato sim` that a sweep sets itself, or whose answer is not one run.
RESERVED = {"seed", "seeds", "json", "hdr", "trace", "no-wall", "compare", "loads", "find-max",
            "threads", "explain", "slo"}
FILE_OPTIONS = {"costs", "recording"}
FILE_PREFIXES = {"workload": ("profile:", "trace:"), "arrivals": ("trace:",)}
MAX_POINTS = 1_000_000


@dataclass(frozen=True)
class Point:
    """One combination: `options` of `rubato sim` in order, `files` {path: content's SHA-256}."""

    options: tuple
    files: tuple
    version: str

    @property
    def key(self):
        """Of version, options and the content of every file that they name."""
        contents = dict(self.files)
        told = [[name, [_neutral(name, value, contents) for value in values]]
                for name, values in self.options]
        text = json.dumps([self.version, told])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def run_key(self, seed):
        return hashlib.sha256(f"{self.key} {seed}".encode()).hexdigest()[:32]

    def words(self, seed):
        """The arguments of its run, in which a file is named by its content."""
        contents = dict(self.files)
        words = ["sim"]
        for name, values in self.options:
            for value in values:
                words += [f"--{name}", _neutral(name, value, contents)]
        return (*words, "--seed", str(seed), "--threads", "1", "--no-wall", "--json", "-")


@dataclass(frozen=True)
class Seeds:
    """Seeds from `first` on: `least` of them, then more up to `most` until half of the 95 %
    interval of `metric` is at most `share` of its mean. Without a metric `least` is all."""

    first: int = 1
    least: int = 3
    most: int = 3
    metric: str | None = None
    share: float = 0.0

    def column(self, otherwise):
        """The column of a store that holds the metric; `otherwise` without one."""
        return "_".join(column_of(self.metric)) if self.metric else otherwise


@dataclass(frozen=True)
class Spec:
    points: tuple[Point, ...]
    seeds: Seeds
    axes: tuple[str, ...]
    files: tuple  # (path, SHA-256) of all points


def file_of(name, value):
    """The path that the value of an option names; None if none."""
    for prefix in FILE_PREFIXES.get(name, ()):
        if value.startswith(prefix):
            return value.removeprefix(prefix)
    is_file = name in FILE_OPTIONS and ("/" in value or value.endswith((".toml", ".csv"))
                                        or name == "recording")
    return value if is_file else None


def stored_name(path, digest):
    """What a file is called where a run finds it: the same everywhere."""
    return f"{digest[:16]}{Path(path).suffix}"


def _neutral(name, value, contents):
    path = file_of(name, value)
    return value if path is None else value.replace(path, stored_name(path, contents[path]))


def load(path, version=None):
    """The Spec of a file; paths in it are relative to it. Raises RubatoError that names the key."""
    path = Path(path)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RubatoError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RubatoError(f"{path}: {error}") from error
    try:
        return _spec(found, path.parent, version or program.version())
    except ValueError as error:
        raise RubatoError(f"{path}: {error}") from error


def _spec(found, folder, version):
    _only(found, TABLES, "the file")
    for name in TABLES & found.keys():
        if not isinstance(found[name], dict):
            raise ValueError(f"'{name}' takes a table, [{name}]")
    fixed = {k: _texts(k, v) for k, v in _flat(found.get("run", {})).items()}
    axes = {}
    for name, values in _flat(found.get("axes", {})).items():
        if name in fixed:
            raise ValueError(f"'{name}' is in [run] and in [axes]")
        if not isinstance(values, list) or not values:
            raise ValueError(f"axes.{name} takes a list of values, not {values!r}")
        axes[name] = [text for value in values for text in _texts(name, value)]
        if len(set(axes[name])) < len(axes[name]):
            raise ValueError(f"axes.{name} has a value twice")
    return _combined(fixed, axes, _seeds(found.get("seeds", {})), folder, version)


def _combined(fixed, axes, seeds, folder, version):
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MAX_POINTS:
        raise ValueError(f"{count} points are more than {MAX_POINTS}")
    digests, points = {}, []
    for chosen in itertools.product(*axes.values()):
        options = {**fixed, **{name: [value] for name, value in zip(axes, chosen)}}
        options, files = _resolved(_with_settings(options), folder, digests)
        points.append(Point(options, files, version))
    return Spec(tuple(points), seeds, tuple(axes), tuple(sorted(digests.items())))


def _only(table, known, where):
    for name in table:
        if name not in known:
            raise ValueError(f"'{name}' is no key of {where}, which takes "
                             f"{', '.join(sorted(known))}")


def _flat(table, before=""):
    """{set: {quantum: x}} as {set.quantum: x}, with `-` for `_` in options."""
    flat = {}
    for name, value in table.items():
        name = before + (name if before else name.replace("_", "-"))
        if name.partition(".")[0] in RESERVED:
            raise ValueError(f"'{name}' is not an option of a sweep's runs")
        if isinstance(value, dict):
            flat.update(_flat(value, name + "."))
        else:
            flat[name] = value
    return flat


def _texts(name, value):
    if isinstance(value, list):
        return [text for one in value for text in _texts(name, one)]
    if isinstance(value, (bool, int, float, str)):
        return [program.text_of(value)]
    raise ValueError(f"'{name}' takes text or numbers, not {value!r}")


def _with_settings(options):
    """set.quantum = [x] becomes set = [quantum=x]."""
    made = {}
    for name, values in options.items():
        option, _, setting = name.partition(".")
        made.setdefault(option, []).extend(f"{setting}={v}" if setting else v for v in values)
    return made


def _resolved(options, folder, digests):
    files, made = {}, []
    for name, values in sorted(options.items()):
        resolved = []
        for value in values:
            named = file_of(name, value)
            if named is not None:
                path = str((folder / named).resolve())
                if path not in digests:
                    try:
                        digests[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                    except OSError as error:
                        raise ValueError(f"{name}: {path}: {error.strerror}") from error
                files[path] = digests[path]
                value = value.replace(named, path)
            resolved.append(value)
        made.append((name, tuple(resolved)))
    return tuple(made), tuple(sorted(files.items()))


def _seeds(table):
    _only(table, SEED_KEYS, "[seeds]")
    first, least = table.get("first", 1), table.get("least", 3)
    until = table.get("until")
    most = table.get("most", max(30, least) if until and isinstance(least, int) else least)
    for name, value, low in (("first", first, 0), ("least", least, 2 if until else 1),
                             ("most", most, least if isinstance(least, int) else 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ValueError(f"seeds.{name} takes a whole number from {low} on, not {value!r}")
    if until is None:
        if most != least:
            raise ValueError("seeds.most needs seeds.until, such as \"p99_latency=5%\"")
        return Seeds(first, least, least)
    metric, found, share = str(until).partition("=")
    try:
        if not found or not share.endswith("%"):
            raise ValueError
        share = float(share[:-1]) / 100
        column_of(metric)
        if not share > 0:
            raise ValueError
    except ValueError:
        raise ValueError("seeds.until takes METRIC=SHARE such as \"p99_latency=5%\", not "
                         f"{until!r}") from None
    return Seeds(first, least, most, metric, share)


def column_of(metric):
    """("latency_us", "p99") of p99_latency. Raises ValueError."""
    percentile, _, kind = metric.partition("_")
    kinds = {"latency": "latency_us", "slowdown": "slowdown"}
    if percentile not in ("mean", "p50", "p90", "p99", "p999") or kind not in kinds:
        raise ValueError(f"'{metric}' is no metric")
    return kinds[kind], percentile
