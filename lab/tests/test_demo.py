# SPDX-License-Identifier: Apache-2.0
"""The whole demo against a stand-in for rubato: what it prints, writes and leaves behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests" / "e2e"))

from waiting import eventually  # noqa: E402

DEMO = HERE.parents[1] / "tools" / "demo.py"
FAKE = HERE / "fake_rubato.py"
LIMIT_S = 50


class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = Path(self.folder.name) / "out"

    def command(self, *arguments):
        return [sys.executable, str(DEMO), "--binary", str(FAKE), "--out", str(self.out),
                "--no-redis", *arguments]

    def demo(self, *arguments, trouble=""):
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=LIMIT_S,
            check=False, env={**os.environ, "FAKE_RUBATO": trouble})

    def servers_left(self):
        """Processes that still run the stand-in for this test."""
        mark = str(self.out).encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if b"fake_rubato.py" in words and b"demo.py" not in words:
                ports = (path.parent / "environ").read_bytes()
                if b"FAKE_MARK=" + mark in ports:
                    found.append(path)
        return found

    def test_it_prints_the_table_and_writes_report_record_and_figure(self):
        figure = Path(self.folder.name) / "docs" / "f.svg"
        done = self.demo("--repeats", "2", "--seconds", "1", "--figure", str(figure))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"beside KEYS \* of 100 000 keys")
        self.assertRegex(done.stdout, r"a scan of \d+ items takes")
        self.assertRegex(done.stdout, r"synergy +30 µs +102 µs +350 µs +20 ")
        self.assertIn("target >= 10   met", done.stdout)
        self.assertIn("noise: ", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.split("\n"))), 110)
        self.assertIn("<svg", figure.read_text())
        report = self.out / "report.html"
        if report.exists():
            self.assertIn("20x lower", report.read_text())
        else:
            self.assertIn("report: none was written: figures of a report are drawn by dygraphs",
                          done.stdout)
        order = [line.split()[1] for line in done.stdout.split("\n")
                 if line.startswith(("  1/2", "  2/2"))]
        self.assertEqual(order, ["fcfs", "ps", "synergy"] * 2)

    def test_json_goes_to_stdout_alone(self):
        done = self.demo("--quick", "--json")
        data = json.loads(done.stdout)
        self.assertEqual([c["name"] for c in data["contenders"]], ["fcfs", "synergy"])
        self.assertEqual(data["settings"]["rate_rps"], 20000)
        self.assertIn("policy", done.stderr)

    def test_a_finished_demo_can_be_drawn_again(self):
        first = self.demo("--quick")
        again = self.demo("--from", str(self.out))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(again.stdout.split("\n")[3], first.stdout)

    def test_a_missing_binary_is_told(self):
        done = self.demo("--binary", "/nowhere/rubato")
        self.assertEqual(done.returncode, 1)
        self.assertIn("make build", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_server_that_dies_at_once_is_told_with_its_log(self):
        done = self.demo("--quick", trouble="dies:fcfs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("boom: cannot serve", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_one_failing_policy_does_not_hide_the_others(self):
        done = self.demo("--quick", trouble="dies:synergy")
        self.assertEqual(done.returncode, 1)
        self.assertIn("synergy FAILED", done.stdout)
        self.assertRegex(done.stdout, r"fcfs +30 µs")

    def test_a_generator_that_fails_is_told(self):
        for trouble, words in (("badload", "cannot connect"), ("nojson", "not JSON")):
            done = self.demo("--quick", trouble=trouble)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    def test_an_invalid_run_is_told_and_repeated_once(self):
        done = self.demo("--quick", trouble="invalid:synergy:1")
        self.assertIn("INVALID: fell behind its schedule", done.stdout)
        self.assertIn("1 invalid run(s) repeated", done.stdout)
        self.assertNotIn("synergy !", done.stdout)

    def test_a_run_that_the_server_failed_is_told_and_repeated_like_an_invalid_one(self):
        done = self.demo("--quick", trouble="failed:synergy:1")
        self.assertIn("INVALID: ", done.stdout)
        self.assertIn("1 invalid run(s) repeated", done.stdout)
        self.assertNotIn("FAILED", done.stdout)

    def test_a_run_that_stays_invalid_is_flagged(self):
        done = self.demo("--quick", trouble="invalid:synergy:9")
        self.assertEqual(done.stdout.count("INVALID: "), 2)
        self.assertIn("synergy !", done.stdout)
        self.assertIn("do not trust", done.stdout)

    def test_bad_arguments_end_with_two(self):
        for arguments in (["--rate", "-1"], ["--repeats", "0"], ["--policies", ","]):
            done = self.demo(*arguments)
            self.assertEqual(done.returncode, 2)

    def check_end_by(self, number, status):
        env = {**os.environ, "FAKE_RUBATO": "deaf", "FAKE_MARK": str(self.out)}
        process = subprocess.Popen(self.command("--quick"), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=env, text=True)
        eventually(self.servers_left, patience_s=LIMIT_S)
        process.send_signal(number)
        _, said = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, status)
        self.assertNotIn("Traceback", said)
        eventually(self.servers_left, lambda left: not left, LIMIT_S)

    def test_an_interrupt_leaves_no_server_behind(self):
        self.check_end_by(signal.SIGINT, 130)

    def test_a_termination_leaves_no_server_behind(self):
        self.check_end_by(signal.SIGTERM, 143)

    def test_even_a_kill_leaves_no_server_behind(self):
        self.check_end_by(signal.SIGKILL, -signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
