# SPDX-License-Identifier: Apache-2.0
"""Every live policy under `rubato load`, briefly: what bench/live_policies.py does for a minute."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from server import BINARY

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "live_policies.py"


def live_policies(*args):
    return subprocess.run([sys.executable, SCRIPT, "--rubato", BINARY, *args], capture_output=True,
                          text=True, timeout=220, check=False)


class LivePolicies(unittest.TestCase):
    def test_each_keeps_every_request_and_does_as_its_paper_says(self):
        done = live_policies("--seconds", "0.7", "--servers", "spin")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_no_scan_runs_on_the_worker_that_darc_reserves(self):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as report:
            done = live_policies("--seconds", "1", "--servers", "kv",
                                 "--policies", "darc,darc-static", "--json", report.name)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            runs = json.load(report)
        for run in runs:
            self.assertEqual(run["finished"]["0 rangecount"], 0, run)
            self.assertGreater(run["finished"]["1 rangecount"], 0, run)
            self.assertGreater(run["finished"]["0 get"], 0, run)

    def test_a_wrong_name_is_refused(self):
        done = live_policies("--policies", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--policies takes all or names of fcfs", done.stderr)


if __name__ == "__main__":
    unittest.main()
