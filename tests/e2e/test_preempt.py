# SPDX-License-Identifier: Apache-2.0
"""Every way to preempt, as a user meets it: what does not work here is refused with its reason,
what works serves a load without loss, lets short requests past long ones, and drains."""

import json
import subprocess
import unittest

from server import BINARY, Server, status_of_load
from waiting import eventually, is_readable

LONG_NS = 400_000_000
QUANTUM = ("--set", "fixed_quantum=500us")


def works(mechanism):
    findings = json.loads(subprocess.run([BINARY, "doctor", "--json"], check=True,
                                         capture_output=True, text=True).stdout)
    return any(f["name"] == mechanism and f["status"] == "ok" for f in findings)


def serve(*args):
    return subprocess.run([BINARY, "serve", "spin", "--port", "0", *args], capture_output=True,
                          text=True, timeout=20)


class Preempt(unittest.TestCase):
    def each(self):
        for mechanism in ("checkpoint", "signal", "timer"):
            if works(mechanism):
                yield mechanism

    def test_what_is_not_to_be_had_is_refused_with_its_reason(self):
        for mechanism in ("signal", "timer", "uintr", "kmod"):
            if works(mechanism):
                continue
            refused = serve("--preempt", mechanism)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"--preempt: {mechanism} ", refused.stderr)
        self.assertEqual(serve("--preempt", "magic").returncode, 2)

    def test_start_line_and_config_file_say_which(self):
        with Server(program="spin") as server:
            self.assertRegex(server.output(), r"preempt \w+ \(auto\), on ")
        with Server("--preempt", "none", program="spin") as server:
            self.assertIn("preempt none, on ", server.output())

    def test_long_request_is_overtaken_and_answered(self):
        for mechanism in self.each():
            with self.subTest(mechanism), \
                    Server("--preempt", mechanism, *QUANTUM, program="spin") as server:
                # A busy machine may keep the short one from its CPU until the long one is over.
                eventually(lambda server=server: self.is_overtaken(server))

    def is_overtaken(self, server):
        with server.client() as slow, server.client() as fast:
            fast.call("PING")
            server.begin(slow, "SPIN", str(LONG_NS), "LONG")
            self.assertEqual(fast.call("SPIN", "1000", "SHORT"), b"OK")
            over = is_readable(slow.socket)
            self.assertEqual(slow.reply(), b"OK")
            return not over

    def test_nothing_is_preempted_under_none(self):
        with Server("--preempt", "none", *QUANTUM, program="spin") as server:
            for _ in range(3):
                self.assertFalse(self.is_overtaken(server))

    def test_load_is_served_without_loss_and_drained(self):
        for mechanism in self.each():
            with self.subTest(mechanism), \
                    Server("--preempt", mechanism, "--workers", "2", *QUANTUM,
                           program="spin") as server:
                run = subprocess.run(
                    [BINARY, "load", "--target", f"spin://127.0.0.1:{server.port}", "--rate",
                     "2000", "--duration", "1", "--flows", "16", "--timeout", "20", "--workload",
                     "extreme-bimodal", "--json", "-"],
                    capture_output=True, text=True, timeout=60)
                self.assertEqual(status_of_load(run), 0, run.stderr)
                report = json.loads(run.stdout)
                self.assertGreater(report["requests"], 0)
                self.assertEqual(report["lost"] + report["errors"], 0)
                with server.client() as slow:
                    server.begin(slow, "SPIN", str(LONG_NS), "LONG")
                    server.process.terminate()
                    self.assertEqual(slow.reply(), b"OK")
                self.assertEqual(server.process.wait(20), 0)


if __name__ == "__main__":
    unittest.main()
