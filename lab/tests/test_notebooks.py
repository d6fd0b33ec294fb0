# SPDX-License-Identifier: Apache-2.0
"""The notebook that takes no packages; tests/extras executes all of them."""

import contextlib
import io
import json
import os
import unittest
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks/gets_behind_scans.ipynb"


@unittest.skipIf("RUBATO_BINARY" not in os.environ, "the program is not built")
class Notebook(unittest.TestCase):
    def test_its_cells_run_and_answer(self):
        cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        names, out = {}, io.StringIO()
        with contextlib.redirect_stdout(out):
            for cell in cells:
                if cell["cell_type"] == "code":
                    exec("".join(cell["source"]), names)  # pylint: disable=exec-used
        lines = out.getvalue().splitlines()
        self.assertEqual(len(lines), 9)
        p99 = {run.policy: run["get"].latency_us.p99 for run in names["runs"] if run.load > 0.6}
        self.assertLess(p99["ps"], p99["fcfs"])
        self.assertRegex(lines[-1], "^(ps|synergy) keeps 99 %")


if __name__ == "__main__":
    unittest.main()
