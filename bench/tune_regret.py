#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many workers `rubato tune` asks for beyond what brute force finds to be enough.

Each case has random types, rate, limits and price of a preemption, drawn from its number. Brute
force simulates every policy below with a dense grid of its options, other seeds than tune's, and
takes a configuration that meets the SLO with the upper ends of the intervals, as tune does; one
that misses it with the lower end of the first seed's interval gets no other seeds. It looks at
one worker less than tune found, and at fewer as long as some configuration will do, so that the
regret is exact up to what the grid misses; where tune found nothing, at all numbers.

--tighter F brings the limits nearer to 1 by that factor: then most cases need more workers than the
work alone takes.

    bench/tune_regret.py [--rubato build/release/bin/rubato] [--cases 40] [--first 1] [--jobs N]
                         [--tighter 1]
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile

POLICIES = ("cfcfs", "ps", "darc", "shinjuku", "tinyquanta", "synergy", "jbsq")
MOST_WORKERS = 24
MOST_LOAD = 0.9
REQUESTS = "100000"
SEEDS = "3"
TUNE_SEED, BRUTE_SEED = "1", "5001"
QUANTA = 20
TIMEOUT_S = 3600


def plain(us):
    """Four digits without an exponent."""
    return f"{float(f'{us:.4g}'):g}"


def draw_case(number, tighter):
    """A workload of two or three types with a spread of 10 to 1000, and an SLO that can be met."""
    draws = random.Random(number)

    def limit(slowdowns):
        return f"{1 + (draws.choice(slowdowns) - 1) / tighter:.4g}"

    short_us = 10 ** draws.uniform(0, 2)
    spread = 10 ** draws.uniform(1, 3)
    types = [("short", short_us, draws.choice([90, 99, 99.5])),
             ("long", short_us * spread, 0)]
    types[1] = ("long", types[1][1], 100 - types[0][2])
    if draws.random() < 0.4:
        types.insert(1, ("middle", short_us * math.sqrt(spread), draws.uniform(1, 10)))
    total = sum(share for _, _, share in types)
    mean_us = sum(us * share for _, us, share in types) / total
    busy = draws.uniform(1.5, 8)
    return {
        "workload": ",".join(f"{name}:{plain(us)}us:{share:.4g}" for name, us, share in types),
        "rate": f"{busy / mean_us * 1e6:.6g}",
        "slo": f"short:p99_slowdown={limit([5, 10, 20])},long:p99_slowdown={limit([3, 5, 10])}",
        "times_us": (short_us, short_us * spread),
        "preempt_us": round(draws.choice([0, 0.01, 0.1]) * short_us, 3),
        "least": max(1, math.ceil(busy / MOST_LOAD - 1e-9)),
    }


def cost_file(path, case):
    with open(path, "w", encoding="ascii") as file:
        file.write('[machine]\nname = "bench"\n[preemption]\nclock = "self"\n')
        price = case["preempt_us"]
        file.write(f'receive = "{price}us"\ndone = "{price}us"\n' if price else "")


def common(case, costs, seeds=SEEDS):
    return ["--workload", case["workload"], "--rate", case["rate"], "--slo", case["slo"],
            "--costs", costs, "--requests", REQUESTS, "--seeds", seeds, "--warmup", "0.5"]


def run(words):
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def tuned_workers(binary, case, costs, jobs):
    done = run([binary, "tune", *common(case, costs), "--seed", TUNE_SEED, "--max-workers",
                str(MOST_WORKERS), "--max-load", str(MOST_LOAD), "--policies", ",".join(POLICIES),
                "--threads", str(jobs)])
    if done.returncode == 1:
        return None
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return int(re.search(r"(?m)^workers = (\d+)$", done.stdout).group(1))


def quanta_us(case):
    low, high = case["times_us"][0] / 8, case["times_us"][1] * 8
    return [low * (high / low) ** (i / (QUANTA - 1)) for i in range(QUANTA)]


def settings_of(policy, case):
    """All that brute force tries of a policy."""
    if policy in ("ps", "shinjuku", "tinyquanta"):
        for us in quanta_us(case):
            yield [f"quantum={us:.4g}us"]
        return
    yield []
    if policy == "synergy":
        for us in quanta_us(case):
            yield [f"fixed_quantum={us:.4g}us"]
        for factor in (1, 2, 5, 10, 20, 50):
            for levels in (1, 2, 4):
                yield [f"quantum_factor={factor}", f"levels={levels}"]
    if policy == "darc":
        for slowdown in (1, 3, 30):
            yield [f"slowdown={slowdown}"]
    if policy == "jbsq":
        for bound in (1, 3, 4, 8):
            yield [f"k={bound}"]


def verdict(words):
    done = run(words)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["slo"]["verdict"]


def meets(binary, case, costs, workers, jobs):
    """The first configuration with so many workers that meets the SLO, or None."""
    def meets_with(configuration):
        policy, settings = configuration
        words = [binary, "sim", "--policy", policy, "--workers", str(workers),
                 "--seed", BRUTE_SEED, "--threads", "1", "--json", "-"]
        for setting in settings:
            words += ["--set", setting]
        if verdict(words + common(case, costs, seeds="1")) == "missed":
            return False
        return verdict(words + common(case, costs)) == "met"

    configurations = [(policy, settings) for policy in POLICIES
                      for settings in settings_of(policy, case)]
    with ThreadPoolExecutor(jobs) as pool:
        for (policy, settings), found in zip(configurations,
                                             pool.map(meets_with, configurations)):
            if found:
                pool.shutdown(cancel_futures=True)
                return " ".join([policy, *settings])
    return None


def regret_of(binary, case, costs, jobs):
    found = tuned_workers(binary, case, costs, jobs)
    workers, best = found or MOST_WORKERS + 1, ""
    while workers > case["least"]:
        configuration = meets(binary, case, costs, workers - 1, jobs)
        if configuration is None:
            break
        workers -= 1
        best = configuration
    if found is None and not best:
        return 0, "none meets it, says brute force too"
    return (found or MOST_WORKERS + 1) - workers, f"tune {found}, brute force {workers} {best}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rubato", default="build/release/bin/rubato")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--tighter", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--most-regret", type=int, default=1)
    args = parser.parse_args()
    regrets = []
    with tempfile.TemporaryDirectory() as folder:
        costs = folder + "/costs.toml"
        for number in range(args.first, args.first + args.cases):
            case = draw_case(number, args.tighter)
            cost_file(costs, case)
            regret, words = regret_of(args.rubato, case, costs, args.jobs)
            regrets.append(regret)
            print(f"case {number}: regret {regret}: {words}; {case['workload']} at {case['rate']}, "
                  f"{case['slo']}, preemption {case['preempt_us']} us", flush=True)
    print(f"{len(regrets)} cases: {regrets.count(0)} without regret, greatest {max(regrets)}")
    return 0 if max(regrets) <= args.most_regret else 1


if __name__ == "__main__":
    sys.exit(main())
