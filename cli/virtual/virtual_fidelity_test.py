# SPDX-License-Identifier: Apache-2.0
"""The live runtime in virtual time against the simulator, by rubato-virtual (RUBATO_VIRTUAL)."""

import contextlib
import csv
import json
import os
import re
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

PROGRAM = os.environ["RUBATO_VIRTUAL"]
PRICES = Path(__file__).resolve().parents[2] / "src/sim/costs/virtual.toml"


def run(command, *arguments):
    with tempfile.NamedTemporaryFile("r") as out:
        flag = "--out" if command == "calibrate" else "--json"
        subprocess.run([PROGRAM, command, "--host", "virtual", flag, out.name, *arguments],
                       check=True, stdout=subprocess.DEVNULL)
        return out.read()


def live_policies():
    done = subprocess.run([PROGRAM, "policies", "--json"], check=True, text=True,
                          stdout=subprocess.PIPE)
    return [policy["name"] for policy in json.loads(done.stdout) if not policy["simulated_only"]]


def fidelity(policies, *arguments):
    return run("fidelity", "--policies", ",".join(policies), *arguments)


def prices(text):
    """Nanoseconds by table, key and place in a list; of a figure without a tail, both places."""
    found = {}
    for table, entries in tomllib.loads(text).items():
        for key, value in entries.items():
            for place, one in enumerate(value if isinstance(value, list) else [value] * 2):
                if re.fullmatch(r"\d+ns", str(one)):
                    found[f"{table}.{key}[{place}]"] = int(one[:-2])
    return found


def planted(text, tables, factor=1.03):
    """The text with the prices of these tables, by a test of their names, so many times as high."""
    lines, within = [], False
    for line in text.splitlines(keepends=True):
        head = re.fullmatch(r"\[(\w+)\]\n", line)
        within = tables(head[1]) if head else within
        lines.append(re.sub(r'"(\d+)ns"', lambda price: f'"{round(int(price[1]) * factor, 3):g}ns"',
                            line) if within else line)
    return "".join(lines)


@contextlib.contextmanager
def cost_file(text):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        yield file.name


class Prices(unittest.TestCase):
    def test_the_built_in_prices_are_those_of_this_code(self):
        """Up to what an access more or less costs, so that not every change of the runtime asks
        for new ones. The tails, second places, move more: addresses change interleavings."""
        built_in = prices(PRICES.read_text())
        written = prices(run("calibrate", "--name", "virtual", "--seconds", "1"))
        self.assertEqual(built_in.keys(), written.keys())
        for name, price in built_in.items():
            share = 0.15 if name.endswith("[1]") else 0.03
            self.assertLessEqual(abs(written[name] - price), max(share * price, 20),
                                 f"{name} was {price} ns and is {written[name]} ns; if that is "
                                 "meant, write the prices to src/sim/costs again")

    def test_what_the_worlds_steps_take_is_that_of_the_file(self):
        dearer = planted(PRICES.read_text(), "world".__eq__, 1.5)
        with cost_file(dearer) as costs:
            written = run("calibrate", "--costs", costs, "--seconds", "0.2")
        self.assertEqual(tomllib.loads(written)["world"], tomllib.loads(dearer)["world"])
        for name in "worker.put[0]", "worker.take[0]", "worker.read_clock[0]":
            price = prices(PRICES.read_text())[name]
            self.assertAlmostEqual(prices(written)[name] / price, 1.5, delta=0.1, msg=name)

    def test_a_world_that_is_wrong_is_one_line_and_status_2(self):
        for was, instead, told in (
                ("pause", "rest", "[world] has no key 'rest'"),
                ('pause = "40ns"\n', "", "world.pause is missing"),
                ('"40ns"', '"-40ns"', "world.pause takes a length of time"),
                ('"40ns"', '"0ns"', "world.pause takes more than 0ns")):
            head, world = PRICES.read_text().split("[world]")
            for command in ("calibrate", "--out", "/dev/null"), ("fidelity",):
                with cost_file(f"{head}[world]{world.replace(was, instead)}") as costs:
                    done = subprocess.run([PROGRAM, *command, "--host", "virtual", "--costs",
                                           costs], text=True, check=False, capture_output=True)
                self.assertEqual((done.returncode, done.stdout), (2, ""), told)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(costs, done.stderr)
                self.assertIn(told, done.stderr)


class Options(unittest.TestCase):
    def test_what_would_leave_a_file_empty_or_mixed_is_one_line_and_status_2(self):
        for arguments, told in (
                (("--live-only", "--requests-csv", "-"), "not with --live-only"),
                (("--json", "-", "--requests-csv", "-"), "--requests-csv"),
                (("--loads", ""), "--loads")):
            done = subprocess.run([PROGRAM, "fidelity", "--host", "virtual", *arguments], text=True,
                                  check=False, capture_output=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(told, done.stderr)

    def test_figures_name_what_they_depend_on_and_requests_have_stdout_alone(self):
        done = subprocess.run([PROGRAM, "fidelity", "--host", "virtual", "--requests", "100",
                               "--policies", "synergy", "--loads", "0.5", "--flows", "7",
                               "--set", "quantum_min=3", "--requests-csv", "-"],
                              text=True, check=True, capture_output=True)
        lines = list(csv.reader(done.stdout.splitlines()))
        self.assertEqual({len(line) for line in lines}, {7})
        self.assertEqual(len(lines), 1 + 100)
        report = json.loads(fidelity(["synergy"], "--requests", "100", "--flows", "7", "--set",
                                     "quantum_min=3", "--loads", "0.5"))
        self.assertEqual((report["flows"], report["set"]), (7, ["quantum_min=3"]))


class Ideal(unittest.TestCase):
    def expect_the_same(self, policies, workers, load="0.7", requests=1000, mix="high-bimodal",
                        settings=()):
        """Every request has the same latency, to the nanosecond."""
        report = json.loads(fidelity(policies, "--costs", "ideal-polled", "--loads", load,
                                     "--requests", str(requests), "--workers", str(workers),
                                     "--workload", mix, *settings))
        for row in report["rows"]:
            share = min(kind["equal_share"] for kind in row["types"])
            self.assertEqual(share, 1, f"{row['policy']}, {workers} workers, {mix} at {load}")

    def test_hosts_decide_the_same(self):
        for workers in 1, 2, 8:
            self.expect_the_same(live_policies(), workers)

    def test_hosts_decide_the_same_beside_rings_that_are_taken_over(self):
        self.expect_the_same(["cfcfs", "jbsq", "darc", "altocumulus"], 2, "0.3",
                             mix="extreme-bimodal")
        self.expect_the_same(["cfcfs", "edf"], 8, "0.9")

    def test_hosts_decide_the_same_by_plans(self):
        """Which these policies make of the last 200 requests: simulated every 10 us, live with the
        first poll after that."""
        settings = ["--set", "window=200", "--set", "check=10"]
        for mix in "high-bimodal", "tpcc":
            self.expect_the_same(["shinjuku", "darc", "edf", "fixed-priority"], 8, requests=4000,
                                 mix=mix, settings=settings)
        self.expect_the_same(["shinjuku"], 8, "0.9", requests=4000, settings=settings)

    def test_requests_with_a_reply_on_one_host_only_are_not_the_same(self):
        """`ps` with more requests than a server has fibers, some of which each host refuses."""
        with tempfile.NamedTemporaryFile("r") as lines:
            report = json.loads(fidelity(["ps"], "--costs", "ideal-polled", "--loads", "2",
                                         "--requests", "36000", "--flows", "36000",
                                         "--requests-csv", lines.name))
            pairs = [(row["type"], int(row["live_ns"]), int(row["simulated_ns"]))
                     for row in csv.DictReader(lines)]
        first = next(i for i, (_, _, simulated) in enumerate(pairs) if simulated >= 0)
        self.assertTrue(any((live < 0) != (simulated < 0) for _, live, simulated in pairs[first:]))
        for kind in report["rows"][0]["types"]:
            same = [live == simulated for name, live, simulated in pairs[first:]
                    if name == kind["name"]]
            self.assertAlmostEqual(kind["equal_share"], sum(same) / len(same))

    def test_hosts_of_64_workers_decide_the_same(self):
        self.expect_the_same(["fcfs", "srpt"], 64, requests=400)


class Priced(unittest.TestCase):
    def test_eight_workers_of_every_policy_give_the_same_bytes_twice(self):
        policies = live_policies()
        arguments = ("--loads", "0.6", "--requests", "500", "--workers", "8")
        once = fidelity(policies, *arguments)
        self.assertEqual(once, fidelity(policies, *arguments))
        for row in json.loads(once)["rows"]:
            self.assertEqual(row["unanswered"], 0, row["policy"])

    def p50(self, workers, text):
        with cost_file(text) as costs:
            report = json.loads(fidelity(["fcfs"], "--loads", "0.3", "--requests", "4000",
                                         "--workers", str(workers), "--costs", costs))
        return report["rows"][0]["types"][0]["paired"]["p50"]

    def show_wrong_prices(self, tables, unchanged):
        right_text = PRICES.read_text()
        for workers in 1, 8:
            right = self.p50(workers, right_text)
            wrong = self.p50(workers, planted(right_text, tables))
            self.assertEqual(right[unchanged], wrong[unchanged])
            self.assertGreater(abs(wrong["ratio"] - right["ratio"]), right["within"])

    def test_prices_of_verbs_that_are_wrong_by_three_percent_show(self):
        self.show_wrong_prices("world".__ne__, unchanged="live_us")

    def test_prices_of_steps_that_are_wrong_by_three_percent_show(self):
        self.show_wrong_prices("world".__eq__, unchanged="simulated_us")

    def test_a_file_without_a_world_has_the_built_in_one(self):
        text = PRICES.read_text()
        self.assertEqual(self.p50(8, text), self.p50(8, text.split("[world]")[0]))


if __name__ == "__main__":
    unittest.main()
