#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated requests per second of Rubato's simulator and of SimPy, on the same work.

The work: one queue, 16 workers, Poisson arrivals, extreme-bimodal services (99.5 % of 0.5 us, 0.5 %
of 500 us) at 60 % load, with the latency percentiles of each type. The rounds alternate, both are
measured in CPU time, and the figure is the median of the rounds' ratios with their range. SimPy is
installed by pip into build/simpy; without a network this says so and compares nothing.

    bench/against_simpy.py [--sim-bench build/release/benchmarks/sim_bench] [--rounds 5]

Other simulators of this field were measured on such a machine (two cores of a virtual x86-64
machine), they are not run here; see FROM_ELSEWHERE.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

WORKERS = 16
LOAD = 0.6
TYPES = ((0.995, 0.5), (0.005, 500.0))  # share, microseconds
BENCHMARK = "cfcfs_16_extreme_bimodal_60"
FROM_ELSEWHERE = (("McClure et al., NSDI 2022 (Python)", 0.0007e6), ("schedsim (Go)", 0.2e6))
TIMEOUT_S = 300
ROOT = pathlib.Path(__file__).resolve().parent.parent


def simulate_with_simpy(requests, seed):
    """The textbook SimPy model: a process per request, a resource of 16."""
    import simpy  # pylint: disable=import-outside-toplevel,import-error

    draws = random.Random(seed)
    mean_us = sum(share * service for share, service in TYPES)
    gap_us = mean_us / (LOAD * WORKERS)
    latencies = ([], [])
    env = simpy.Environment()
    workers = simpy.Resource(env, capacity=WORKERS)

    def request(kind):
        arrived = env.now
        with workers.request() as turn:
            yield turn
            yield env.timeout(TYPES[kind][1])
        latencies[kind].append(env.now - arrived)

    def client():
        for _ in range(requests):
            yield env.timeout(draws.expovariate(1 / gap_us))
            env.process(request(0 if draws.random() < TYPES[0][0] else 1))

    begun = time.process_time()
    env.process(client())
    env.run()
    percentiles = [statistics.quantiles(of_type, n=1000)[-1] for of_type in latencies]
    spent_s = time.process_time() - begun
    return {"requests_per_s": requests / spent_s, "simpy": simpy.__version__,
            "p999_us": percentiles}


def python_with_simpy():
    """The interpreter of an environment that has SimPy; exits if there is no way to one."""
    folder = ROOT / "build" / "simpy"
    python = folder / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True,
                           timeout=TIMEOUT_S)
        if subprocess.run([python, "-c", "import simpy"], capture_output=True).returncode != 0:
            subprocess.run([python, "-m", "pip", "install", "-q", "simpy>=4,<5"], check=True,
                           capture_output=True, text=True, timeout=TIMEOUT_S)
    except (subprocess.SubprocessError, OSError) as error:
        why = getattr(error, "stderr", None) or str(error)
        print(f"against_simpy.py: skipped, SimPy cannot be had: {str(why).strip()[-200:]}")
        sys.exit(0)
    return python


def measure_simpy(python, requests, seed):
    child = subprocess.run([python, __file__, "--child", str(requests), str(seed)], check=True,
                           capture_output=True, text=True, timeout=TIMEOUT_S)
    return json.loads(child.stdout)


def measure_rubato(program):
    output = subprocess.run([program, f"--benchmark_filter=^{BENCHMARK}$",
                             "--benchmark_format=json"], check=True, capture_output=True, text=True,
                            timeout=TIMEOUT_S).stdout
    return json.loads(output)["benchmarks"][0]["items_per_second"]


def compare(args):
    python = python_with_simpy()
    rounds = []
    for seed in range(1, args.rounds + 1):
        simpy = measure_simpy(python, args.requests, seed)
        rubato = measure_rubato(args.sim_bench)
        rounds.append({"simpy_rps": simpy["requests_per_s"], "rubato_rps": rubato,
                       "ratio": rubato / simpy["requests_per_s"], "simpy": simpy["simpy"]})
    ratios = [each["ratio"] for each in rounds]
    rubato = statistics.median(each["rubato_rps"] for each in rounds)
    simpy = statistics.median(each["simpy_rps"] for each in rounds)
    print(f"SimPy {rounds[0]['simpy']}: {simpy / 1e6:.4f} M requests/s")
    print(f"Rubato: {rubato / 1e6:.2f} M requests/s, {statistics.median(ratios):.0f} times as many "
          f"[{min(ratios):.0f} .. {max(ratios):.0f}] in {len(rounds)} alternating rounds")
    for name, rate in FROM_ELSEWHERE:
        print(f"{name}: {rate / 1e6:g} M requests/s, measured on such a machine; "
              f"Rubato {rubato / rate:.0f} times as many")
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sim-bench", default=ROOT / "build/release/benchmarks/sim_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100_000, help="of SimPy, per round")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(simulate_with_simpy(*args.child)))
        return 0
    if not pathlib.Path(args.sim_bench).exists():
        print(f"against_simpy.py: {args.sim_bench} is not there; build the target sim_bench",
              file=sys.stderr)
        return 1
    rounds = compare(args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"work": BENCHMARK, "rounds": rounds, "elsewhere": dict(FROM_ELSEWHERE)}, out,
                      indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
