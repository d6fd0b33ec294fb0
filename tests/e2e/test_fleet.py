# SPDX-License-Identifier: Apache-2.0
"""`rubato fleet`, `rubato report merge` and `--hdr` as a user meets them."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from server import BINARY, PATIENCE_S, refused

WORLDS = pathlib.Path(__file__).parents[2] / "examples" / "fleet"


def rubato(*args):
    done = subprocess.run([BINARY, *args], capture_output=True, text=True,
                          timeout=3 * PATIENCE_S, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class Fleet(unittest.TestCase):
    def test_every_example_runs(self):
        for world in sorted(WORLDS.glob("*.toml")):
            with self.subTest(world=world.name):
                text = rubato("fleet", str(world), "--length", "0.1", "--timeline")
                self.assertIn("clients ", text)
                self.assertIn("servers ", text)
                self.assertIn("timeline of", text)

    def test_a_retry_budget_ends_the_storm(self):
        served = {}
        for name in ("retry-storm", "retry-budget"):
            report = json.loads(rubato("fleet", str(WORLDS / f"{name}.toml"), "--length", "22",
                                       "--json", "-"))
            self.assertEqual(report["schema"], "rubato.fleet/1")
            late = report["clients"][0]["timeline"][19:22]
            served[name] = sum(s["served"] for s in late) / sum(s["calls"] for s in late)
        self.assertLess(served["retry-storm"], 0.1)
        self.assertGreater(served["retry-budget"], 0.97)

    def test_mistakes_are_one_line(self):
        for args in (["fleet"], ["fleet", "/nowhere"], ["fleet", str(WORLDS / "hedging.toml"),
                                                        "--length", "0"]):
            status, text = refused(*args)
            self.assertEqual((status, text.count("\n")), (2, 1), text)


class Merged(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_shards_of_a_simulation_are_one_report(self):
        names, requests = [], 0
        for seed in range(3):
            names.append(self.path(f"{seed}.json"))
            rubato("sim", "--policy", "ps", "--workers", "2", "--workload", "high-bimodal",
                   "--requests", "20000", "--seed", str(seed), "--json", names[-1], "--hdr",
                   self.path(f"{seed}.hlog"))
            with open(names[-1], encoding="utf-8") as file:
                requests += json.load(file)["requests"]
        text = rubato("report", "merge", *names, "--json", self.path("all.json"))
        self.assertRegex(text, r"(?m)^ps  load 0\.7  \d+ requests of 3 reports, seeds 0, 1, 2$")
        self.assertIn("p99.99", text)
        self.assertRegex(text, r"(?m)^all .*us\+-\d")
        self.assertRegex(text, r"(?m)^(not )?steady")
        with open(self.path("all.json"), encoding="utf-8") as file:
            merged = json.load(file)
        self.assertEqual((merged["merged"], merged["requests"]), (3, requests))
        self.assertEqual(sum(t["count"] for t in merged["types"]), requests)
        logs = rubato("report", "merge", *(self.path(f"{s}.hlog") for s in range(3)))
        self.assertRegex(logs, rf"(?m)^all +{requests} ")
        status, text = refused("report", "merge", names[0], self.path("0.hlog"))
        self.assertEqual((status, text.count("\n")), (2, 1), text)
        for files, named in ((names[:1] * 2, "both have seed 0"),
                             ([self.path("all.json"), names[1]], "both have seed 1"),
                             (["/dev/null"] * 2, "/dev/null")):
            status, text = refused("report", "merge", *files)
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertIn(named, text)

    def test_a_merged_overload_is_told(self):
        for seed in ("1", "2"):
            rubato("sim", "--policy", "cfcfs", "--workers", "2", "--requests", "20000", "--load",
                   "1.2", "--seed", seed, "--json", self.path(seed))
        text = rubato("report", "merge", self.path("1"), self.path("2"))
        self.assertIn("\noverloaded: 1.2 of the capacity is offered\nINVALID run: overloaded\n",
                      text)


if __name__ == "__main__":
    unittest.main()
