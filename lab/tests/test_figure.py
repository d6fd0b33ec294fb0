# SPDX-License-Identifier: Apache-2.0
"""What a figure says in words is where its dots and curves are."""

import re
import subprocess
import unittest
from pathlib import Path

import drawn
from rubato_lab import comparison, figures, units
from test_telling import attempts, demo_record, three

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
README_FIGURE = ROOT / "docs/img/get-latency-ccdf.svg"


def uneven():
    """Repeats so far apart that their pooled p99.9 is far from the median of theirs."""
    return {"fcfs": attempts(7000.0, 6000.0, 48000.0), "ps": attempts(700.0, 90000.0, 500.0, 650.0),
            "synergy": attempts(350.0, 300.0, 21000.0), "redis": attempts(4110.0, 12000.0)}


class Figure(unittest.TestCase):
    def check(self, text, names):
        figure = drawn.Figure(text)
        self.assertEqual([s.name for s in figure.series], names)
        for one in figure.series:
            said, shown = drawn.microseconds(one.label), figure.latency_at(one.dot[0])
            allowed = drawn.half_a_digit_us(one.label) + said * figure.reading_error()
            self.assertAlmostEqual(said, shown, delta=allowed, msg=one.name)
            self.assertLess(drawn.distance(one.dot, one.curve), 0.2, one.name)
            for (x1, y1), (x2, y2) in zip(one.curve, one.curve[1:]):
                self.assertTrue(x1 <= x2 and y1 <= y2, one.name)
        return figure

    def test_a_label_says_where_its_dot_is_and_the_dot_is_on_its_curve(self):
        record = demo_record(uneven())
        self.check(figures.get_ccdf(record), list(uneven()))

    def test_labels_table_and_finding_quote_the_same(self):
        for by_name in (uneven(), three(), {"fcfs": attempts(900.0), "synergy": attempts(80.0)}):
            record = demo_record(by_name)
            rows = {row.name: row for row in comparison.rows(by_name)}
            figure = self.check(figures.get_ccdf(record), list(by_name))
            for one in figure.series:
                self.assertEqual(one.label, units.latency(rows[one.name].get_p999.mid))
            ends = {one.name: one.label for one in figure.series}
            self.assertIn(f"p99.9 falls from {ends['fcfs']} to {ends['synergy']}",
                          figures.finding(record))

    def test_the_report_draws_the_curves_that_the_figure_draws(self):
        record = demo_record(uneven())
        for line, one in zip(figures.get_chart(record).lines,
                             figures.series_of(record, lambda _: "get"), strict=True):
            self.assertEqual(line.name, one.name)
            self.assertLessEqual(set(line.points), set(map(tuple, one.curve)))

    def test_the_figure_names_its_statistic_where_there_are_repeats(self):
        self.assertIn("the median of 3 repeats", figures.get_ccdf(demo_record()))
        alone = demo_record({"fcfs": attempts(900.0), "synergy": attempts(80.0)})
        self.assertNotIn("repeats", figures.get_ccdf(alone))

    def test_one_command_measures_the_figure_of_the_readme_again(self):
        done = subprocess.run(["make", "--dry-run", "figure"], cwd=ROOT, capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = re.search(r"!\[.*\]\((docs/img/.*\.svg)\)", README.read_text(encoding="utf-8"))[1]
        self.assertIn(f"tools/demo.py --figure {shown}", done.stdout)

    def test_the_figure_of_the_readme_agrees_with_itself(self):
        text = README_FIGURE.read_text(encoding="utf-8")
        self.check(text, ["fcfs", "ps", "synergy", "redis"])


if __name__ == "__main__":
    unittest.main()
