# SPDX-License-Identifier: Apache-2.0
"""An executor under a server with sockets of its own records its tasks; the simulator repeats
them."""

import os
import shutil
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from server import BINARY, PATIENCE_S
from test_profile import simulate_on_one_worker

BUILD = Path(os.environ.get("RUBATO_BUILD", Path(__file__).resolve().parents[2] / "build/dev"))
PROGRAM = BUILD / "examples/example_own_sockets"
LINES = 180
WORK = 20


@unittest.skipUnless(PROGRAM.exists(), f"{PROGRAM} was not built")
class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.trace = os.path.join(self.folder, "tasks.trace")
        self.profile = os.path.join(self.folder, "tasks.json")

    def serve(self):
        """Every tenth line is work."""
        command = [PROGRAM, "0", self.trace, self.profile]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as server:
            self.addCleanup(server.kill)
            port = int(server.stdout.readline().split()[-1])
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
                replies = client.makefile("r", encoding="ascii")
                for i in range(LINES + WORK):
                    client.sendall(b"work 1\n" if i % 10 == 0 else b"look up\n")
                    replies.readline()
            server.terminate()
            _, errors = server.communicate(timeout=PATIENCE_S)
            self.assertEqual((server.returncode, errors), (0, ""))

    def test_the_simulator_has_the_tasks_with_their_types_and_their_service(self):
        self.serve()
        replayed = simulate_on_one_worker("cfcfs", f"trace:{self.trace}", "--warmup", "0")
        drawn = simulate_on_one_worker("cfcfs", f"profile:{self.profile}", "--requests", "100000")
        self.assertEqual({t["name"]: t["count"] for t in replayed["types"]},
                         {"line": LINES, "work": WORK})
        self.assertEqual((replayed["arrivals"], drawn["arrivals"]), ("recorded", "profile"))
        for of_trace, of_profile in zip(replayed["types"], drawn["types"]):
            with self.subTest(type=of_trace["name"]):
                self.assertEqual(of_profile["name"], of_trace["name"])
                self.assertAlmostEqual(of_profile["share"], of_trace["count"] / (LINES + WORK))
                self.assertAlmostEqual(of_profile["service_us"] / of_trace["service_us"], 1,
                                       delta=0.02)
        # A million steps take longer than a few system calls.
        self.assertGreater(replayed["types"][1]["service_us"], 100)

    def test_tune_takes_the_profile(self):
        self.serve()
        done = subprocess.run([BINARY, "tune", "--from-profile", self.profile,
                               "--policies", "fcfs", "--slo", "line:p99_latency=1s"],
                              capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('policy = "fcfs"', done.stdout)

    def test_a_file_that_cannot_be_written_is_named(self):
        done = subprocess.run([PROGRAM, "0", "/nowhere/x"], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "record_file: cannot write '/nowhere/x': "
                                      "No such file or directory\n")


if __name__ == "__main__":
    unittest.main()
