# SPDX-License-Identifier: Apache-2.0
"""What `rubato load` ends with: a gate can rely on its exit status."""

import json
import socket
import subprocess
import tempfile
import unittest

from server import BINARY, PATIENCE_S, Server


def load(target, *args):
    """Exit status, what went to stderr, and the report."""
    with tempfile.NamedTemporaryFile("r") as report:
        done = subprocess.run([BINARY, "load", "--target", target, "--warmup", "0", "--json",
                               report.name, *args], capture_output=True, text=True,
                              timeout=3 * PATIENCE_S, check=False)
        return done.returncode, done.stderr, json.load(report)


class ExitStatus(unittest.TestCase):
    def check_failed(self, run, reason):
        status, said, report = run
        self.assertEqual(status, 1, said)
        self.assertRegex(said, f"^rubato: .*{reason}.*\\n$")
        self.assertFalse(report["valid"])
        self.assertIn(report["invalid_reason"], said)

    def test_a_run_of_errors_fails(self):
        with Server() as server:
            self.check_failed(load(f"resp://127.0.0.1:{server.port}", "--mix", "lrange:1",
                                   "--rate", "200", "--duration", "0.5"),
                              "100.00 % of the requests got an error: ERR unknown command")

    def test_a_run_without_a_single_reply_fails(self):
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            self.check_failed(load(f"resp://127.0.0.1:{deaf.getsockname()[1]}", "--flows", "3",
                                   "--rate", "200", "--duration", "0.2", "--timeout", "0.1"),
                              "none was served: .* 3 without a reply")

    def test_a_run_whose_figures_are_not_to_be_trusted_is_done_all_the_same(self):
        with Server(program="spin") as server:
            status, said, report = load(f"spin://127.0.0.1:{server.port}", "--workload",
                                        "long:20ms:100", "--flows", "1", "--rate", "500",
                                        "--duration", "0.5", "--timeout", "1")
            self.assertEqual(status, 0, said)
            self.assertFalse(report["valid"])
            self.assertRegex(report["invalid_reason"], "never sent|fell behind")


if __name__ == "__main__":
    unittest.main()
