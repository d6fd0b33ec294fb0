# SPDX-License-Identifier: Apache-2.0
"""What a figure says in words is where its dots and curves are."""

import re
import subprocess
import unittest
from pathlib import Path

from rubato_lab import charts, comparison, figures, style, units
from test_telling import attempts, demo_record, three

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
README_FIGURE = ROOT / "docs/img/get-latency-ccdf.svg"


def uneven():
    """Repeats so far apart that their pooled p99.9 is far from the median of theirs."""
    return {"fcfs": attempts(7000.0, 6000.0, 48000.0), "ps": attempts(700.0, 90000.0, 500.0, 650.0),
            "synergy": attempts(350.0, 300.0, 21000.0), "redis": attempts(4110.0, 12000.0)}


class Figure(unittest.TestCase):
    def labels(self, record):
        """{name: the p99.9 that its label says}, after a look at dots and curves."""
        found = {}
        for line in figures.get_ccdf(record).axes[0].get_lines():
            name, _, said = line.get_label().partition(": p99.9 ")
            if not said:  # a repeat
                continue
            points = line.get_xydata()
            x, y = points[line.get_markevery()[0]]
            self.assertEqual((units.latency(x), y), (said, charts.P999), name)
            for (x1, y1), (x2, y2) in zip(points, points[1:]):
                self.assertTrue(x1 <= x2 and y1 >= y2, name)
            found[name] = said
        self.assertEqual(list(found), list(record.attempts))
        return found

    def test_a_label_says_where_its_dot_is_and_the_dot_is_on_its_curve(self):
        self.labels(demo_record(uneven()))

    def test_labels_table_and_finding_quote_the_same(self):
        for by_name in (uneven(), three(), {"fcfs": attempts(900.0), "synergy": attempts(80.0)}):
            record = demo_record(by_name)
            labels = self.labels(record)
            for row in comparison.rows(by_name):
                self.assertEqual(labels[row.name], units.latency(row.get_p999.mid))
            self.assertIn(f"p99.9 falls from {labels['fcfs']} to {labels['synergy']}",
                          figures.finding(record))

    def test_thin_lines_are_the_repeats(self):
        lines = figures.get_ccdf(demo_record()).axes[0].get_lines()
        self.assertEqual(len([line for line in lines if line.get_linewidth() < 1]), 3 * 3)
        alone = demo_record({"fcfs": attempts(900.0), "synergy": attempts(80.0)})
        self.assertEqual(len(figures.get_ccdf(alone).axes[0].get_lines()), 2)

    def test_the_report_draws_the_curves_that_the_figure_draws(self):
        record = demo_record(uneven())
        for line, one in zip(figures.get_chart(record).lines,
                             figures.series_of(record, lambda _: "get"), strict=True):
            self.assertEqual(line.name, one.name)
            self.assertLessEqual(set(line.points), set(map(tuple, one.curve)))

    def test_the_figure_names_its_statistic_where_there_are_repeats(self):
        self.assertIn("the median of 3 repeats", style.svg(figures.get_ccdf(demo_record())))
        alone = demo_record({"fcfs": attempts(900.0), "synergy": attempts(80.0)})
        self.assertNotIn("repeats", style.svg(figures.get_ccdf(alone)))

    def test_one_command_measures_the_figure_of_the_readme_again(self):
        done = subprocess.run(["make", "--dry-run", "figure"], cwd=ROOT, capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = re.search(r"!\[.*\]\((docs/img/.*\.svg)\)", README.read_text(encoding="utf-8"))[1]
        self.assertIn(f"tools/demo.py --figure {shown}", done.stdout)

    def test_the_figure_of_the_readme_names_who_is_in_it(self):
        found = re.findall(r">(\w+): p99\.9 [\d.]+ [mµ]?s<", README_FIGURE.read_text("utf-8"))
        self.assertEqual(found, ["fcfs", "ps", "synergy", "redis"])


if __name__ == "__main__":
    unittest.main()
