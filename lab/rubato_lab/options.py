# SPDX-License-Identifier: Apache-2.0
"""The demo's command line and the plan that follows from it."""

import argparse
from pathlib import Path


def _root():
    """The checkout that this file lies in; of an installed copy, the folder it is called from."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "lab" / "pyproject.toml").is_file() else Path.cwd()


ROOT = _root()
POLICIES = "fcfs,ps,synergy"
# With its defaults the demo ends within this; it drops repeats rather than overrun.
TIME_LIMIT_S = 165.0


def _positive(text):
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("takes a number above 0")
    return value


def _share(text):
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError("takes a share between 0 and 1")
    return value


def parser():
    p = argparse.ArgumentParser(
        description="The same load against each policy in turn: what a scan does to GETs, as one "
        "table and one HTML report.")
    p.add_argument("--quick", action="store_true",
                   help="one short repeat of fcfs and synergy: a look, not a measurement")
    p.add_argument("--seconds", type=_positive, help="length of one run (default 7; quick: 2)")
    p.add_argument("--repeats", type=int, help="runs per policy (default 3; quick: 1)")
    p.add_argument("--rate", type=_positive, metavar="RPS",
                   help="requests per second, instead of calibrating")
    p.add_argument("--utilisation", type=_share, default=0.5, metavar="SHARE",
                   help="share of the measured capacity to offer (default 0.5)")
    p.add_argument("--scan-us", type=_positive, default=1000.0, metavar="US",
                   help="length of one scan to calibrate for (default 1000)")
    p.add_argument("--scan-share", type=_share, default=0.01, metavar="SHARE",
                   help="share of scans among the requests (default 0.01)")
    p.add_argument("--keys", type=int, default=100_000, help="keys in the store (default 100000)")
    p.add_argument("--value-size", type=int, default=32, metavar="BYTES",
                   help="bytes per value (default 32)")
    p.add_argument("--flows", type=int, default=64, metavar="N",
                   help="connections of the open loop (default 64)")
    p.add_argument("--closed-clients", type=int, default=8, metavar="N",
                   help="clients of the closed loop (default 8)")
    p.add_argument("--seed", type=int, default=1, help="seed of the first repeat (default 1)")
    p.add_argument("--policies", default=POLICIES, metavar="LIST",
                   help=f"policies to compare (default {POLICIES})")
    p.add_argument("--no-redis", action="store_true", help="leave redis-server out")
    p.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/rubato",
                   metavar="FILE", help="the program (default build/release/bin/rubato)")
    p.add_argument("--out", type=Path, default=ROOT / "build/demo", metavar="DIR",
                   help="where the report goes (default build/demo)")
    p.add_argument("--json", action="store_true",
                   help="print the result as JSON; the table goes to stderr")
    p.add_argument("--figure", type=Path, metavar="FILE", help="also write the GET figure as SVG")
    p.add_argument("--from", dest="source", type=Path, metavar="DIR",
                   help="measure nothing: draw again what an earlier run left in DIR")
    return p


def parse(arguments=None):
    """Fills in what depends on --quick. Exits with 2 on bad arguments."""
    p = parser()
    options = p.parse_args(arguments)
    for name in ("repeats", "keys", "value_size", "flows", "closed_clients"):
        value = getattr(options, name)
        if value is not None and value < 1:
            p.error(f"argument --{name.replace('_', '-')}: takes a whole number above 0")
    asked_for = options.policies
    if options.quick and asked_for == POLICIES:
        options.policies = "fcfs,synergy"
        options.no_redis = True
    options.policies = [name for name in options.policies.split(",") if name]
    if not options.policies:
        p.error("argument --policies: takes names joined by commas, such as fcfs,synergy")
    # Whoever asks for more than the defaults may also wait longer.
    options.limit_s = TIME_LIMIT_S if options.seconds is None and options.repeats is None else None
    options.seconds = options.seconds or (2.0 if options.quick else 7.0)
    options.repeats = options.repeats or (1 if options.quick else 3)
    options.closed_seconds = 1.0 if options.quick else 2.0
    options.keys_seconds = 2.0 if options.quick else 4.0
    return options
