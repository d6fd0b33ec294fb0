# SPDX-License-Identifier: Apache-2.0
import re
import unittest
from html import unescape
from xml.etree import ElementTree

import samples
from rubato_lab import (comparison, figures, html_report, machine, record, run_report, style,
                        table)
from rubato_lab.report.page import Page
from rubato_lab.comparison import Attempts
from rubato_lab.generator import Measured

SVG = "{http://www.w3.org/2000/svg}"
QUIET = machine.Noise(0.01, 0.001, 7.0)


def measured(noise=QUIET, **figures_wanted):
    report = run_report.from_object(samples.report_object(**figures_wanted))
    return Measured(report, ["rubato", "load", "--mix", "get:0.99,range:0.01"], noise, "a.json")


def attempts(*p999s, scan_us=4000.0, **more):
    found = Attempts("range", [measured(p999_us=v, scan_p999_us=scan_us, **more) for v in p999s])
    found.closed = measured(p999_us=900.0, rps=40000.0)
    return found


def three():
    return {"fcfs": attempts(7000.0, 6000.0, 8000.0), "ps": attempts(700.0, 600.0, 500.0),
            "synergy": attempts(350.0, 300.0, 200.0, scan_us=4800.0)}


def demo_record(by_name=None):
    settings = {"rate_rps": 20000.0, "scan_share": 0.01, "scan_us": 1012,
                "closed_loop_clients": 8}
    return record.Record(settings, {"cpu": "made <up>", "cores": 2}, by_name or three(),
                         {"fcfs": ["rubato", "serve", "kv"]})


class Comparing(unittest.TestCase):
    def test_ratios_are_taken_repeat_by_repeat(self):
        subject = {row.name: row for row in comparison.rows(three())}["synergy"]
        self.assertEqual((subject.lower.low, subject.lower.mid, subject.lower.high),
                         (20.0, 20.0, 40.0))
        self.assertEqual(subject.get_p999.mid, 300.0)

    def test_without_a_common_valid_repeat_the_medians_are_compared(self):
        by_name = {"fcfs": attempts(7000.0, 6000.0), "synergy": attempts(350.0, 300.0)}
        by_name["fcfs"].opened[0] = measured(p999_us=1.0, valid=False)
        by_name["synergy"].opened[1] = measured(p999_us=1.0, valid=False)
        whole_run = comparison.verdicts(by_name)[3]
        self.assertEqual(whole_run.ratio.mid, 6000.0 / 350.0)

    def test_promises_kept_are_met(self):
        by_name = {**three(), "fcfs": attempts(70000.0, 60000.0, 80000.0)}
        met = [v.met for v in comparison.verdicts(by_name)]
        self.assertEqual(met, [True, True, True, None, None, None])

    def test_what_is_not_judged_says_why(self):
        verdicts = comparison.verdicts(three())
        for verdict, line in zip(verdicts, table.verdict_lines(verdicts)):
            self.assertNotEqual(bool(verdict.target), bool(verdict.reason))
            self.assertIn(verdict.target or verdict.reason, line)
            page = Page("verdicts")
            html_report.verdict_table(page, [verdict])
            self.assertIn(verdict.reason, unescape(page.body()))

    def test_promises_broken_are_told(self):
        by_name = {"fcfs": attempts(1000.0), "synergy": attempts(900.0, scan_us=40000.0,
                                                                 rps=5000.0)}
        met = [v.met for v in comparison.verdicts(by_name)]
        self.assertEqual(met, [False, False, False, None, None, None])
        self.assertIn("NOT MET", table.verdict_lines(comparison.verdicts(by_name))[0])

    def test_what_no_stall_touched_is_told_beside_the_whole_run(self):
        rows = comparison.rows(three())
        self.assertEqual(rows[2].get_p999.mid, 300.0)
        self.assertEqual(rows[2].undisturbed_p999.mid, 240.0)
        self.assertEqual(rows[2].undisturbed_lower.mid, 20.0)
        told = "\n".join(table.undisturbed_lines(rows))
        self.assertRegex(told, r"(?m)fcfs +5.6 ms \(90.9 % of the GETs\)$")
        self.assertRegex(told, r"synergy +240 µs .*, 20 \[20-40\] times lower than fcfs")
        self.assertIn("no stalls", html_report.page_of(demo_record()).body())

    def test_too_few_undisturbed_requests_tell_nothing(self):
        by_name = three()
        for one in by_name["synergy"].opened:
            one.report.undisturbed["get"].count = run_report.MIN_UNDISTURBED - 1
        verdict = comparison.verdicts(by_name)[1]
        self.assertIsNone(verdict.ratio)
        self.assertIsNone(verdict.met)
        self.assertIn("too few", "\n".join(table.undisturbed_lines(comparison.rows(by_name))))

    def test_a_generator_that_did_not_look_for_stalls_gets_no_line(self):
        by_name = three()
        for attempt in by_name.values():
            for one in attempt.opened:
                one.report.undisturbed = {}
        self.assertEqual(table.undisturbed_lines(comparison.rows(by_name)), [])

    def test_without_a_baseline_there_is_no_verdict_and_no_ratio(self):
        by_name = {"synergy": attempts(300.0)}
        self.assertEqual(comparison.verdicts(by_name), [])
        self.assertIsNone(comparison.rows(by_name)[0].lower)

    def test_invalid_runs_are_left_out_of_medians_but_counted(self):
        by_name = three()
        by_name["fcfs"].opened[0] = measured(p999_us=1.0, valid=False)
        row = comparison.rows(by_name)[0]
        self.assertEqual(row.get_p999.low, 6000.0)
        self.assertFalse(row.flagged)
        noise = comparison.noise_summary(by_name)
        self.assertEqual(noise.invalid, 1)
        self.assertTrue(noise.is_dirty)
        self.assertIn("INVALID", table.noise_line(noise))

    def test_a_contender_with_no_valid_run_is_shown_and_flagged(self):
        by_name = {"fcfs": attempts(7000.0), "synergy": attempts(300.0, valid=False)}
        rows = comparison.rows(by_name)
        self.assertTrue(rows[1].flagged)
        self.assertIn("synergy !", table.render(rows))
        self.assertEqual({v.met for v in comparison.verdicts(by_name)}, {None})
        self.assertIn("No valid run", figures.finding(demo_record(by_name)))

    def test_busy_neighbours_make_the_machine_dirty(self):
        noisy = Attempts("range", [measured(machine.Noise(0.4, 0.02, 7.0))])
        noise = comparison.noise_summary({"fcfs": noisy})
        self.assertIn("not a quiet machine", table.noise_line(noise))
        quiet = table.noise_line(comparison.noise_summary(three()))
        self.assertIn("noise: a quiet machine", quiet)
        self.assertIn("4 times a second", quiet)


    def test_gaps_of_the_generator_set_the_floor_of_what_p999_can_tell(self):
        one = measured()
        one.report.noise.update(gaps_over_1ms_per_s=2.0, gaps_over_100us_per_s=30.0)
        noise = comparison.noise_summary({"fcfs": Attempts("range", [one])})
        self.assertEqual(noise.floor_us, 1000.0)
        self.assertIn("below about 1 ms cannot be seen", table.noise_line(noise))
        one.report.noise.update(gaps_over_1ms_per_s=0.2)
        noise = comparison.noise_summary({"fcfs": Attempts("range", [one])})
        self.assertEqual(noise.floor_us, 100.0)
        self.assertIsNone(comparison.noise_summary(three()).floor_us)


class Table(unittest.TestCase):
    def test_it_fits_a_terminal_and_its_columns_line_up(self):
        by_name = three()
        by_name["synergy"].closed = None
        lines = table.render(comparison.rows(by_name)).split("\n")
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertEqual(len(lines), 6)
        self.assertIn("20 [20-40]", lines[-1])
        ends = [re.search(r"(7|600 µs|300 µs)", line) for line in lines[3:]]
        self.assertTrue(all(ends))

    def test_the_worst_case_still_fits(self):
        wild = {"synergy-long-name": attempts(99_999_000.0, 1.2)}
        wild["fcfs"] = attempts(7_777_000.0, 88_888_000.0)
        self.assertLessEqual(
            max(map(len, table.render(comparison.rows(wild)).split("\n"))), 110)


class Drawing(unittest.TestCase):
    def test_every_figure_is_well_formed_and_names_every_contender(self):
        drawing = style.svg(figures.get_ccdf(demo_record()))
        root = ElementTree.fromstring(drawing)
        words = " ".join(t.text for t in root.iter(f"{SVG}text"))
        for told in (*three(), figures.finding(demo_record()), "20x lower"):
            self.assertIn(told, words)
        self.assertEqual(root.find(f"{SVG}title").text, figures.finding(demo_record()))
        for one in (figures.get_chart, figures.scan_chart, figures.timeline_chart):
            self.assertEqual(one(demo_record()).to_object()["names"], list(three()))

    def test_the_title_is_the_finding(self):
        self.assertIn("p99.9 falls from 7 ms to 300 µs, 20x lower",
                      figures.finding(demo_record()))

    def test_a_small_gain_is_a_small_claim(self):
        some = {"fcfs": attempts(900.0), "synergy": attempts(300.0)}
        self.assertIn("Scans delay GETs less", figures.finding(demo_record(some)))

    def test_no_claim_is_made_where_there_is_no_difference(self):
        same = {"fcfs": attempts(300.0), "synergy": attempts(290.0)}
        self.assertNotIn("lower", figures.finding(demo_record(same)))
        self.assertNotIn("x lower", style.svg(figures.get_ccdf(demo_record(same))))

    def test_a_drawing_is_the_same_each_time_and_has_a_dark_twin(self):
        first, second = (style.svg(figures.get_ccdf(demo_record())) for _ in range(2))
        self.assertEqual(first, second)
        used = set(re.findall(r"#[0-9a-f]{6}", re.sub("<style.*?</style>", "", first, flags=re.S)))
        self.assertEqual(used - set(style.COLOURS),
                         {style.INK, style.SOFT, style.GRID, style.PAPER})
        self.assertIn(f'[style*="fill: {style.INK}"] {{ fill: {style.DARK[style.INK]} !important',
                      first)

    def test_nothing_to_draw_is_no_drawing(self):
        self.assertIsNone(figures.get_ccdf(record.Record(demo_record().settings, {})))


class DemoPage(unittest.TestCase):
    def test_it_is_self_contained_and_escapes(self):
        page = html_report.page_of(demo_record()).body()
        self.assertNotRegex(page, r"https?://|<script|src=")
        self.assertEqual(page.count("<figure "), 3)
        self.assertIn("made &lt;up&gt;", page)
        self.assertIn("rubato serve kv", page)

    def test_failures_and_invalid_runs_are_not_hidden(self):
        by_name = three()
        by_name["ps"].discarded.append(measured(valid=False))
        by_name["redis"] = Attempts("lrange", failure="would not start")
        page = html_report.page_of(demo_record(by_name)).body()
        self.assertIn("redis was not measured: would not start", page)
        self.assertIn("repeated: fell behind its schedule", page)


if __name__ == "__main__":
    unittest.main()
