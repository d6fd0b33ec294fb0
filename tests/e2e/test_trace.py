# SPDX-License-Identifier: Apache-2.0
"""`--record` as a user meets it: a server records every request, `rubato sim` replays them."""

import os
import shutil
import signal
import tempfile
import unittest

from server import Server, refused
from test_profile import MIX, load, simulate_on_one_worker
from waiting import eventually


def simulate(path, *args):
    return simulate_on_one_worker("cfcfs", f"trace:{path}", "--warmup", "0", *args)


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, "requests.trace")

    def end(self, server, status=0):
        server.terminate()
        self.assertEqual(server.wait(), status, server.output())

    def test_every_request_is_recorded_and_simulated_again(self):
        with Server("--record", self.path, program="spin") as server:
            sent = load(server, "--workload", MIX, "--rate", "1500", "--duration", "2",
                        "--warmup", "0")
            self.end(server)
            self.assertIn("requests recorded", server.output())
        counts = {t["name"]: t["count"] for t in sent["types"]}
        run = simulate(self.path)
        self.assertEqual({t["name"]: t["count"] for t in run["types"]}, counts)
        self.assertEqual(run["arrivals"], "recorded")
        self.assertAlmostEqual(run["offered_rps"], 1500, delta=150)
        self.assertGreaterEqual(run["types"][1]["service_us"], 200)
        self.assertEqual(run["settings"]["flows"], "16")
        faster = simulate(self.path, "--rate", "3000")
        self.assertAlmostEqual(faster["offered_rps"], 3000)
        self.assertGreater(faster["latency_us"]["mean"], run["latency_us"]["mean"])
        blocks = simulate(self.path, "--seeds", "4")
        self.assertGreater(blocks["confidence"]["latency_us"]["mean"], 0)
        self.assertGreater(float(blocks["settings"]["trace_block_us"]), 50_000)

    def test_config_set_starts_and_ends_it(self):
        with Server("--record", self.path, "--recording", "no") as server:
            self.assertEqual(server.call("CONFIG", "GET", "recording"), [b"recording", b"no"])
            server.call("SET", "a", "1")
            self.assertEqual(server.call("CONFIG", "SET", "recording", "yes"), b"OK")
            for _ in range(7):
                server.call("GET", "a")
            self.assertEqual(server.call("CONFIG", "SET", "recording", "no"), b"OK")
            server.call("GET", "a")
            run = simulate(self.path)
            self.assertEqual([(t["name"], t["count"]) for t in run["types"]], [("get", 7)])
            with self.assertRaisesRegex(Exception, "takes yes or no"):
                server.call("CONFIG", "SET", "recording", "maybe")
            self.end(server)

    def test_a_reload_starts_and_ends_it(self):
        config = os.path.join(self.folder, "server.toml")

        def write(recording):
            with open(config, "w", encoding="utf-8") as file:
                file.write(f'record = "{self.path}"\nrecording = "{recording}"\nworkers = 1\n')

        write("no")
        with Server("--config", config, program="spin") as server:
            write("yes")
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: os.path.exists(self.path))
            load(server, "--workload", "fixed-1", "--rate", "200", "--duration", "1")
            self.end(server)
        self.assertGreater(simulate(self.path)["requests"], 100)

    def test_mistakes_are_one_line(self):
        for args, said in ((["--record", ""], "--record"),
                           (["--record", self.path, "--recording", "x"], "--recording"),
                           (["--record", self.path, "--record-limit", "0"], "--record-limit")):
            status, text = refused("serve", "spin", "--port", "0", *args)
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertIn(said, text)
        status, text = refused("serve", "spin", "--port", "0", "--record", "/nowhere/x")
        self.assertEqual((status, text.count("\n")), (1, 1), text)
        self.assertIn("cannot write '/nowhere/x'", text)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("no trace")
        for args in (["--workload", "trace:" + self.path], ["--workload", "trace:/nowhere"]):
            status, text = refused("sim", "--policy", "cfcfs", *args)
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertIn("--workload", text)


if __name__ == "__main__":
    unittest.main()
