# SPDX-License-Identifier: Apache-2.0
"""The rules of Prometheus' text formats and names, as `promtool check metrics` has them."""

import re

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count"),
            "counter": ("_total",), "gauge": ("",)}
# Units that are not the base ones.
BAD_UNITS = re.compile(r"_(us|ms|ns|micros|millis|nanos|kib|mib|kb|mb|percent|minutes|hours)(_|$)")


class Family:
    def __init__(self, name, kind):
        self.name, self.kind, self.samples = name, kind, {}


def labels_of(text):
    labels, at = {}, 0
    while at < len(text or ""):
        found = LABEL.match(text, at)
        if not found or found.group(1) in labels:
            raise ValueError(f"labels: {text}")
        labels[found.group(1)] = found.group(2)
        at = found.end()
    return labels


class Parser:
    def __init__(self, open_metrics):
        self.open_metrics, self.families, self.family, self.helped = open_metrics, {}, None, None

    def comment(self, line):
        word, name, text = re.match(r"# (HELP|TYPE) (\S+) (.+)$", line).groups()
        if word == "HELP":
            self.helped = name
            return
        if name != self.helped:
            raise ValueError(f"no help before {line}")
        if text not in SUFFIXES or name in self.families:
            raise ValueError(f"type: {line}")
        older = text == "counter" and not self.open_metrics
        if older and not name.endswith("_total"):
            raise ValueError(f"a counter without _total: {name}")
        if text != "counter" and name.endswith(("_total", "_count", "_sum", "_bucket")):
            raise ValueError(f"not a name of a {text}: {name}")
        if BAD_UNITS.search(name):
            raise ValueError(f"not in base units: {name}")
        self.family = self.families[name] = Family(name[:-len("_total")] if older else name, text)

    def sample(self, line):
        found = SAMPLE.match(line)
        if not found or self.family is None:
            raise ValueError(f"not a sample: {line}")
        name, text, value = found.groups()
        suffix = name.removeprefix(self.family.name)
        if not name.startswith(self.family.name) or suffix not in SUFFIXES[self.family.kind]:
            raise ValueError(f"{name} is not of the {self.family.kind} {self.family.name}")
        key = (suffix, tuple(sorted(labels_of(text).items())))
        if key in self.family.samples:
            raise ValueError(f"twice: {line}")
        self.family.samples[key] = float(value)


def check_histogram(family):
    series = {}
    for (suffix, labels), value in family.samples.items():
        rest = tuple(label for label in labels if label[0] != "le")
        one = series.setdefault(rest, {"buckets": {}})
        if suffix == "_bucket":
            one["buckets"][float(dict(labels)["le"])] = value
        else:
            one[suffix] = value
    for labels, one in series.items():
        counts = [count for _, count in sorted(one["buckets"].items())]
        if counts != sorted(counts) or one["buckets"][float("inf")] != one["_count"]:
            raise ValueError(f"buckets of {family.name} {labels}: {one}")


def parse(text, open_metrics):
    """{family: Family}. Raises ValueError for what breaks a rule."""
    lines = text.split("\n")
    if lines.pop() != "" or (lines and lines[-1] == "# EOF") != open_metrics:
        raise ValueError("the end")
    parser = Parser(open_metrics)
    for line in lines[:-1] if open_metrics else lines:
        parser.comment(line) if line.startswith("#") else parser.sample(line)
    for family in parser.families.values():
        if family.kind == "histogram":
            check_histogram(family)
    return parser.families


def names(families):
    """The names of all samples."""
    return {family.name + suffix for family in families.values() for suffix, _ in family.samples}
