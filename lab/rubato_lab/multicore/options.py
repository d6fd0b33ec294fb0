# SPDX-License-Identifier: Apache-2.0
"""The command line of `make multicore`."""

import argparse
from pathlib import Path

from rubato_lab.multicore import cells
from rubato_lab.options import ROOT

QUICK_POLICIES = ("fcfs", "ps", "synergy")
QUICK_COUNTS = 3


class Parser(argparse.ArgumentParser):
    """Tells a bad option in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def _number(low, high, kind=float):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"takes {low} to {high}, not '{text}'")
        return value
    return parse


def _counts(text):
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError:
        counts = [0]
    if counts[0] < 1:
        raise argparse.ArgumentTypeError(f"takes numbers from 1 on with commas, not '{text}'")
    return counts


def _datapaths(text):
    names = text.split(",")
    if unknown := [name for name in names if name not in cells.DATAPATHS]:
        raise argparse.ArgumentTypeError(
            f"takes {' or '.join(cells.DATAPATHS)}, not '{unknown[0]}'")
    return [name for name in cells.DATAPATHS if name in names]


def parser():
    p = Parser(prog="multicore", description="Throughput and tail of each policy against the "
               "number of workers, through the loopback datapath and over TCP: one JSON, one SVG.")
    p.add_argument("--quick", action="store_true",
                   help="few policies and numbers of workers, short runs: a minute or two")
    p.add_argument("--force", action="store_true",
                   help="also on fewer than 4 CPUs, with what fits")
    p.add_argument("--policies", metavar="LIST",
                   help="names with commas, or all (the default; quick: "
                   f"{','.join(QUICK_POLICIES)})")
    p.add_argument("--workers", type=_counts, metavar="LIST",
                   help="numbers with commas (default 1, 2, 4 and so on, up to what fits)")
    p.add_argument("--datapaths", type=_datapaths, default=list(cells.DATAPATHS), metavar="LIST",
                   help="loopback, tcp (default both)")
    p.add_argument("--workload", default="high-bimodal", metavar="SPEC",
                   help="as of `rubato load --workload` (default high-bimodal); the figure has the "
                   "p99 of its first type")
    p.add_argument("--share", type=_number(0.01, 1.0), default=0.7,
                   help="of a policy's own throughput, offered for its tail (default 0.7)")
    p.add_argument("--seconds", type=_number(0.1, 3600.0), metavar="S",
                   help="of each run (default 2; quick: 0.8)")
    p.add_argument("--rounds", type=_number(1, 1000, int), metavar="N",
                   help="runs of each kind per cell (default 3; quick: 2)")
    p.add_argument("--seed", type=_number(0, 2**62, int), default=1, metavar="N",
                   help="of the first round (default 1)")
    p.add_argument("--workers-per-generator", type=_number(1, 256, int), default=4, metavar="N",
                   help="TCP: a generator, with a CPU of its own, for so many workers (default 4)")
    p.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/rubato",
                   metavar="FILE", help="the program (default build/release/bin/rubato)")
    p.add_argument("--out", type=Path, default=ROOT / "build/multicore", metavar="DIR",
                   help="where multicore.json and multicore.svg go (default build/multicore)")
    p.add_argument("--from", dest="source", type=Path, metavar="FILE",
                   help="measure nothing: draw again what a multicore.json holds")
    return p


def parse(arguments=None):
    """Fills in what depends on --quick. Exits with 2 and one line on bad arguments."""
    options = parser().parse_args(arguments)
    options.seconds = options.seconds or (0.8 if options.quick else 2.0)
    options.rounds = options.rounds or (2 if options.quick else 3)
    return options
