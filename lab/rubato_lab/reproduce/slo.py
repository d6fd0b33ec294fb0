# SPDX-License-Identifier: Apache-2.0
"""Service-level objectives, and the highest load that meets one."""

from dataclasses import dataclass

LOWEST_LOAD = 0.02
HIGHEST_LOAD = 1.0


@dataclass(frozen=True)
class Slo:
    """The slowdown of all requests, or of each type, at most `slowdown`, their latency at most
    `latency_us`, that of the shortest type at most `short_us`, each at a percentile, and no more
    than a share of `loss` without a reply (the thesis discards runs above 0.1 %, section 6.1)."""

    slowdown: float = float("inf")
    per_type: bool = False
    loss: float = 0.001
    latency_us: float = float("inf")
    percentile: str = "p999"
    short_us: float = float("inf")

    def is_met(self, run):
        measured = run.worst_slowdown() if self.per_type else run.slowdown(self.percentile)
        return (measured <= self.slowdown and run.loss <= self.loss
                and run.latency_us(self.percentile) <= self.latency_us
                and run.shortest()["latency_us"][self.percentile] <= self.short_us)

    def text(self):
        whose = "each type's p99.9 slowdown" if self.per_type else "p99.9 slowdown"
        return f"{whose} <= {self.slowdown:g}"


def highest(simulator, scenario, slo, low=LOWEST_LOAD, high=HIGHEST_LOAD):
    """The run at the highest load that meets the objective, by bisection; None if even the lowest
    load does not. Takes for granted that more load is never better."""
    best = simulator.run(scenario, load=low)
    if not slo.is_met(best):
        return None
    top = simulator.run(scenario, load=high)
    if slo.is_met(top):
        return top
    while high - low > simulator.effort.tolerance:
        middle = (low + high) / 2
        run = simulator.run(scenario, load=middle)
        if slo.is_met(run):
            low, best = middle, run
        else:
            high = middle
    return best
