#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated requests per second of Rubato's simulator and of others, on the same work.

The work: one queue, 16 workers, Poisson arrivals, exponential services, 80 % load, as everybody
has it (bench/rivals). Rounds alternate; CPU time counts, the figures are medians of the rounds'
ratios with their range. Every simulator has to find the mean latency that Erlang's formula gives,
within 3 %. Rubato keeps all that a run of it reports (a histogram per type, waits, queues, the
busy time of workers), the others a mean, schedsim each latency too.

The others are fetched from where they are published, in the version that PUBLISHED names, or taken
from --sources DIR (a repository for each: cimba, queue-sim, schedsim). They need git, a C and a
C++ compiler, nasm (cimba), Go (schedsim) and pip (meson, SimPy). What cannot be had is named and
left out.

    bench/against_simulators.py [--sim-bench build/release/benchmarks/sim_bench] [--rounds 5]
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

WORKERS = 16
LOAD = 0.8
BENCHMARK = "rubato_16_exp_1_80/cfcfs"
MEAN_WITHIN = 0.03
TIMEOUT_S = 600
ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "bench" / "rivals"
BUILT = ROOT / "build" / "rivals"
GITHUB = "https://github.com"
PUBLISHED = {
    "cimba": ("ambonvik/cimba", "278eb471ce463878c844bad5984438ebc5ff4d5a"),
    "queue-sim": ("Ak33ra/queue-sim", "638144e0a919d3f8023e5c1a3349277c141e3483"),
    "schedsim": ("epfl-dcsl/schedsim", "4095041e04b0a9c6d1584b66ff8a85507aff77fb"),
}
PACKAGES = ("simpy==4.1.2", "meson>=1,<2")
# cimba is written for a newer GCC than 12, in whose C23 these words are not built in.
CIMBA_C_ARGS = "-Dstatic_assert=_Static_assert -include stdbool.h"
REQUESTS = {"cimba": 1_000_000, "queue-sim": 1_000_000, "schedsim": 100_000, "SimPy": 100_000}


def run(command, folder=ROOT):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=True).stdout


# ---- Building the others: each returns the command of its model --------------------------------

def source(name, sources):
    repository, commit = PUBLISHED[name]
    folder = BUILT / name
    if not folder.exists():
        where = pathlib.Path(sources).resolve() / name if sources else f"{GITHUB}/{repository}"
        run(["git", "clone", "-q", "--no-checkout", "--filter=blob:none", where, folder])
    run(["git", "checkout", "-q", commit, "--", ".", ":!images"], folder)
    return folder


def python_with_packages():
    python = BUILT / "venv" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", python.parent.parent])
    run([python, "-m", "pip", "install", "-q", *PACKAGES])
    return python


def build_cimba(sources):
    folder = source("cimba", sources)
    built = folder / "build"
    if not built.exists():
        run([python_with_packages(), "-m", "mesonbuild.mesonmain", "setup", built,
             "--buildtype=release", f"-Dc_args={CIMBA_C_ARGS}"], folder)
    run(["ninja", "-C", built, "src/libcimba.so.3.0.0"])
    program = BUILT / "mm16_cimba"
    run(["cc", "-std=c2x", "-O3", "-DNDEBUG", "-DNLOGINFO", *CIMBA_C_ARGS.split(),
         "-D_POSIX_C_SOURCE=200809L", f"-I{folder}/include", f"-I{folder}/src",
         MODELS / "mm16_cimba.c", "-o", program, f"-L{built}/src", "-lcimba", "-lm",
         f"-Wl,-rpath,{built}/src"])
    return [program]


def build_queue_sim(sources):
    folder = source("queue-sim", sources)
    program = BUILT / "mm16_queue_sim"
    run(["c++", "-std=c++17", "-O3", "-DNDEBUG", f"-I{folder}/csrc/include",
         MODELS / "mm16_queue_sim.cc", "-o", program, "-pthread"])
    return [program]


def build_schedsim(sources):
    folder = source("schedsim", sources)
    model = folder / "mm16"
    model.mkdir(exist_ok=True)
    (model / "main.go").write_bytes((MODELS / "mm16_schedsim.go").read_bytes())
    program = BUILT / "mm16_schedsim"
    run(["go", "build", "-o", program, "./mm16"], folder)
    return [program]


def build_simpy(_):
    return [python_with_packages(), MODELS / "mm16_simpy.py"]


BUILDERS = {"cimba": build_cimba, "queue-sim": build_queue_sim, "schedsim": build_schedsim,
            "SimPy": build_simpy}


def build(sources):
    """The commands of those that can be had."""
    BUILT.mkdir(parents=True, exist_ok=True)
    commands = {}
    for name, builder in BUILDERS.items():
        try:
            commands[name] = builder(sources)
        except (subprocess.SubprocessError, OSError) as error:
            why = str(getattr(error, "stderr", None) or error).strip().splitlines()
            print(f"{name}: left out, cannot be had: {why[-1] if why else error}", file=sys.stderr)
    return commands


# ---- Measuring --------------------------------------------------------------------------------

def erlang_mean():
    """Of the latency in an M/M/WORKERS queue, in mean services."""
    offered = LOAD * WORKERS
    all_busy = offered ** WORKERS / math.factorial(WORKERS) / (1 - LOAD)
    some = sum(offered ** n / math.factorial(n) for n in range(WORKERS))
    return 1 + all_busy / (some + all_busy) / (WORKERS - offered)


def rate_of(name, command, seed):
    found = json.loads(run([*command, str(REQUESTS[name]), str(seed)]))
    if abs(found["mean"] / erlang_mean() - 1) > MEAN_WITHIN:
        raise SystemExit(f"{name}: mean latency {found['mean']:.4f} services, "
                         f"Erlang's formula has {erlang_mean():.4f}")
    return found["requests"] / found["cpu_s"]


def rate_of_rubato(program):
    output = run([program, f"--benchmark_filter=^{BENCHMARK}$", "--benchmark_format=json"])
    return json.loads(output)["benchmarks"][0]["items_per_second"]


def compare(args):
    commands = build(args.sources)
    rounds = [{"Rubato": rate_of_rubato(args.sim_bench),
               **{name: rate_of(name, command, seed) for name, command in commands.items()}}
              for seed in range(1, args.rounds + 1)]
    rubato = statistics.median(each["Rubato"] for each in rounds)
    print(f"Rubato: {rubato / 1e6:.2f} million requests/s of CPU time; {len(rounds)} rounds")
    for name in commands:
        ratios = [each["Rubato"] / each[name] for each in rounds]
        print(f"{name}: {statistics.median(each[name] for each in rounds) / 1e6:.3f} million; "
              f"Rubato {statistics.median(ratios):.1f} times as many "
              f"[{min(ratios):.1f} .. {max(ratios):.1f}]")
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sim-bench", default=ROOT / "build/release/benchmarks/sim_bench")
    parser.add_argument("--sources", metavar="DIR", help="of their repositories, instead of GitHub")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if not pathlib.Path(args.sim_bench).exists():
        print(f"against_simulators.py: {args.sim_bench} is not there; build the target sim_bench",
              file=sys.stderr)
        return 1
    rounds = compare(args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"work": BENCHMARK, "rounds": rounds}, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
