#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""librubato-pass.so on LevelDB: takes LevelDB's source from the distribution, compiles it by Clang
19 with the pass and without, runs GETs and full scans of both in turn, and prints what the
checkpoints cost and how far apart they are. Skips with its reason, status 77, where the source
cannot be had.

    bench/pass_leveldb.py --plugin build/dev/lib/librubato-pass.so [--source FOLDER] [--json FILE]

The source is fetched by apt into the working folder, which is not the system's: nothing is
installed and no package list of the system changes."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path

from instructions import counted

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "bench/pass_loops"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"
SKIP = 77
TIMEOUT_S = 900


class Skip(Exception):
    """Why nothing was measured."""


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: status {done.returncode}\n"
                           f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def mirror_and_suite():
    """Of Debian, as apt is configured here, else Debian's own mirror."""
    folder = Path("/etc/apt/sources.list.d")
    files = [Path("/etc/apt/sources.list"), *folder.glob("*.list"), *folder.glob("*.sources")]
    for text in (path.read_text() for path in files if path.is_file()):
        text = re.sub(r"#[^\n]*", "", text)
        for form in (r"^deb\s+(?:\[[^]]*\]\s+)?(\S+/debian)/?\s+(\S+)",
                     r"^URIs:\s*(\S+/debian)/?\s[^:]*?^Suites:\s*(\S+)"):
            if found := re.search(form, text, re.MULTILINE):
                return found.groups()
    return MIRROR, "bookworm"


def fetch(folder):
    """LevelDB's source, unpacked; by an apt that has its root in `folder`."""
    found = sorted(folder.glob("leveldb-*/include/leveldb"))
    if found:
        return found[0].parent.parent
    if shutil.which("apt-get") is None:
        raise Skip("no apt-get here; name LevelDB's source by --source")
    root = folder / "apt"
    for name in ("etc/apt/preferences.d", "etc/apt/apt.conf.d", "var/lib/apt/lists/partial",
                 "var/cache/apt/archives/partial", "var/lib/dpkg"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").touch()
    mirror, suite = mirror_and_suite()
    (root / "etc/apt/sources.list").write_text(
        f"deb-src [signed-by={KEYRING}] {mirror} {suite} main\n")
    config = root / "apt.conf"
    config.write_text(f'Dir "{root}";\nDir::State::status "{root}/var/lib/dpkg/status";\n'
                      'APT::Sandbox::User "root";\n')
    environment = {**os.environ, "APT_CONFIG": str(config)}
    try:
        run("apt-get", "-qq", "update", env=environment)
        run("apt-get", "-qq", "source", "--download-only", "leveldb", env=environment, cwd=folder)
    except RuntimeError as trouble:
        raise Skip(f"cannot fetch LevelDB's source: {str(trouble).splitlines()[-1]}") from trouble
    archives = sorted(folder.glob("leveldb_*.orig.tar.*"))
    if not archives:
        raise Skip("apt fetched no source of LevelDB")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return sorted(folder.glob("leveldb-*/include/leveldb"))[0].parent.parent


def build(arguments, source, variant, flags):
    """The program with this LevelDB in it."""
    folder = arguments.folder / variant
    run("cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_CXX_COMPILER={arguments.cxx}", f"-DCMAKE_CXX_FLAGS={' '.join(flags)}",
        f"-DCMAKE_C_COMPILER={arguments.cxx.replace('++', '')}", "-DLEVELDB_BUILD_TESTS=OFF",
        "-DLEVELDB_BUILD_BENCHMARKS=OFF", "-DHAVE_SNAPPY=OFF", "-DHAVE_CRC32C=OFF",
        "-DHAVE_TCMALLOC=OFF", "-DCMAKE_CXX_COMPILER_LAUNCHER=", "-DCMAKE_C_COMPILER_LAUNCHER=")
    run("cmake", "--build", folder, "--target", "leveldb", "-j", os.cpu_count())
    program = folder / "leveldb_under_pass"
    run(arguments.cxx, "-std=c++20", "-O2", f"-I{source / 'include'}", f"-I{ROOT / 'src'}",
        f"-I{ROOT / 'include'}", SUITE / "leveldb.cc", SUITE / "gaps.cc",
        ROOT / "src/mechanism/preempt/checkpoint.cc",
        ROOT / "src/mechanism/preempt/enter_x86_64.S", folder / "libleveldb.a", "-pthread", "-o",
        program)
    return program


def measure(arguments, programs):
    times = {variant: [] for variant in programs}
    for _ in range(arguments.repeat):
        for variant, program in programs.items():
            data = arguments.folder / "data"
            shutil.rmtree(data, ignore_errors=True)
            times[variant].append(json.loads(run(program, data, "time")))
    sums = {time["sum"] for each in times.values() for time in each}
    if len(sums) != 1:
        raise RuntimeError(f"the results differ: {sums}")
    shutil.rmtree(data, ignore_errors=True)
    gaps = [json.loads(line) for line in run(programs["instrumented"], data, "gaps").splitlines()]
    shutil.rmtree(data, ignore_errors=True)
    return times, gaps


def instructions(arguments, program, what, times):
    """Of one GET or scan: what twice as many take more."""
    counts = []
    for number in (times, 2 * times):
        data = arguments.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        counts.append(counted([program, data, "run", what, number], timeout_s=TIMEOUT_S)[0])
    shutil.rmtree(data, ignore_errors=True)
    return (counts[1] - counts[0]) / times


def report_instructions(arguments, programs):
    for what, times in (("get", 20_000), ("scan", 20)):
        plain, with_pass = (instructions(arguments, programs[variant], what, times)
                            for variant in ("plain", "instrumented"))
        print(f"{what:5} {plain:.0f} instructions without, {with_pass:.0f} with checkpoints:"
              f" {with_pass / plain - 1:+.1%}")


def report(times, gaps, reports):
    loops = {}
    for line in reports:
        for kind, count in line["loops"].items():
            loops[kind] = loops.get(kind, 0) + count
    seen = sum(line["functions"]["seen"] for line in reports)
    touched = sum(line["functions"]["instrumented"] for line in reports)
    print(f"{sum(line['checkpoints'] for line in reports)} checkpoints in {touched} of {seen} "
          "functions; loops: " + ", ".join(f"{n} {kind}" for kind, n in loops.items()))
    result = {"times": times, "gaps": gaps, "checkpoints": loops}
    for what, unit in (("get", "ns"), ("scan", "us")):
        key = f"{what}_{unit}"
        plain = [time[key] for time in times["plain"]]
        with_pass = [time[key] for time in times["instrumented"]]
        ratios = sorted(w / p - 1 for p, w in zip(plain, with_pass))
        result[f"{what}_overhead"] = statistics.median(ratios)
        result[f"{what}_overhead_of_fastest"] = min(with_pass) / min(plain) - 1
        print(f"{what:5} {statistics.median(plain):8.1f} {unit} without,"
              f" {statistics.median(with_pass):8.1f} {unit} with checkpoints:"
              f" {statistics.median(ratios):+.1%} ({ratios[0]:+.1%} to {ratios[-1]:+.1%}),"
              f" the fastest runs {min(with_pass) / min(plain) - 1:+.1%}")
    for line in gaps:
        print(f"{line['what']:5} gaps: p50 {line['p50']:.0f} ns, p99 {line['p99']:.0f} ns, p99.9"
              f" {line['p999']:.0f} ns, by time p99 {line['time_p99']:.0f} ns, longest"
              f" {line['max'] / 1e3:.0f} us ({line['stolen']} of {line['count']} not ours)")
    return result


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--plugin", required=True, type=Path)
    parser.add_argument("--source", type=Path, help="LevelDB's source; fetched by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/pass_leveldb")
    parser.add_argument("--cxx", default="clang++-19")
    parser.add_argument("--distance", type=int)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each, in turn")
    parser.add_argument("--instructions", action="store_true", help="count them too (valgrind)")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def measure_all(arguments):
    for tool in (arguments.cxx, "cmake", *(["valgrind"] if arguments.instructions else [])):
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is missing")
    if not arguments.plugin.exists():
        raise Skip(f"there is no {arguments.plugin} (llvm-19-dev was missing?)")
    arguments.folder = arguments.folder.resolve()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    source = arguments.source.resolve() if arguments.source else fetch(arguments.folder)
    plugin = arguments.plugin.resolve()
    pass_report = arguments.folder / "report.json"
    pass_report.unlink(missing_ok=True)
    shutil.rmtree(arguments.folder / "instrumented", ignore_errors=True)
    flags = [f"-fplugin={plugin}", f"-fpass-plugin={plugin}",
             f"-mllvm -rubato-pass-report={pass_report}"]
    if arguments.distance:
        flags.append(f"-mllvm -rubato-distance={arguments.distance}")
    programs = {"plain": build(arguments, source, "plain", []),
                "instrumented": build(arguments, source, "instrumented", flags)}
    times, gaps = measure(arguments, programs)
    reports = [json.loads(line) for line in pass_report.read_text().splitlines()]
    result = report(times, gaps, [r for r in reports if r["functions"]["seen"]])
    if arguments.instructions:
        report_instructions(arguments, programs)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def main():
    try:
        measure_all(parse())
    except Skip as reason:
        print(f"skipped: {reason}")
        return SKIP
    except RuntimeError as trouble:
        sys.exit(f"pass_leveldb: {trouble}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
