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

    def world(self, load, more=""):
        """Four servers with four workers, for two seconds."""
        file = tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8")
        self.addCleanup(file.close)
        file.write(f'length = "2s"\n[[servers]]\ncount = 4\nworkers = 4\npolicy = "cfcfs"\n'
                   f'[[clients]]\nworkload = "a:exp(1ms):1"\nload = {load}\n{more}\n')
        file.flush()
        return file.name

    def test_a_run_says_how_far_it_can_be_trusted(self):
        steady, overloaded = self.world(0.5), self.world(1.2)
        text = rubato("fleet", steady)
        self.assertRegex(text, r"(?m)^steady\nstart-up of \S+ left out: \d+ calls\n\Z")
        self.assertRegex(text, r"served \S+ k?rps\+-\S+ k?rps \(100.00\+-0.00 %\), "
                               r"failed 0.00\+-0.00 %")
        self.assertRegex(text, r"attempts per request 1.000\+-0.000: ")
        self.assertRegex(text, r"busy \d+\.\d\+-\d+\.\d % \(\d+\.\d\+-")
        text = rubato("fleet", overloaded)
        self.assertRegex(text, r"(?m)^overloaded: 1.2 of the capacity is offered")
        self.assertTrue(text.endswith("INVALID run: overloaded\n"), text)
        for args in ([], ["--seeds", "2"]):
            report = json.loads(rubato("fleet", overloaded, "--json", "-", *args))
            self.assertIs(report["valid"], False)
            self.assertEqual((report["verdict"], report["invalid_reason"]),
                             ("overloaded", "overloaded"))
            self.assertIn("latency_us", report["confidence"]["clients"][0])
        report = json.loads(rubato("fleet", steady, "--json", "-"))
        self.assertEqual((report["verdict"], report["valid"]), ("steady", True))
        self.assertNotIn("invalid_reason", report)

    def test_what_a_run_is_too_short_for_is_named(self):
        text = rubato("fleet", self.world(0.5), "--length", "0.01")
        self.assertRegex(text, r"too few calls to know .*p99.9 of all: give a longer --length")
        self.assertRegex(text, r"(?m)^  all .*\+-\?")

    def test_keys_that_nothing_reads_are_one_line(self):
        for more, keys in (("users = 3", "load does not go with users"),
                           ('think = "1ms"', "think needs users"),
                           ("priorities = {a = 1}", "priorities: no server looks")):
            status, text = refused("fleet", self.world(0.5, more=more))
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertIn(keys, text)

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
