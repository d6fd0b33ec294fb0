# SPDX-License-Identifier: Apache-2.0
"""Reproducing figures: runs, objectives, claims, drawings, files, and the command line."""

import csv
import io
import os
import tempfile
import tomllib
import unittest
import xml.dom.minidom
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import fake_sim
from rubato_lab.reproduce import claims, figure, machines, main, output, plot, simulator, slo
from rubato_lab.reproduce.claims import Claim

FAKE = Path(__file__).resolve().with_name("fake_sim.py")
BINARY = os.environ.get("RUBATO_BINARY")
SCENARIO = simulator.Scenario("synergy", 14, "zippydb", settings=(("stealing", "off"),), flows="8")


def fake(effort=simulator.QUICK, **more):
    return simulator.Simulator(FAKE, effort, Path("costs"), **more)


def run_at(load, policy="synergy", lost=0):
    return simulator.Run(fake_sim.report(policy, load, 1000, lost))


class InMemory:
    """A simulator without processes."""

    effort = simulator.QUICK
    runs = 0

    def run(self, scenario, load=None, rate_rps=None):
        return run_at(load if load is not None else rate_rps / fake_sim.CAPACITY_RPS,
                      scenario.policy)


def small_figure(policies=("synergy", "cfcfs")):
    lines = tuple(figure.over_loads(p, SCENARIO.having(policy=p), figure.loads(0.1, 0.9, 0.1))
                  for p in policies)
    panel = figure.Panel("p99.9 slowdown", lambda run: run.slowdown(), (50, "objective: 50"))
    return figure.Figure("small-1", "A <small> figure", "nowhere, Fig. 1", "load", lines, (panel,),
                         lambda sim: [Claim("c", "1", 10, sim.run(SCENARIO, 0.9).slowdown())])


class Simulating(unittest.TestCase):
    def test_a_command_names_everything_of_the_run(self):
        words = fake().command(SCENARIO, simulator.Offered(load=0.5))
        text = " ".join(words[1:])
        self.assertIn("sim --policy synergy --workers 14 --workload zippydb --costs ideal", text)
        self.assertIn("--classify feedback --set stealing=off --flows 8 --load 0.5", text)
        self.assertIn("--requests 1000000", text)
        self.assertNotIn("--seeds", text)
        full = " ".join(fake(simulator.FULL).command(SCENARIO, simulator.Offered(rate_rps=843e3)))
        self.assertIn("--rate 843000", full)
        heavy = fake().command(SCENARIO.having(weight=4), simulator.Offered(load=0.5))
        self.assertIn("--requests 4000000", " ".join(heavy))
        self.assertIn("--seeds 3", full)

    def test_what_was_run_is_not_run_again(self):
        sim = fake()
        runs = simulator.concurrently([lambda: sim.run(SCENARIO, 0.5)] * 4)
        self.assertEqual(sim.runs, 1)
        self.assertEqual(runs[0].slowdown(), 2.0)
        sim.run(SCENARIO, 0.25)
        self.assertEqual(sim.runs, 2)

    def test_failures_are_one_line_with_the_command(self):
        for trouble, said in (("fails", "exit 1: sim: --load takes"), ("rubbish", "no JSON")):
            with mock.patch.dict(os.environ, {"FAKE_SIM": trouble}):
                with self.assertRaisesRegex(simulator.SimulatorError, said):
                    fake().run(SCENARIO, 0.5)
        missing = simulator.Simulator("/does/not/exist", simulator.QUICK, Path("costs"))
        with self.assertRaisesRegex(simulator.SimulatorError, "/does/not/exist sim"):
            missing.run(SCENARIO, 0.5)

    def test_a_run_tells_loss_and_avoided_preemptions(self):
        self.assertEqual(run_at(0.5, lost=10).loss, 0.01)
        self.assertEqual(run_at(0.5).avoided(), 0.75)
        self.assertEqual(run_at(0.5).worst_slowdown(), 4.0)
        self.assertEqual(run_at(0.5).shortest()["name"], "short")
        self.assertIsNone(run_at(0.5).half_width("slowdown", "p999"))
        self.assertIsNone(run_at(0.5).utilization_gap())

    def test_a_run_tells_its_confidence_and_the_spread_over_workers(self):
        report = fake_sim.report("synergy", 0.5, 1000)
        report["confidence"] = {"level": 0.95, "slowdown": {"p999": 0.25}}
        report["simulation"] = {"worker_utilization": [0.25, 0.75, 0.5]}
        run = simulator.Run(report)
        self.assertEqual(run.half_width("slowdown", "p999"), 0.25)
        self.assertIsNone(run.half_width("latency_us", "p999"))
        self.assertEqual(run.utilization_gap(), 0.5)


class Objectives(unittest.TestCase):
    def test_bisection_finds_the_highest_load(self):
        best = slo.highest(InMemory(), SCENARIO, slo.Slo(10))
        self.assertAlmostEqual(best.load, 0.9, delta=simulator.QUICK.tolerance)
        self.assertLessEqual(best.slowdown(), 10)

    def test_an_objective_per_type_takes_the_worst(self):
        best = slo.highest(InMemory(), SCENARIO, slo.Slo(10, per_type=True))
        self.assertAlmostEqual(best.load, 0.8, delta=simulator.QUICK.tolerance)

    def test_an_objective_that_nothing_meets_has_no_load(self):
        self.assertIsNone(slo.highest(InMemory(), SCENARIO, slo.Slo(0.5)))

    def test_loss_breaks_an_objective(self):
        self.assertTrue(slo.Slo(10).is_met(run_at(0.5, lost=1)))
        self.assertFalse(slo.Slo(10).is_met(run_at(0.5, lost=2)))


class Claims(unittest.TestCase):
    def test_a_number_holds_within_15_per_cent(self):
        self.assertTrue(Claim("a", "1", 100, 114).holds)
        self.assertFalse(Claim("a", "1", 100, 84).holds)
        self.assertEqual(Claim("a", "1", 100, None).verdict, claims.NOT_YET)

    def test_bounds_hold_on_their_side(self):
        self.assertTrue(Claim("a", "1", 50, 30, kind=claims.AT_MOST).holds)
        self.assertFalse(Claim("a", "1", 0.9, 0.8, kind=claims.AT_LEAST).holds)

    def test_an_order_holds_if_all_neighbours_rise(self):
        self.assertTrue(claims.in_order("o", "1", {"a": 1, "b": 2, "c": 3}).holds)
        half = claims.in_order("o", "1", {"a": 1, "b": 3, "c": 2})
        self.assertEqual((half.holds, half.ours), (False, 0.5))
        self.assertIsNone(claims.in_order("o", "1", {"a": 1, "b": None}).holds)

    def test_the_table_has_paper_ours_and_ratio(self):
        lines = claims.table([Claim("c-FCFS", "2", 2.1, 2.2, "Mrps"),
                              Claim("DARC", "2", 5.1, None, "Mrps")])
        self.assertRegex(lines[2], r"c-FCFS +2.1 Mrps +2.2 Mrps +1.05  within 15 %")
        self.assertRegex(lines[3], r"DARC +5.1 Mrps +- +-  not yet")
        self.assertEqual(len(claims.markdown([Claim("a", "1", 1, 1)])), 3)


class Figures(unittest.TestCase):
    def test_quick_runs_keep_the_last_of_every_second_point(self):
        self.assertEqual(figure.chosen((1, 2, 3, 4), 2), (2, 4))
        self.assertEqual(figure.loads(0.1, 0.4, 0.1), (0.1, 0.2, 0.3, 0.4))

    def test_lines_of_policies_that_do_not_exist_are_told(self):
        there = figure.without_missing(small_figure(), {"synergy"})
        self.assertEqual([line.name for line in there.lines], ["synergy"])
        self.assertEqual(there.not_yet, ("cfcfs",))

    def test_a_drawing_is_xml_and_names_its_lines(self):
        drawn = figure.simulate(small_figure(), InMemory())
        text = plot.draw(drawn)
        xml.dom.minidom.parseString(text)
        for words in ("synergy", "cfcfs", "objective: 50", "A &lt;small&gt; figure"):
            self.assertIn(words, text)

    def test_the_csv_has_a_row_per_point(self):
        drawn = figure.simulate(small_figure(), InMemory())
        file = io.StringIO()
        output.write_csv(drawn, file)
        rows = list(csv.DictReader(io.StringIO(file.getvalue())))
        self.assertEqual(len(rows), 10)
        self.assertEqual((rows[0]["line"], rows[0]["x"]), ("synergy", "10"))
        self.assertEqual(rows[-1]["slowdown_p999"], "20")

    def test_every_figure_of_the_catalogue_has_lines_and_a_source(self):
        found = main.catalogue()
        for wanted in ("4.1", "6.1", "6.2", "6.3", "6.5", "6.6", "6.8", "6.9"):
            self.assertIn(f"synergy-{wanted}", found)
        for wanted in ("1", "10"):
            self.assertIn(f"persephone-{wanted}", found)
        for wanted in ("3", "4", "5", "5b", "6", "7", "8", "table-1", "table-2", "stalls",
                       "bursts"):
            self.assertIn(f"coresync-{wanted}", found)
        for one in found.values():
            self.assertTrue(one.lines and one.panels and "Fig." in one.source or
                            one.id == "synergy-summary", one.id)

    def test_every_machine_of_the_catalogue_exists(self):
        for one in main.catalogue().values():
            for line in one.lines:
                name = line.points[0].scenario.costs
                there = (machines.BUILTIN / f"{name}.toml").is_file()
                self.assertTrue(there or name in machines.derived(), name)

    def test_derived_machines_differ_in_what_they_say(self):
        base = machines.text_of("same", machines.SYNERGY, {})
        other = machines.text_of("other", machines.SYNERGY, {"nic": {"delivery": "direct"}})
        one, two = tomllib.loads(base), tomllib.loads(other)
        self.assertEqual(two["nic"]["delivery"], "direct")
        self.assertEqual(two["machine"]["name"], "other")
        one["nic"]["delivery"], one["machine"]["name"] = "direct", "other"
        self.assertEqual(one, two)


class CommandLine(unittest.TestCase):
    def reproduce(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                status = main.main(list(words))
            except SystemExit as end:
                status = end.code
        return status, out.getvalue(), err.getvalue()

    def test_it_lists_the_figures(self):
        status, out, _ = self.reproduce()
        self.assertEqual(status, 0)
        self.assertIn("synergy-6.5", out)

    def test_an_unknown_figure_is_a_bad_argument(self):
        status, _, err = self.reproduce("synergy-9.9")
        self.assertEqual(status, 2)
        self.assertIn("not 'synergy-9.9'", err)
        self.assertEqual(self.reproduce("all", "--requests", "0")[0], 2)

    def test_a_figure_leaves_csv_svg_and_claims(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = self.reproduce(
                "persephone-1", "--quick", "--binary", str(FAKE), "--out", folder,
                "--markdown", f"{folder}/claims.md")
            self.assertEqual((status, err), (0, ""))
            for name in ("persephone-1.csv", "persephone-1.svg", "persephone-1.claims.csv",
                         "claims.md", "costs/preemption-1us.toml"):
                self.assertTrue((Path(folder) / name).is_file(), name)
        self.assertIn("c-FCFS: throughput within 10 for each type", out)
        self.assertRegex(out, r"not yet: .*DARC")

    def test_a_simulator_that_fails_is_status_1_and_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            status, _, err = self.reproduce("persephone-1", "--quick", "--out", folder,
                                            "--binary", "/does/not/exist")
        self.assertEqual(status, 1)
        self.assertEqual(err.count("\n"), 1)

    @unittest.skipUnless(BINARY and Path(BINARY).is_file(), "RUBATO_BINARY names no program")
    def test_the_real_simulator_reproduces_a_tiny_figure(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = self.reproduce("persephone-1", "--quick", "--requests", "20000",
                                              "--binary", BINARY, "--out", folder)
            self.assertEqual((status, err), (0, ""))
            rows = (Path(folder) / "persephone-1.csv").read_text(encoding="utf-8").splitlines()
        self.assertGreater(len(rows), 30)
        self.assertIn("claims hold", out)


if __name__ == "__main__":
    unittest.main()
