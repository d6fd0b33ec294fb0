# SPDX-License-Identifier: Apache-2.0
"""DataFrames, figures, and the gallery of notebooks."""

import unittest
from pathlib import Path

import altair
import matplotlib
import nbformat
from nbclient import NotebookClient

import rubato_lab as lab

matplotlib.use("agg")
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
LIMIT_S = 300


class Drawing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = lab.compare(["fcfs", "ps"], workload="high-bimodal", workers=2,
                               loads=[0.3, 0.6], requests=5000)

    def test_runs_are_rows(self):
        frame = self.runs.to_pandas()
        self.assertEqual(len(frame), 2 * 2 * 3)
        short = frame.query("type == 'short' and policy == 'ps' and load == 0.6")
        self.assertEqual(short.latency_us_p99.item(), self.runs[3]["short"].latency_us.p99)

    def test_both_backends_draw_the_same_points(self):
        axes = lab.plot_load(self.runs, "p99", "short")
        spec = lab.plot_load(self.runs, "p99", "short", backend="vega")
        drawn = sorted((line.get_label(), *map(float, point)) for line in axes.get_lines()
                       for point in line.get_xydata())
        told = sorted((v["line"], v["x"], v["y"]) for v in spec["data"]["values"])
        self.assertEqual(drawn, told)
        axes.figure.canvas.draw()
        ticks = [tick.get_text() for tick in axes.get_yticklabels()]
        self.assertTrue(all(tick.endswith((" ns", " µs", " ms")) for tick in ticks), ticks)

    def test_specifications_are_those_of_vega_lite(self):
        best = lab.find_max(["fcfs", "ps"], slo="p99_slowdown=50", workload="high-bimodal",
                            workers=2, requests=5000, seeds=2)
        for spec in (lab.plot_ccdf(self.runs, backend="vega"),
                     lab.plot_load(self.runs, backend="vega"),
                     lab.plot_max(best, backend="vega")):
            altair.Chart.from_dict(dict(spec)).to_dict()  # which validates
        self.assertEqual(len(lab.plot_max(best).patches), 2)


class Gallery(unittest.TestCase):
    def test_every_notebook_runs(self):
        paths = sorted(NOTEBOOKS.glob("*.ipynb"))
        self.assertGreaterEqual(len(paths), 3)
        for path in paths:
            with self.subTest(path.name):
                notebook = nbformat.read(path, as_version=4)
                self.assertFalse(any(c.get("outputs") for c in notebook.cells), "it has outputs")
                NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
                self.assertTrue(any(c.get("outputs") for c in notebook.cells))


if __name__ == "__main__":
    unittest.main()
