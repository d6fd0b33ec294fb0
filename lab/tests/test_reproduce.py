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
from dataclasses import replace
from pathlib import Path
from unittest import mock

import fake_sim
from rubato_lab import style
from rubato_lab.reproduce import (claims, figure, machines, main, output, page, papers, plot,
                                  probes, records, simulator, slo)

FAKE = Path(__file__).resolve().with_name("fake_sim.py")
BINARY = os.environ.get("RUBATO_BINARY")
SCENARIO = simulator.Scenario("synergy", 14, "zippydb", settings=(("stealing", "off"),), flows="8")


def fake(effort=simulator.QUICK, **more):
    return simulator.Simulator(FAKE, effort, Path("costs"), **more)


def run_at(load, policy="synergy", lost=0):
    return simulator.Run(fake_sim.report(policy, load, 1000, lost))


class Runs(unittest.TestCase):
    def test_outcomes_are_those_of_one_seed(self):
        report = fake_sim.report("altocumulus", 0.9, 1000, 0)
        report["simulation"] = {"seeds": 3}
        report["outcomes"] = {"limit_us": 10.0, "moved": 600, "harmful": 3}
        self.assertEqual(simulator.Run(report).outcomes(), {"moved": 200, "harmful": 1})

    def test_windows_without_a_request_of_a_type_are_left_out(self):
        report = fake_sim.report("fcfs", 0.5, 1000)
        report["over_time"] = {"window_us": 10.0, "windows": [
            {"from_us": 0.0, "types": [{"name": "a", "count": 2, "p50_us": 3.0, "p999_us": 4.0}]},
            {"from_us": 10.0, "types": [{"name": "a", "count": 0, "p50_us": 0.0, "p999_us": 0.0}]},
            {"from_us": 20.0, "types": [{"name": "a", "count": 1, "p50_us": 5.0, "p999_us": 5.0}]}]}
        run = simulator.Run(report)
        self.assertEqual(run.over_time("a"), {0.0: 4.0, 20.0: 5.0})
        self.assertEqual(run.over_time("a", "p50"), {0.0: 3.0, 20.0: 5.0})


class InMemory:
    """A simulator without processes."""

    effort = simulator.QUICK
    runs = 0

    def each_seed(self):
        return [self]

    def run(self, scenario, load=None, rate_rps=None):
        return run_at(load if load is not None else rate_rps / fake_sim.CAPACITY_RPS,
                      scenario.policy)


def small_figure(policies=("synergy", "cfcfs")):
    lines = tuple(figure.over_loads(p, SCENARIO.having(policy=p), figure.loads(0.1, 0.9, 0.1))
                  for p in policies)
    panel = figure.Panel("p99.9 slowdown", lambda run: run.slowdown(), (50, "objective: 50"))
    return figure.Figure("small-1", "A <small> figure", "nowhere, Fig. 1", "load", lines, (panel,),
                         lambda sim: [claims.value("c", "1", 10,
                                                   sim.run(SCENARIO, 0.9).slowdown())])


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

    def test_each_seed_is_run_by_itself_and_counted_with_the_others(self):
        sim = fake(simulator.FULL, seed=5)
        ones = sim.each_seed()
        commands = [" ".join(one.command(SCENARIO, simulator.Offered(load=0.5))) for one in ones]
        for seed, command in zip((5, 6, 7), commands, strict=True):
            self.assertIn(f"--seed {seed} ", command)
            self.assertNotIn("--seeds", command)
        for one in ones:
            one.run(SCENARIO, 0.5)
        self.assertEqual((sim.runs, ones[0].runs), (3, 3))

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
    def test_a_ratio_is_held_to_half_of_its_effect_and_at_most_to_15_per_cent(self):
        self.assertTrue(claims.ratio("a", "1", 0.975, 0.985).holds)
        self.assertFalse(claims.ratio("a", "1", 0.975, 0.99).holds)
        self.assertTrue(claims.ratio("a", "1", 24.6, 22).holds)
        self.assertFalse(claims.ratio("a", "1", 24.6, 20).holds)

    def test_equal_systems_have_no_ratio_but_one(self):
        for paper in (0.975, 1.002, 1.7, 24.6):
            self.assertIs(claims.ratio("a", "1", paper, paper).null_holds, False)
        self.assertTrue(claims.same("a", "1", 1.04).null_holds)
        self.assertTrue(claims.ratio("twice the workers", "1", 2, 2.1, null=2).null_holds)

    def test_a_system_is_held_to_half_of_the_way_to_the_next_one(self):
        said = {"A": 266, "B": 239, "C": 239}
        found = claims.systems("x", "1", said, {"A": 280, "B": 251, "C": 253, "D": 100})
        self.assertEqual([c.tolerance for c in found], [13.5, 13.5, 13.5])
        self.assertEqual([c.holds for c in found], [False, True, False])
        self.assertAlmostEqual(found[0].null, (280 * 251 * 253 * 100) ** 0.25)
        self.assertEqual([c.null_holds for c in found], [False] * 3)

    def test_a_system_of_its_own_is_as_good_as_the_null_model(self):
        alone, = claims.systems("x", "1", {"A": 100}, {"A": 114})
        self.assertTrue(alone.holds and alone.null_holds)
        self.assertFalse(claims.value("x", "1", 100, 84).null_holds)

    def test_what_prices_were_fitted_to_is_not_judged(self):
        fitted, = claims.systems("x", "1", {"A": 100}, {"A": 100}, fitted={"A": "send"})
        self.assertEqual((fitted.holds, fitted.null_holds, fitted.verdict),
                         (None, None, claims.FITTED))
        self.assertEqual(claims.value("a", "1", 100, None).verdict, claims.NOT_YET)

    def test_bounds_hold_on_their_side(self):
        self.assertTrue(claims.bound("a", "1", claims.AT_MOST, 50, 30).holds)
        self.assertFalse(claims.bound("a", "1", claims.AT_LEAST, 0.9, 0.8).holds)

    def test_an_order_holds_if_all_neighbours_rise(self):
        self.assertTrue(claims.in_order("o", "1", {"a": 1, "b": 2, "c": 3}).holds)
        half = claims.in_order("o", "1", {"a": 1, "b": 3, "c": 2})
        self.assertEqual((half.holds, half.ours, half.null_holds), (False, 0.5, False))
        self.assertIsNone(claims.in_order("o", "1", {"a": 1, "b": None}).holds)

    def test_what_sustains_nothing_misses(self):
        miss, = claims.ratios("x", "1", {"B": 1.4}, 3.0, {"B": 0})
        self.assertEqual((miss.ours, miss.holds), (0.0, False))

    def test_a_score_counts_what_the_null_model_would_not_hold(self):
        found = [claims.ratio("a", "1", 2, 2), claims.same("b", "1", 1),
                 claims.ratio("c", "1", 2, 1), claims.value("d", "1", 1, None)]
        self.assertEqual(claims.score(found),
                         claims.Score(judged=3, hold=2, null=1, beyond=1, differ=0))

    def test_seeds_are_joined_by_their_median_and_each_is_judged(self):
        one, = claims.of_seeds([[claims.ratio("a", "1", 2, ours)] for ours in (2.2, 1.0, 1.9)])
        self.assertEqual((one.ours, one.each, one.holds), (1.9, (2.2, 1.0, 1.9), True))
        self.assertEqual((one.agreeing, one.differs), (2, True))
        self.assertEqual(claims.cells(one)[-1], "holds, 2 of 3 seeds")
        same, = claims.of_seeds([[claims.ratio("a", "1", 2, ours)] for ours in (2.2, 2.1, 1.9)])
        self.assertEqual((same.differs, claims.cells(same)[-1]), (False, "holds"))
        self.assertEqual(claims.score([one, same]), claims.Score(2, 2, 0, 2, differ=1))

    def test_one_seed_says_nothing_of_others(self):
        alone, = claims.of_seeds([[claims.ratio("a", "1", 2, 1.9)]])
        self.assertEqual((alone.each, alone.agreeing, alone.differs), ((), None, False))

    def test_a_seed_that_gives_nothing_leaves_the_claim_open(self):
        found, = claims.of_seeds([[claims.value("a", "1", 2, ours)] for ours in (2, None)])
        self.assertEqual((found.verdict, found.agreeing), (claims.NOT_YET, None))

    def test_the_table_has_paper_tolerance_ours_and_null(self):
        lines = claims.table(claims.systems("rate", "2", {"c-FCFS": 2.1, "DARC": 5.1},
                                            {"c-FCFS": 2.2}, "Mrps"))
        self.assertRegex(lines[2], r"c-FCFS: rate +2.1 Mrps +± 0.3[12] +2.2 Mrps +as ours ✓  holds")
        self.assertRegex(lines[3], r"DARC: rate +5.1 Mrps .* not yet")


class Records(unittest.TestCase):
    def test_what_is_kept_is_what_was_found(self):
        found = {"a-1": records.Record(1000, 2, (
                     claims.ratio("x", "1", 2, 1.9),
                     *claims.of_seeds([[claims.ratio("y", "1", 2, ours)] for ours in (1, 2.0)])),
                     (probes.Probe("without y", 1.5, "us"), probes.Probe("z", None))),
                 "a-2": records.Record(1000, 1, ())}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.jsonl"
            records.save(found, ["a-2", "a-1"], path)
            self.assertEqual(records.load(path), found)
            self.assertEqual(list(records.load(path)), ["a-2", "a-1"])
            self.assertEqual(records.load(Path(folder) / "none"), {})

    def test_a_page_without_records_is_stale(self):
        with self.assertRaisesRegex(page.Stale, "no record of .*synergy-6.5.*--write"):
            page.checked({})
        kept = {name: records.Record(1, 1, ()) for name in main.catalogue()}
        with self.assertRaisesRegex(page.Stale, "has gone-1, which no figure is"):
            page.checked(kept | {"gone-1": records.Record(1, 1, ())})

    def test_the_page_has_every_figure_and_what_is_missing(self):
        kept = {name: records.Record(10**6, 1, (claims.ratio("x", "1", 2, 1.9),))
                for name in main.catalogue()}
        text = "\n".join(page.figures(kept))
        for name in kept:
            self.assertIn(f"### {name}: ", text)
        self.assertIn("| x | 1 | 2 | ± 0.3 | 1.9 | 1 | ✓ |", text)
        self.assertIn("what cannot be had", text)
        self.assertIn(f"| **all** | {len(kept)} | {len(kept)} | 0 | {len(kept)} | 0 |",
                      "\n".join(page.scores(kept)))

    def test_the_page_tells_what_isolates_a_cause(self):
        found = probes.of_seeds([[probes.Probe("no lock", ours, "krps")] for ours in (3, 1, 2)])
        kept = {name: records.Record(10**6, 3, (), tuple(found)) for name in main.catalogue()}
        text = "\n".join(page.figures(kept))
        self.assertIn("| run that isolates a cause | ours |\n|---|---|\n| no lock | 2 krps |", text)

    def test_the_page_tells_verdicts_that_differ_by_seed(self):
        found = claims.of_seeds([[claims.ratio("x", "1", 2, ours)] for ours in (1.9, 1.8, 1.0)])
        kept = {name: records.Record(10**6, 3, tuple(found)) for name in main.catalogue()}
        text = "\n".join(page.figures(kept))
        self.assertIn("| x | 1 | 2 | ± 0.3 | 1.8 | 1 | ✓, 2 of 3 seeds |", text)
        self.assertIn("1 million requests a run, 3 seeds.", text)
        together = claims.ratio("x", "1", 2, 1.9)
        kept = {name: records.Record(10**6, 3, (together,)) for name in main.catalogue()}
        self.assertIn("3 seeds, judged together.", "\n".join(page.figures(kept)))

    def test_a_number_that_a_price_was_fitted_to_is_judged_nowhere(self):
        for paper in papers.papers():
            found = [c for f in paper.figures for c in records.load()[f.id].claims if c.unit]
            fitted = {(c.paper, c.unit) for c in found if c.fitted}
            self.assertEqual([c.what for c in found
                              if c.holds is not None and (c.paper, c.unit) in fitted], [])

    def test_no_result_is_held_to_a_bound_on_either_side(self):
        for name, record in records.load().items():
            least = {c.ours for c in record.claims if c.kind == claims.AT_LEAST}
            most = {c.ours for c in record.claims if c.kind == claims.AT_MOST}
            self.assertEqual(least & most - {0.0}, set(), name)

    def test_prices_that_were_fitted_are_told_in_their_cost_file(self):
        for record in records.load().values():
            for one in (c for c in record.claims if c.fitted):
                machine = one.fitted.split(",")[0]
                text = (machines.BUILTIN / f"{machine}.toml").read_text(encoding="utf-8")
                self.assertIn("fitted", text, one.what)


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
        text = style.svg(plot.draw(drawn))
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
        for paper, wanted in (("synergy", ("4.1", "6.1", "6.2", "6.3", "6.5", "6.6", "6.7", "6.8",
                                           "6.9")),
                              ("persephone", ("1", "3", "4", "5a", "5b", "6", "7", "8", "9", "10")),
                              ("sbb", ("3", "4", "8", "9", "11", "11d", "13")),
                              ("altocumulus", ("10", "11", "12", "13", "14")),
                              ("coresync", ("1", "3", "4", "5", "5b", "6", "7", "8", "table-1",
                                            "table-2"))):
            for number in wanted:
                self.assertIn(f"{paper}-{number}", found)
        for one in found.values():
            self.assertTrue("Fig." in one.source and bool(one.lines) == bool(one.panels), one.id)

    def test_a_figure_is_probed_beside_its_claims(self):
        probed = replace(small_figure(), probe=lambda sim: [
            probes.Probe("without", sim.run(SCENARIO, 0.9).slowdown())])
        drawn = figure.simulate(probed, fake(simulator.FULL), claims_only=True)
        self.assertAlmostEqual(drawn.probes[0].ours, 10)
        self.assertIn("  without: 10", output.told(drawn))

    def test_a_loser_at_one_load_is_not_less_everywhere(self):
        self.assertTrue(claims.everywhere("a", "1", (1, 2), (2, 3)).holds)
        once = claims.everywhere("a", "1", (1, 3, 2), (2, 3, 4))
        self.assertEqual((round(once.ours, 3), once.holds, once.null_holds), (0.667, False, False))

    def test_a_figure_is_judged_with_each_seed(self):
        drawn = figure.simulate(small_figure(), fake(simulator.FULL), claims_only=True)
        self.assertEqual([len(one.each) for one in drawn.claims], [3])
        file = io.StringIO()
        output.write_claims(drawn, file)
        row, = csv.DictReader(io.StringIO(file.getvalue()))
        self.assertEqual(row["each_seed"], "10 10 10")

    def test_claims_alone_draw_nothing(self):
        drawn = figure.simulate(small_figure(), InMemory(), claims_only=True)
        self.assertEqual((drawn.curves, len(drawn.claims)), ({}, 1))
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual([path.name for path in output.save(drawn, Path(folder))],
                             ["small-1.claims.csv"])

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
        status, _, err = self.reproduce("all", "--requests", "999")
        self.assertEqual(status, 2)
        self.assertIn("--requests takes a whole number from 1000 on, not 999", err)
        status, _, err = self.reproduce("all", "--seed", "-1")
        self.assertEqual(status, 2)
        self.assertIn("--seed takes a whole number from 0 to", err)

    def test_a_figure_leaves_csv_svg_and_claims(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = self.reproduce(
                "persephone-1", "--quick", "--binary", str(FAKE), "--out", folder)
            self.assertEqual((status, err), (0, ""))
            for name in ("persephone-1.csv", "persephone-1.svg", "persephone-1.claims.csv",
                         "costs/preemption-1us.toml"):
                self.assertTrue((Path(folder) / name).is_file(), name)
        self.assertIn("c-FCFS: throughput within 10 for each type", out)
        self.assertRegex(out, r"not yet: .*DARC")

    def test_without_matplotlib_one_line_says_so_before_a_run(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict("sys.modules", {"matplotlib": None}):
            status, out, err = self.reproduce("persephone-1", "--binary", str(FAKE),
                                              "--out", folder)
            self.assertEqual((status, out, os.listdir(folder)), (1, "", []))
        self.assertRegex(err, "^reproduce: this needs matplotlib: .*python3-matplotlib.*\n$")

    def test_a_simulator_that_fails_is_status_1_and_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            status, _, err = self.reproduce("persephone-1", "--quick", "--out", folder,
                                            "--binary", "/does/not/exist")
        self.assertEqual(status, 1)
        self.assertEqual(err.count("\n"), 1)

    @unittest.skipUnless(BINARY and Path(BINARY).is_file(), "RUBATO_BINARY names no program")
    def test_the_real_simulator_reproduces_a_tiny_figure(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = self.reproduce("sbb-4", "--quick", "--requests", "20000",
                                              "--binary", BINARY, "--out", folder)
            self.assertEqual((status, err), (0, ""))
            rows = (Path(folder) / "sbb-4.csv").read_text(encoding="utf-8").splitlines()
        self.assertGreater(len(rows), 20)
        self.assertIn("claims hold", out)


if __name__ == "__main__":
    unittest.main()
