# SPDX-License-Identifier: Apache-2.0
"""`--profile` as a user meets it: a server records its requests, `rubato sim` repeats them."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from server import BINARY, PATIENCE_S, Server, refused
from waiting import eventually

MIX = "short:5us:90,long:200us:10"


def load(server, *args, program="spin"):
    """The report of `rubato load` against the server. Its own timing is not the matter here."""
    scheme = "spin" if program == "spin" else "resp"
    command = [BINARY, "load", "--target", f"{scheme}://127.0.0.1:{server.port}", *args,
               "--flows", "16", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE_S,
                          check=False)
    return json.loads(done.stdout)


def simulate_on_one_worker(policy, workload, *args):
    command = [BINARY, "sim", "--policy", policy, "--workers", "1", "--workload", workload,
               "--json", "-", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE_S,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def simulate(path, *args):
    return simulate_on_one_worker("synergy", f"profile:{path}", "--requests", "200000", *args)


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, "profile.json")

    def profile(self):
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

    def end(self, server, status=0):
        server.terminate()
        self.assertEqual(server.wait(), status, server.output())

    def spin_profile(self, *args):
        with Server("--workers", "1", "--profile", self.path, *args, program="spin") as server:
            report = load(server, "--workload", MIX, "--rate", "2000", "--duration", "2",
                          "--warmup", "0")
            self.end(server)
        return report, self.profile()

    def test_a_load_is_recorded_and_simulated_again(self):
        sent, profile = self.spin_profile()
        self.assertEqual(profile["schema"], "rubato.profile/1")
        self.assertEqual(profile["server"]["policy"], "synergy")
        self.assertEqual(profile["flows"], 16)
        counts = {t["name"]: t["count"] for t in profile["types"]}
        self.assertEqual(counts, {t["name"]: t["count"] for t in sent["types"]})
        self.assertGreater(profile["span_s"], 1)
        total = sum(counts.values())
        self.assertAlmostEqual(profile["arrivals"]["rate_rps"] * profile["span_s"], total, delta=2)
        run = simulate(self.path)
        self.assertEqual(run["arrivals"], "profile")
        self.assertAlmostEqual(run["offered_rps"], profile["arrivals"]["rate_rps"], places=6)
        for simulated in run["types"]:
            self.assertAlmostEqual(simulated["share"], counts[simulated["name"]] / total)
        self.assertEqual([t["name"] for t in run["types"]], ["short", "long"])
        self.assertGreaterEqual(run["types"][0]["service_us"], 5)
        self.assertGreaterEqual(run["types"][1]["service_us"], 200)
        self.assertEqual(run["settings"]["flows"], "16")

    def test_another_rate_and_other_arrivals_can_be_asked_for(self):
        self.spin_profile()
        self.assertAlmostEqual(simulate(self.path, "--load", "0.5")["load"], 0.5)
        self.assertAlmostEqual(simulate(self.path, "--rate", "1234")["offered_rps"], 1234)
        run = simulate(self.path, "--arrivals", "uniform", "--flows", "3")
        self.assertEqual((run["arrivals"], run["settings"]["flows"]), ("uniform", "3"))

    def test_the_config_file_can_ask_for_it_and_its_length(self):
        config = os.path.join(self.folder, "server.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'profile = "{self.path}"\nprofile-for = 1\n')
        with Server("--config", config) as server:
            load(server, "--load-keys", "--keys", "100", "--mix", "get:9,range/100:1",
                 "--rate", "500", "--duration", "2", program="kv")
            eventually(lambda: os.path.exists(self.path))
            early = self.profile()
            self.assertEqual(server.call("PING"), b"PONG")
            self.end(server)
        self.assertEqual(self.profile(), early)
        self.assertLessEqual({"get", "set", "range"}, {t["name"] for t in early["types"]})
        self.assertNotIn("ping", {t["name"] for t in early["types"]})
        self.assertLess(early["span_s"], 1.1)

    def test_nothing_is_written_where_nothing_came(self):
        with Server("--profile", self.path, program="spin") as server:
            self.assertEqual(server.call("PING"), b"PONG")
            self.end(server)
            self.assertIn("fewer than two requests came", server.output())
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_place_that_cannot_be_written_is_told_at_the_start(self):
        for path in ("/dev/full", self.folder, os.path.join(self.folder, "no", "where")):
            status, text = refused("serve", "spin", "--port", "0", "--profile", path)
            self.assertEqual((status, text.count("\n")), (1, 1), text)
            self.assertIn(f"profile: cannot write '{path}'", text)
        for args in (["--profile", ""], ["--profile-for", "5"]):
            status, text = refused("serve", "spin", "--port", "0", *args)
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertIn(args[0], text)

    def test_a_place_that_can_no_longer_be_written_is_counted_and_no_crash(self):
        with Server("--profile", self.path, program="spin") as server:
            shutil.rmtree(self.folder)
            load(server, "--workload", "fixed-1", "--rate", "500", "--duration", "1")
            self.end(server, status=1)
            self.assertRegex(server.output(), r"\(attempts: [12]\)")

    def test_what_is_no_profile_is_told_by_its_key(self):
        for text, said in (("", "line 1, column 1 is not JSON"),
                           ('{"schema": "rubato.run/1"}', "schema: takes"),
                           ('{"schema": "rubato.profile/1"}', "arrivals: takes")):
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(text)
            status, output = refused("sim", "--policy", "synergy", "--workload",
                                     "profile:" + self.path)
            self.assertEqual((status, output.count("\n")), (2, 1), output)
            self.assertIn("--workload: '" + self.path + "': " + said, output)


if __name__ == "__main__":
    unittest.main()
