# SPDX-License-Identifier: Apache-2.0
"""Every live policy under `rubato load`, briefly: what bench/live_policies.py does for a minute."""

import json
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from server import BINARY

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "live_policies.py"
# Of these loads a CPU is mostly idle, and no rule is about speed.
AT_ONCE = 4


def live_policies(*args):
    return subprocess.run([sys.executable, SCRIPT, "--rubato", BINARY, *args], capture_output=True,
                          text=True, timeout=220, check=False)


def names():
    done = subprocess.run([BINARY, "policies", "--json"], capture_output=True, text=True,
                          timeout=60, check=True)
    return [p["name"] for p in json.loads(done.stdout) if not p["simulated_only"]]


class LivePolicies(unittest.TestCase):
    def test_each_keeps_every_request_and_does_as_its_paper_says(self):
        found = names()
        groups = [",".join(found[i::AT_ONCE]) for i in range(AT_ONCE)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            runs = list(pool.map(lambda group: live_policies(
                "--seconds", "0.7", "--servers", "spin", "--policies", group), groups))
        for done in runs:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sum(done.stdout.count(" spin ") for done in runs), len(found))

    def test_scans_keep_off_the_worker_that_darc_reserves(self):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as report:
            done = live_policies("--seconds", "1", "--servers", "kv",
                                 "--policies", "darc,darc-static", "--json", report.name)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            runs = json.load(report)
        for run in runs:
            scans = run["finished"]["1 rangecount"]
            self.assertGreater(scans, 0, run)
            self.assertLessEqual(run["finished"]["0 rangecount"], scans / 10, run)
            self.assertGreater(run["finished"]["0 get"], 0, run)

    def test_a_wrong_name_is_refused(self):
        done = live_policies("--policies", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--policies takes all or names of fcfs", done.stderr)


if __name__ == "__main__":
    unittest.main()
