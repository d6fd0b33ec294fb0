# SPDX-License-Identifier: Apache-2.0
"""Figures of results, in matplotlib or as Vega-Lite: `backend="vega"` gives a specification with
its data, which notebooks draw and altair.Chart.from_dict takes. Any thread for "vega"."""

from rubato_lab import stats, style, units
from rubato_lab.extras import need
from rubato_lab.program import RubatoError
from rubato_lab.results import LATENCY, SLOWDOWN, Run

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
MIME = "application/vnd.vegalite.v5+json"
MATPLOTLIB, VEGA = "matplotlib", "vega"
NAMES = {LATENCY: "latency (µs)", SLOWDOWN: "slowdown"}
# How matplotlib's axes say a value, where its own way is not a reader's: "2 × 10²".
WORDS = {LATENCY: units.latency, SLOWDOWN: units.significant}


class VegaLite(dict):
    """A specification, which Jupyter draws."""

    def _repr_mimebundle_(self, **_):
        return {MIME: dict(self), "text/plain": f"Vega-Lite: {self['title']}"}


def plot_ccdf(results, type_name=None, of=LATENCY, backend=MATPLOTLIB, ax=None):
    """The share of requests beyond each latency (or slowdown, `of`), a line for each run; of one
    type, or of all. Gives matplotlib's Axes, or a VegaLite. Raises RubatoError."""
    rows = []
    for one in _runs(results):
        points = stats.thinned(one.ccdf(type_name, of))
        rows += [{"line": _line(one, results), "x": x, "y": y} for x, y in points]
    return _drawn(rows, f"{NAMES[of]}, {type_name or 'all'} requests", NAMES[of],
                  "share of requests beyond", backend, ax,
                  log={"x": WORDS[of], "y": units.percent})


def plot_load(results, percentile="p99", type_name=None, of=LATENCY, backend=MATPLOTLIB, ax=None):
    """A percentile ("p50" to "p999", "mean", "max") against the load, a line for each policy.
    Gives matplotlib's Axes, or a VegaLite. Raises RubatoError."""
    rows = []
    for one in sorted(_runs(results), key=lambda run: run.load):
        part = one if type_name is None else one[type_name]
        value = getattr(getattr(part, of), percentile, None)
        if value is None:
            raise RubatoError(f"percentile takes mean, p50, p90, p99 or p999, not '{percentile}'")
        rows.append({"line": one.policy, "x": one.load, "y": value})
    return _drawn(rows, f"{percentile} {NAMES[of]}, {type_name or 'all'} requests", "load",
                  f"{percentile} {NAMES[of]}", backend, ax, log={"y": WORDS[of]})


def plot_max(results, backend=MATPLOTLIB, ax=None):
    """The highest load of each policy, with its interval, the best one first. Gives matplotlib's
    Axes, or a VegaLite. Raises RubatoError."""
    rows = [{"policy": one.policy, "load": one.load, "low": one.load - (one.load_half_width or 0),
             "high": one.load + (one.load_half_width or 0)}
            for one in sorted(results, key=lambda one: one.load, reverse=True)]
    title = "highest load that meets the SLO"
    if _backend(backend) == VEGA:
        y = {"field": "policy", "type": "nominal", "sort": None, "title": None}
        return _vega(title, rows, layer=[
            {"mark": {"type": "bar", "tooltip": True},
             "encoding": {"y": y, "x": {"field": "load", "type": "quantitative"}}},
            {"mark": "rule", "encoding": {"y": y, "x": {"field": "low", "type": "quantitative"},
                                          "x2": {"field": "high"}}}])
    ax = ax or need("matplotlib.pyplot").subplots()[1]
    ax.barh([row["policy"] for row in rows], [row["load"] for row in rows],
            xerr=[row["high"] - row["load"] for row in rows])
    ax.invert_yaxis()
    ax.set(title=title, xlabel="load")
    return ax


def _runs(results):
    return [results] if isinstance(results, Run) else list(results)


def _line(one, results):
    runs = _runs(results)
    several = len({run.policy for run in runs}) < len(runs)
    return f"{one.policy}, load {one.load:.3g}" if several else one.policy


def _backend(name):
    if name not in (MATPLOTLIB, VEGA):
        raise RubatoError(f"backend takes {MATPLOTLIB} or {VEGA}, not '{name}'")
    return name


def _drawn(rows, title, x_title, y_title, backend, ax, log):
    if _backend(backend) == VEGA:
        def axis(name, axis_title):
            kind = {"scale": {"type": "log"}} if name in log else {}
            return {"field": name, "type": "quantitative", "title": axis_title, **kind}
        return _vega(title, rows, mark={"type": "line", "point": "x" not in log, "tooltip": True},
                     encoding={"x": axis("x", x_title), "y": axis("y", y_title),
                               "color": {"field": "line", "type": "nominal", "title": None,
                                         "sort": None}})
    ax = ax or need("matplotlib.pyplot").subplots(layout="constrained")[1]
    for i, line in enumerate(dict.fromkeys(row["line"] for row in rows)):
        points = [(row["x"], row["y"]) for row in rows if row["line"] == line]
        ax.plot(*zip(*points), label=line, marker=None if "x" in log else "o", markersize=4,
                **style.look(i))
    named = [text.replace(" (µs)", "") for text in (title, x_title, y_title)]
    ax.set(**dict(zip(("title", "xlabel", "ylabel"), named)))
    for name, words in log.items():
        style.logarithmic(ax, name, words)
    ax.grid(color=style.GRID)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def _vega(title, rows, **more):
    return VegaLite({"$schema": SCHEMA, "title": title, "width": 480, "height": 300,
                     "data": {"values": rows}, **more})
