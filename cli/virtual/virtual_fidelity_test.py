# SPDX-License-Identifier: Apache-2.0
"""The live runtime in virtual time against the simulator, by rubato-virtual (RUBATO_VIRTUAL)."""

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
    """Nanoseconds by table, key and place in a list."""
    found = {}
    for table, entries in tomllib.loads(text).items():
        for key, value in entries.items():
            for place, one in enumerate(value if isinstance(value, list) else [value]):
                if re.fullmatch(r"\d+ns", str(one)):
                    found[f"{table}.{key}[{place}]"] = int(one[:-2])
    return found


class Prices(unittest.TestCase):
    def test_the_built_in_prices_are_those_of_this_code(self):
        """Up to what an access more or less costs, so that not every change of the runtime asks
        for new ones."""
        built_in = prices(PRICES.read_text())
        written = prices(run("calibrate", "--name", "virtual", "--seconds", "1"))
        self.assertEqual(built_in.keys(), written.keys())
        for name, price in built_in.items():
            self.assertLessEqual(abs(written[name] - price), max(0.03 * price, 20),
                                 f"{name} was {price} ns and is {written[name]} ns; if that is "
                                 "meant, write the prices to src/sim/costs again")


class Ideal(unittest.TestCase):
    def expect_the_same(self, policies, workers, load="0.7", requests=1000, mix="high-bimodal"):
        """Every request has the same latency, to the nanosecond."""
        report = json.loads(fidelity(policies, "--costs", "ideal-polled", "--loads", load,
                                     "--requests", str(requests), "--workers", str(workers),
                                     "--workload", mix))
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

    def test_prices_that_are_wrong_by_three_percent_show(self):
        for workers in 1, 8:
            self.show_wrong_prices(workers)

    def show_wrong_prices(self, workers):
        def p50(costs):
            report = json.loads(fidelity(["fcfs"], "--loads", "0.3", "--requests", "4000",
                                         "--workers", str(workers), "--costs", costs))
            return report["rows"][0]["types"][0]["paired"]["p50"]
        text = re.sub(r'"(\d+)ns"', lambda price: f'"{round(int(price[1]) * 1.03)}ns"',
                      PRICES.read_text())
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as wrong:
            wrong.write(text)
            wrong.flush()
            right, planted = p50("virtual"), p50(wrong.name)
        self.assertEqual(right["live_us"], planted["live_us"])
        self.assertGreater(abs(planted["ratio"] - right["ratio"]), right["within"])


if __name__ == "__main__":
    unittest.main()
