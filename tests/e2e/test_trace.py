# SPDX-License-Identifier: Apache-2.0
"""`--record` and `--trace` as a user meets them: `rubato sim` replays what a server did."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from server import BINARY, Server, refused
from test_profile import MIX, load, simulate_on_one_worker
from waiting import eventually


def simulate(path, *args):
    return simulate_on_one_worker("cfcfs", f"trace:{path}", "--warmup", "0", *args)


class LiveTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, "requests.trace")

    def end(self, server, status=0):
        server.terminate()
        self.assertEqual(server.wait(), status, server.output())


class Recorded(LiveTest):
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


class Traced(LiveTest):
    """A live trace and a simulated one are compared."""

    def setUp(self):
        super().setUp()
        self.live = os.path.join(self.folder, "live.json")
        self.simulated = os.path.join(self.folder, "sim.json")

    def diff(self, *args, status=0):
        report = os.path.join(self.folder, "diff.json")
        done = subprocess.run([BINARY, "trace", "diff", *args, "--json", report],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        with open(report, encoding="utf-8") as file:
            return json.load(file), done

    def check_live(self, events):
        """What a live trace has in common with a simulated one."""
        slices = [event for event in events if event.get("cat") == "request"]
        early = [event for event in slices if event["ts"] < event["args"]["arrived"]]
        self.assertEqual(early, [])
        self.assertLessEqual({event["name"] for event in events if event["ph"] == "i"}, {"steal"})
        self.assertTrue(any(event["args"].get("avoided") for event in slices))
        depths = {}
        for event in sorted((e for e in events if e["ph"] == "C"), key=lambda e: e["ts"]):
            depths.setdefault(event["name"], []).append(event["args"]["waiting"])
        for name, seen in depths.items():
            self.assertTrue(all(a != b for a, b in zip(seen, seen[1:])), name)

    def simulate_trace(self, path, *args):
        done = subprocess.run([BINARY, "sim", "--workers", "2", "--workload", "high-bimodal",
                               "--load", "0.8", "--requests", "5000", "--trace", path, *args],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_live_server_is_traced_and_compared_with_its_simulation(self):
        with Server("--record", self.path, "--trace", self.live, "--policy", "ps",
                    "--set", "quantum=100us", program="spin") as server:
            load(server, "--workload", MIX, "--rate", "500", "--duration", "1", "--warmup", "0")
            self.end(server)
            self.assertIn("trace written", server.output())
        simulate_on_one_worker("ps", f"trace:{self.path}", "--warmup", "0", "--set",
                               "quantum=100us", "--trace", self.simulated)
        with open(self.live, encoding="utf-8") as file:
            live = json.load(file)
        with open(self.simulated, encoding="utf-8") as file:
            simulated = json.load(file)
        self.check_live(live["traceEvents"])
        rows = [[event for event in trace["traceEvents"] if event["ph"] == "M"]
                for trace in (live, simulated)]
        self.assertEqual(*rows)
        report, done = self.diff(self.live, self.simulated)
        self.assertEqual(report["schema"], "rubato.trace_diff/1")
        types = {each["name"]: each for each in report["types"]}
        for name in ("short", "long"):
            requests = types[name]["requests"]
            self.assertGreater(requests["a"], 10)
            # The simulation ends with its last arrival: what then still waits is not in it.
            self.assertGreater(requests["b"] / requests["a"], 0.5)
            self.assertLess(requests["b"] / requests["a"], 1.1)
            service = types[name]["service_mean_us"]
            # A live slice holds time without CPU; the service that the recording has of it begins
            # when the worker looked at the clock last.
            self.assertGreater(service["a"], 0)
            if name == "long":
                self.assertGreater(service["a"] / service["b"], 0.5)
            self.assertGreaterEqual(types[name]["slices_per_request"]["a"], 1)
        self.assertEqual({each["name"] for each in report["workers"]}, {"worker 0"})
        self.assertTrue(report["queues"])
        self.assertIn("wait_p99_us", done.stdout)

    def test_equal_runs_have_no_difference_and_others_are_named(self):
        same = os.path.join(self.folder, "same.json")
        self.simulate_trace(self.live, "--policy", "fcfs")
        self.simulate_trace(same, "--policy", "fcfs")
        self.diff(self.live, same, "--tolerance", "0")
        self.simulate_trace(self.simulated, "--policy", "ps")
        report, done = self.diff(self.live, self.simulated, "--tolerance", "5", status=1)
        self.assertRegex(done.stderr, r"rubato: type long: cuts_per_request is 0 and [0-9.]+, "
                                      r"100.0 % apart")
        cuts = {each["name"]: each["cuts_per_request"] for each in report["types"]}
        self.assertEqual(cuts["long"]["a"], 0)
        self.assertGreater(cuts["long"]["b"], 1)

    def test_slices_of_a_worker_with_its_own_clock_are_whole(self):
        self.simulate_trace(self.simulated, "--policy", "ps", "--costs", "ideal-polled")
        report, _ = self.diff(self.simulated, self.simulated)
        for each in report["types"]:
            mean = {"short": 1, "long": 100}[each["name"]]
            self.assertGreaterEqual(each["service_mean_us"]["a"], 0.98 * mean, each["name"])
        with open(self.simulated, encoding="utf-8") as file:
            slices = [event["args"] for event in json.load(file)["traceEvents"]
                      if event.get("cat") == "request"]
        self.assertGreater(sum(each.get("avoided", 0) for each in slices), 0)

    def changed(self, change):
        """The simulated trace, of whose slices `change` makes others, or None."""
        with open(self.simulated, encoding="utf-8") as file:
            trace = json.load(file)
        trace["traceEvents"] = [event for event in trace["traceEvents"]
                                if event.get("cat") != "request" or change(event)]
        path = os.path.join(self.folder, "changed.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)
        return path

    def test_a_type_of_one_trace_is_named_once_and_small_times_do_not_matter(self):
        self.simulate_trace(self.simulated, "--policy", "ps")
        without = self.changed(lambda event: event["name"] != "long")
        _, done = self.diff(self.simulated, without, "--tolerance", "100", status=1)
        self.assertEqual(done.stderr, "rubato: type long: is in A only\n")

        def arrives_earlier(event):
            event["args"]["arrived"] = max(0, event["args"]["arrived"] - 5)
            return event
        self.diff(self.simulated, self.changed(arrives_earlier), "--tolerance", "5")

    def test_config_set_starts_and_ends_a_trace(self):
        with Server("--trace", self.live, "--tracing", "no") as server:
            server.call("SET", "a", "1")
            self.assertFalse(os.path.exists(self.live))
            self.assertEqual(server.call("CONFIG", "GET", "tracing"), [b"tracing", b"no"])
            self.assertEqual(server.call("CONFIG", "SET", "tracing", "yes"), b"OK")
            for _ in range(7):
                server.call("GET", "a")
                server.call("PING")
            self.assertEqual(server.call("CONFIG", "SET", "tracing", "no"), b"OK")
            server.call("GET", "a")
            report, _ = self.diff(self.live, self.live, "--tolerance", "0")
            counts = {each["name"]: each["requests"]["a"] for each in report["types"]}
            self.assertEqual(counts, {"get": 7})  # as in a recording
            self.assertTrue(all(each["most"]["a"] for each in report["queues"]), report["queues"])
            self.end(server)

    def test_a_trace_ends_at_its_events(self):
        with Server("--trace", self.live, "--trace-events", "20") as server:
            for _ in range(50):
                server.call("GET", "a")
            eventually(lambda: server.call("CONFIG", "GET", "tracing") == [b"tracing", b"no"])
            with open(self.live, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            self.assertEqual(sum(event["ph"] != "M" for event in events), 20)
            self.end(server)
            self.assertIn("20 events that it may have", server.output())

    def test_mistakes_with_traces_are_one_line(self):
        for args, said in ((["serve", "spin", "--trace", ""], "--trace"),
                           (["serve", "spin", "--trace-events", "0"], "--trace-events"),
                           (["serve", "spin", "--trace", self.live, "--tracing", "x"],
                            "--tracing"),
                           (["serve", "spin", "--tracing", "no"], "--tracing: needs --trace"),
                           (["serve", "spin", "--trace-events", "5"], "--trace-events: needs"),
                           (["serve", "spin", "--recording", "no"], "--recording: needs --record"),
                           (["serve", "spin", "--record-limit", "5"], "--record-limit: needs"),
                           (["trace", "diff", self.live], "TRACE"),
                           (["trace", "diff", "/nowhere", "/nowhere"], "/nowhere"),
                           (["trace", "diff", __file__, __file__], "is no whole JSON")):
            status, text = refused(*args)
            self.assertEqual((status, text.count("\n")), (2, 1), text)
            self.assertIn(said, text)


if __name__ == "__main__":
    unittest.main()
