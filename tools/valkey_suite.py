#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Valkey's own test suite on build/valkey, compared with the unchanged build.

    tools/valkey_suite.py [--seed SEED] [--clients N] --all | UNIT...

Runs the units (as `runtest --single` takes them) with every command that can be suspended as a
task, and once more suspending them at most of their checkpoints by SEED; --all takes all units of
all four runners, and `runtest` also with I/O threads and over TLS. A unit that fails is tried three
times alone; what fails again then is tried on the unchanged build, build/valkey-plain, which is
built when it is needed. Only what passes there each time counts as a failure. The logs are in
build/valkey-suite.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREES = {"ours": ROOT / "build/valkey/tree", "unchanged": ROOT / "build/valkey-plain/tree"}
LOGS = ROOT / "build/valkey-suite"
RUNNERS = ("runtest", "runtest-moduleapi", "runtest-cluster", "runtest-sentinel")
TRIES = 3
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def passed_units(runner, log):
    """The units of a log that ended without a failed test, in the log's order."""
    units = {}
    unit = None
    for line in log.splitlines():
        if runner in ("runtest", "runtest-moduleapi"):
            done = re.match(r"\[\d+/\d+ done\]: (\S+) ", line)
            error = re.search(r" in tests/(\S+)\.tcl$", line) if "[err]: " in line else None
            if done:
                units.setdefault(done[1], True)
            if error:
                units[error[1]] = False
        elif line.startswith("Testing unit: "):
            unit = line.split()[-1].removesuffix(".tcl")
            units[unit] = True
        elif unit and ("FAILED" in line or "Aborting the test" in line or "Crash report" in line):
            units[unit] = False
    return [unit for unit, passed in units.items() if passed]


def passed_tests(log):
    """How many tests passed."""
    return len(re.findall(r"^\[ok\]: |: OK$", log, re.MULTILINE))


def all_units(runner):
    """The units of a runner."""
    tests = TREES["ours"] / "tests"
    if runner in ("runtest-cluster", "runtest-sentinel"):
        return sorted(path.stem for path in (tests / runner[8:] / "tests").glob("*.tcl"))
    folders = ["unit/moduleapi"]
    if runner == "runtest":
        folders = ["unit", "unit/type", "unit/cluster", "integration"]
    return [f"{folder}/{path.stem}" for folder in folders
            for path in sorted((tests / folder).glob("*.tcl"))]


def has_solo_tests(unit):
    """Whether some of its tests run after all units have ended."""
    path = TREES["ours"] / f"tests/{unit}.tcl"
    return path.exists() and "run_solo" in path.read_text(encoding="utf-8", errors="replace")


class Suite:
    """Runs parts of the suite; what differs from the unchanged build is in `failures`."""

    def __init__(self, clients):
        self.clients = clients
        self.failures = []
        self.runs = 0
        self.ready = {"ours"}  # builds that are up to date

    def prepare(self, build, options):
        """What the run needs: the unchanged build, certificates."""
        if build not in self.ready:
            subprocess.run([ROOT / "tools/valkey.sh", "--plain"], check=True)
            self.ready.add(build)
        if "--tls" in options and not (TREES[build] / "tests/tls").exists():
            subprocess.run(["utils/gen-test-certs.sh"], cwd=TREES[build], check=True,
                           capture_output=True)

    def run(self, build, runner, options, units, clients):
        """One run. Its units that failed or did not run, and the number of tests passed."""
        self.prepare(build, options)
        words = [f"./{runner}"]
        if runner in ("runtest", "runtest-moduleapi"):
            words += ["--durable", "--timeout", "600", "--clients", str(clients)]
        words += options
        for unit in units:
            words += ["--single", unit]
        self.runs += 1
        path = LOGS / f"{self.runs}-{build}.log"
        with open(path, "w", encoding="utf-8") as log:
            log.write(" ".join(map(str, words)) + "\n")
            log.flush()
            code = subprocess.run(words, cwd=TREES[build], stdout=log, stderr=log,
                                  check=False).returncode
        text = COLOUR.sub("", path.read_text(encoding="utf-8", errors="replace"))
        passed = passed_units(runner, text)
        failed = [unit for unit in units if unit not in passed]
        if code != 0 and not failed:  # what a unit does at the end of all, say
            failed = [unit for unit in units if has_solo_tests(unit)] or units
        return failed, passed_tests(text)

    def fails_alone(self, build, runner, options, unit):
        """Whether the unit fails in one of three runs alone."""
        return any(self.run(build, runner, options, [unit], 1)[0] for _ in range(TRIES))

    def compare(self, runner, ours, common, units):
        """Runs the units with the options `ours` and `common`, and says what fails."""
        failed, passed = self.run("ours", runner, ours + common, units, self.clients)
        log = f"{self.runs}-ours.log"
        name = " ".join(map(str, [runner, *ours, *common]))
        print(f"{name}: {len(units)} units, {passed} tests passed, {len(failed)} units failed, "
              f"{log}", flush=True)
        for unit in failed:
            if not self.fails_alone("ours", runner, ours + common, unit):
                verdict = f"passes {TRIES} times alone"
            elif self.fails_alone("unchanged", runner, common, unit):
                verdict = "fails in the unchanged build as well"
            else:
                verdict = "FAILS, and passes in the unchanged build"
                self.failures.append(f"{name} {unit}")
            print(f"  {unit}: {verdict}", flush=True)


def have_tls():
    """Whether Tcl has TLS."""
    return subprocess.run(["tclsh"], input="package require tls", text=True, check=False,
                          capture_output=True).returncode == 0


def run_all(suite, task, stress):
    """All units of all runners."""
    for mode in (task, stress):
        for runner in RUNNERS:
            suite.compare(runner, mode, [], all_units(runner))
    suite.compare("runtest", stress, ["--io-threads"], all_units("runtest"))
    if have_tls():
        suite.compare("runtest", stress, ["--tls"], all_units("runtest"))
    else:
        print("valkey_suite: Tcl has no package tls (tcl-tls), so nothing over TLS")
    suite.prepare("unchanged", [])  # which does not know our settings
    suite.compare("runtest", [], ["--other-server-path", TREES["unchanged"] / "src/valkey-server"],
                  ["integration/cross-version-replication"])


def main():
    """The command."""
    parser = argparse.ArgumentParser(description="Valkey's own suite, compared")
    parser.add_argument("--seed", default="20261126")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("units", nargs="*")
    given = parser.parse_args()
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    suite = Suite(given.clients)
    task = ["--config", "rubato-threshold", "1"]
    stress = [*task, "--config", "rubato-stress", given.seed]
    if given.all:
        run_all(suite, task, stress)
    else:
        for mode in (task, stress):
            suite.compare("runtest", mode, [], given.units)
    for failure in suite.failures:
        print(f"FAILS: {failure}")
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
