# SPDX-License-Identifier: Apache-2.0
"""Pages of runs: what they say, and what they refuse."""

import io
import json
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from html import unescape
from pathlib import Path
from unittest import mock

from rubato_lab.report import chart, library, main, runs, sweeps
from rubato_lab.report.page import Page
from samples import run_object


def compared():
    return [run_object(policy=policy, load=load)
            for policy in ("ps", "synergy") for load in (0.5, 0.7)]


class Names(unittest.TestCase):
    def test_runs_are_told_apart_by_what_differs(self):
        self.assertEqual(runs.names(compared()), ["ps, load 0.5", "ps, load 0.7",
                                                  "synergy, load 0.5", "synergy, load 0.7"])
        live = [run_object(live=True), run_object(live=True) | {"loop": "closed"}]
        self.assertEqual(runs.names(live), ["open loop", "closed loop"])

    def test_runs_that_do_not_differ_are_numbered(self):
        self.assertEqual(runs.names([run_object(), run_object()]), ["ps (1)", "ps (2)"])


class Charts(unittest.TestCase):
    def test_a_figure_by_load_has_a_line_for_each_policy_with_its_intervals(self):
        found = compared()
        for run in found:
            run["confidence"] = {"latency_us": {"p99": 2.5}}
        drawn = runs.against_load(found).to_object()
        self.assertEqual(drawn["names"], ["ps", "synergy"])
        p99 = found[0]["latency_us"]["p99"]
        self.assertEqual(drawn["rows"][0], [0.5, [p99 - 2.5, p99, p99 + 2.5]] + [
            [p99 - 2.5, p99, p99 + 2.5]])

    def test_runs_of_other_workloads_or_settings_are_other_lines(self):
        found = compared()[:2]
        others = [run | {"workload": "other"} for run in found]
        costly = [run | {"cost_model": "costly"} for run in found]
        drawn = runs.against_load(found + others + costly)
        self.assertEqual([len(line.points) for line in drawn.lines], [2, 2, 2])
        self.assertEqual(len({line.name for line in drawn.lines}), 3)

    def test_live_runs_stay_beside_simulated_ones_of_several_loads(self):
        found = [*compared(), run_object(live=True)]
        drawn = runs.distribution(found, runs.names(found))
        self.assertEqual([line.name for line in drawn.lines],
                         [runs.names(found)[i] for i in (1, 3, 4)])
        self.assertIn("0.7", drawn.note)

    def test_a_type_named_all_is_not_all_types(self):
        run = run_object()
        run["types"][0]["name"] = "all"
        drawn = runs.distribution([run], ["x"])
        self.assertEqual([line.name for line in drawn.lines], ["all", "range", "all types"])

    def test_one_load_makes_no_figure_by_load(self):
        self.assertTrue(runs.against_load([run_object(load=0.5)]).is_empty)

    def test_lines_of_different_points_share_the_axis(self):
        drawn = chart.Chart("", chart.Axis(""), chart.Axis("", scale=chart.LOGARITHMIC), (
            chart.Line("a", ((1, 2), (3, 4))), chart.Line("none", ()),
            chart.Line("b", ((2, 5), (3, 0))))).to_object()
        self.assertEqual(drawn["names"], ["a", "b"])
        self.assertEqual(drawn["rows"], [[1, 2, None], [2, None, 5], [3, 4, None]])

    def test_of_one_run_each_type_is_a_line(self):
        drawn = runs.distribution([run_object()], ["x"])
        self.assertEqual([line.name for line in drawn.lines], ["get", "range", "all"])
        shares = [share for _, share in drawn.lines[2].points]
        self.assertEqual(shares, sorted(shares, reverse=True))


class Pages(unittest.TestCase):
    def test_an_invalid_run_is_told_first(self):
        bad = run_object(live=True) | {"valid": False, "invalid_reason": "fell <behind>"}
        body = runs.page([bad]).body()
        self.assertIn("INVALID: fell &lt;behind&gt;", body)
        self.assertLess(body.index("INVALID"), body.index("<figure"))

    def test_live_and_simulated_runs_together_are_told(self):
        made = runs.page([run_object(live=True), *compared()[:2]])
        self.assertIn("requests, live and simulated.", made.body())
        self.assertNotIn("at several loads", made.title)

    def test_it_has_noise_settings_and_a_command(self):
        body = unescape(runs.page([run_object(live=True)]).body())
        for part in ("stolen CPU", "made up, 2 cores", "rubato load --target resp://127.0.0.1:6400",
                     "p99 over the run"):
            self.assertIn(part, body)
        simulated = unescape(runs.page(compared()).body())
        self.assertIn("rubato sim --policy synergy --workers 4", simulated)
        self.assertNotIn("stolen CPU", simulated)

    def test_it_is_self_contained_whatever_a_name_holds(self):
        with mock.patch.object(library, "texts", lambda: ("LIBRARY", "STYLE")):
            page = Page("</script><b>")
            page.chart(chart.Chart("t", chart.Axis(""), chart.Axis(""), (
                chart.Line("</script><script>alert(1)", ((1, 1), (2, 2))),)))
            html = page.html()
        self.assertNotIn("alert(1)</", html)
        self.assertEqual(html.count("</script>"), 3)
        self.assertNotRegex(html, r'(src|href)=|@import|url\(')


def points():
    return [sweeps.Point({"policy": policy, "load": load}, 2, [(9.0 + i, 1.5), (20.0, None)],
                         float(load), 1000.0, i != 3, [["policy", [policy]]])
            for i, (policy, load) in enumerate((p, x) for p in ("ps", "fcfs")
                                               for x in ("0.5", "0.7"))]


class Sweeps(unittest.TestCase):
    METRICS = ["latency_us_p99", "slowdown_p99"]

    def test_lines_are_the_other_axes_with_their_intervals(self):
        drawn = sweeps.figure(self.METRICS[0], points(), 0).to_object()
        self.assertEqual(drawn["names"], ["ps", "fcfs"])
        self.assertEqual(drawn["rows"][0], [0.5, [7.5, 9.0, 10.5], [9.5, 11.0, 12.5]])

    def test_without_an_axis_of_numbers_there_is_the_table_alone(self):
        one = [point for point in points() if point.axes["load"] == "0.5"]
        self.assertTrue(sweeps.figure(self.METRICS[0], one, 0).is_empty)

    def test_the_page_tells_points_and_what_is_not_valid(self):
        body = unescape(sweeps.page("a.store", {"points": ["x"] * 9, "version": "1"},
                                    self.METRICS, points()).body())
        for part in ("4 of 9 points, 8 runs", "1 points have runs", "± 1.5 µs",
                     "policy fcfs, load 0.7 (invalid)", "rubato sim --policy ps"):
            self.assertIn(part, body)


class Command(unittest.TestCase):
    def call(self, *args):
        said, told = io.StringIO(), io.StringIO()
        with redirect_stderr(said), redirect_stdout(told):
            status = main.main(args)
        return status, said.getvalue(), told.getvalue()

    def test_files_that_are_no_reports_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "a.json")
            for text, what in (("{", "no JSON"), ("[]", "rubato.run/1"),
                               ('{"schema": "rubato.sweep/1", "runs": []}', "rubato.run/1"),
                               ('{"schema": "rubato.run/1"}', "a.json: a run lacks 'kind'"),
                               (json.dumps(run_object() | {"types": 7}), "a.json: a field"),
                               (json.dumps(run_object() | {"load": "x"}), "a.json: a field"),
                               (json.dumps(run_object() | {"latency_us": []}), "a.json: a field"),
                               (json.dumps(run_object() | {"confidence": 3}), "a.json: a field")):
                file.write_text(text, encoding="utf-8")
                status, said, _ = self.call(str(file))
                self.assertEqual(status, 2, said)
                self.assertRegex(said, f"^rubato: .*{what}.*\n$")
        self.assertEqual(self.call("/nowhere/a.json")[0], 2)

    def test_several_files_are_one_page(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(library, "texts", lambda: ("LIBRARY", "STYLE")):
            files = []
            for i, run in enumerate(compared()):
                files.append(str(Path(folder, f"{i}.json")))
                Path(files[-1]).write_text(json.dumps(run), encoding="utf-8")
            status, _, told = self.call(*files, "--output", "-")
        self.assertEqual(status, 0)
        self.assertIn("ps, synergy on get:0.99,range:0.01 at several loads", told)

    def test_a_missing_library_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(library, "PLACES", ()):
            file = Path(folder, "a.json")
            file.write_text(json.dumps(run_object()), encoding="utf-8")
            status, said, _ = self.call(str(file), "--output", f"{folder}/r.html")
        self.assertEqual(status, 1)
        self.assertRegex(said, "^rubato: .*install libjs-dygraphs.*\n$")


if __name__ == "__main__":
    unittest.main()
