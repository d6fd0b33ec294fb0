#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What librubato-pass.so costs and how far apart its checkpoints are, over the loop suite in
bench/pass_loops: builds every kernel with the pass and without into one program, runs the two in
turn, and prints per kernel the overhead (median and quartiles of processor time with / without) and
the gaps between checkpoints in nanoseconds. Exit status 77 is a skip with its reason.

    bench/pass_loops.py --plugin build/dev/lib/librubato-pass.so [--json FILE] [--instructions]

On a shared machine the longest gap is the scheduler's; gaps of more than some 0.8 ms are counted as
its work and left out of the quantiles. With --check nothing is measured: the checksums of both
variants must agree, and every kernel must meet a checkpoint."""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from instructions import counted

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "bench/pass_loops"
KERNELS = ("numeric", "memory", "text", "control", "library")
COMMON = ("bench/pass_loops/main.cc", "bench/pass_loops/data.cc", "bench/pass_loops/gaps.cc",
          "src/mechanism/preempt/checkpoint.cc", "src/mechanism/preempt/enter_x86_64.S")
# Loops and functions begin on a cache line in both variants, so that what is compared is the code
# and not where it happens to lie.
FLAGS = ("-std=c++20", "-falign-functions=64", "-falign-loops=64", "-Wall", "-Wextra",
         f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}", f"-I{SUITE}")
WANTED_OVERHEAD = 0.05
WANTED_GAP_NS = 2000
SKIP = 77
TIMEOUT_S = 600


def run(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: status {done.returncode}\n"
                           f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def build(arguments, folder):
    """The program, and what the pass reported of the kernels."""
    flags = [*FLAGS, *arguments.flags.split()]
    lto = [f"-flto={arguments.lto}"] if arguments.lto else []
    report = folder / "report.json"
    pass_flags = [f"-fplugin={arguments.plugin}", f"-fpass-plugin={arguments.plugin}",
                  "-mllvm", f"-rubato-pass-report={report}"]
    if arguments.distance:
        pass_flags += ["-mllvm", f"-rubato-distance={arguments.distance}"]
    jobs = []
    for kernel in KERNELS:
        source = SUITE / f"{kernel}.cc"
        for variant, more in (("plain", []), ("instrumented", pass_flags)):
            target = folder / f"{kernel}.{variant}.o"
            more = [*more, f"-DRUBATO_LOOPS_VARIANT={variant}"]
            jobs.append(([arguments.cxx, *flags, *lto, *more, "-c", source, "-o", target], target))
    for source in COMMON:
        target = folder / (Path(source).stem + ".common.o")
        jobs.append(([arguments.cxx, *flags, "-c", ROOT / source, "-o", target], target))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: run(job[0]), jobs))
    program = folder / "pass_loops"
    link = [arguments.cxx, *flags, *lto, "-nostdlib", "-r"] if lto else None
    variants = [one_object(folder, variant, link) for variant in ("plain", "instrumented")]
    run([arguments.cxx, *[target for _, target in jobs if ".common." in target.name], *variants,
         "-o", program])
    return program, [json.loads(line) for line in report.read_text().splitlines()]


def one_object(folder, variant, link=None):
    """All kernels of a variant, whose templates are its own: the linker would take one copy of a
    function such as std::sort's for both. With `link` they are optimised together first."""
    together = folder / f"{variant}.o"
    objects = [folder / f"{kernel}.{variant}.o" for kernel in KERNELS]
    if link:
        run([*link, "-o", folder / f"{variant}.lto.o", *objects])
        objects = [folder / f"{variant}.lto.o"]
    run(["ld", "-r", "--force-group-allocation", "-o", together, *objects])
    run(["objcopy", "--wildcard", "--keep-global-symbol=*_kernelsEv", together])
    return together


def lines_of(program, *words):
    return {line["kernel"]: line
            for line in map(json.loads, run([program, *words]).splitlines())}


def check(program):
    wrong = [f"{name}: {line}" for name, line in lines_of(program, "check").items()
             if not line["same"] or line["checkpoints"] == 0]
    for line in wrong:
        print(line)
    print(f"pass_loops: {len(wrong)} kernels are wrong")
    return 1 if wrong else 0


def instructions(program, variant, kernel, rounds):
    """Instructions of one round: of twice as many rounds less those of so many."""
    counts = []
    for times in (rounds, 2 * rounds):
        counts.append(counted([program, "run", variant, kernel, times], timeout_s=TIMEOUT_S)[0])
    return (counts[1] - counts[0]) / rounds


def measure(arguments, program):
    times = lines_of(program, "time", str(arguments.samples))
    gaps = lines_of(program, "gaps", str(arguments.gap_ms))
    kernels = []
    for name, time in times.items():
        ratios = sorted(time["ratios"])
        quarter = len(ratios) // 4
        line = {"kernel": name, "round_ns": time["ns"],
                "overhead": statistics.median(ratios) - 1,
                "overhead_quartiles": [ratios[quarter] - 1, ratios[-1 - quarter] - 1],
                "gaps_ns": {k: gaps[name][k] for k in ("p50", "p99", "max", "time_p99", "count",
                                                       "stolen")}}
        if arguments.instructions:
            plain = instructions(program, "plain", name, 20)
            line["instructions"] = instructions(program, "instrumented", name, 20) / plain - 1
        kernels.append(line)
    return kernels


def geometric_mean(overheads):
    return math.exp(statistics.fmean(math.log1p(o) for o in overheads)) - 1


def spread_of_mean(kernels, arguments, program):
    """The geometric mean of each of a few repetitions: lowest and highest."""
    means = [geometric_mean([k["overhead"] for k in kernels])]
    for _ in range(arguments.repeat - 1):
        times = lines_of(program, "time", str(arguments.samples))
        means.append(geometric_mean([statistics.median(t["ratios"]) - 1 for t in times.values()]))
    return means


def print_table(result):
    head = f"{'kernel':19}{'round':>12}{'overhead':>10}{'quartiles':>16}"
    print(head + f"{'gap p50':>9}{'p99':>8}{'by time':>9}{'max us':>8}")
    for line in result["kernels"]:
        low, high = line["overhead_quartiles"]
        gaps = line["gaps_ns"]
        missed = ("  > 5 %" if line["overhead"] > WANTED_OVERHEAD else "") + (
            "  > 2 us" if gaps["p99"] > WANTED_GAP_NS else "")
        more = f"{line['instructions']:+9.1%} instr" if "instructions" in line else ""
        print(f"{line['kernel']:19}{line['round_ns'] / 1e3:9.2f} us{line['overhead']:+10.1%}"
              f"{low:+8.1%}{high:+8.1%}{gaps['p50']:9.0f}{gaps['p99']:8.0f}"
              f"{gaps['time_p99']:9.0f}{gaps['max'] / 1e3:8.0f}{more}{missed}")
    means = result["geometric_means"]
    print(f"geometric mean of the overhead: {statistics.median(means):+.2%}"
          f" ({len(means)} times: {min(means):+.2%} to {max(means):+.2%})")
    p99 = sorted(line["gaps_ns"]["p99"] for line in result["kernels"])
    print(f"gap p99 over the kernels: median {statistics.median(p99):.0f} ns, highest {p99[-1]:.0f}"
          f" ns; {sum(p > WANTED_GAP_NS for p in p99)} of {len(p99)} above {WANTED_GAP_NS} ns")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--plugin", required=True, type=Path)
    parser.add_argument("--cxx", default="clang++-19")
    parser.add_argument("--flags", default="-O2", help="of both variants, e.g. '-O3 -mavx2'")
    parser.add_argument("--lto", choices=("full", "thin"), help="link-time optimisation of both")
    parser.add_argument("--distance", type=int, help="-rubato-distance; the pass's own by default")
    parser.add_argument("--samples", type=int, default=15, help="pairs of runs per kernel")
    parser.add_argument("--repeat", type=int, default=3, help="of the whole suite, for the mean")
    parser.add_argument("--gap-ms", type=int, default=20, help="how long gaps are looked at")
    parser.add_argument("--instructions", action="store_true", help="count them too (valgrind)")
    parser.add_argument("--folder", type=Path, help="to build in; a temporary one by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse()
    needed = [arguments.cxx] + (["valgrind"] if arguments.instructions else [])
    for tool in needed:
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is missing")
            return SKIP
    if not arguments.plugin.exists():
        print(f"skipped: there is no {arguments.plugin} (llvm-NN-dev was missing?)")
        return SKIP
    arguments.plugin = arguments.plugin.resolve()
    with tempfile.TemporaryDirectory(prefix="rubato-loops-") as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").unlink(missing_ok=True)
        program, report = build(arguments, folder)
        if arguments.check:
            return check(program)
        kernels = measure(arguments, program)
        result = {"flags": arguments.flags, "lto": arguments.lto, "distance": report[0]["distance"],
                  "kernels": kernels, "pass": report,
                  "geometric_means": spread_of_mean(kernels, arguments, program)}
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print_table(result)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as trouble:
        sys.exit(f"pass_loops: {trouble}")
