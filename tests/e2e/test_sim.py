# SPDX-License-Identifier: Apache-2.0
"""`rubato sim` as a user meets it: figures that repeat, sweeps, traces, clear refusals."""

import json
import os
import re
import struct
import subprocess
import tempfile
import unittest
import zlib

from server import BINARY, PATIENCE_S, interrupted

SMALL = ["--policy", "synergy", "--workers", "4", "--requests", "30000"]
ONE = ["--policy", "synergy", "--workers", "4", "--requests"]
RUN_KEYS = {"schema", "kind", "policy", "workers", "workload", "seed", "offered_rps",
            "achieved_rps", "load", "requests", "refused", "lost", "valid", "latency_us",
            "slowdown", "types", "counters", "utilization", "wall_s", "cost_model", "machine",
            "version"}
COUNTERS = {"preemptions", "preemptions_avoided", "steals", "stolen", "wait_queue_max",
            "migrations", "parked"}


def sim(*args, **kwargs):
    return subprocess.run([BINARY, "sim", *args], capture_output=True, text=True,
                          timeout=10 * PATIENCE_S, check=False, **kwargs)


def report(*args):
    """The JSON of a run that ends well."""
    done = sim(*args, "--json", "-")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Figures(unittest.TestCase):
    def test_a_policy_is_all_it_needs(self):
        done = sim("--policy", "cfcfs", "--max-requests", "1000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("16 workers", done.stdout)
        self.assertIn("million per second", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_the_report_has_every_key_and_adds_up(self):
        run = report(*SMALL)
        self.assertLessEqual(RUN_KEYS, run.keys())
        self.assertEqual((run["schema"], run["kind"], run["policy"], run["workers"]),
                         ("rubato.run/1", "sim", "synergy", 4))
        self.assertLessEqual({"mean", "p50", "p90", "p99", "p999", "max"}, run["latency_us"].keys())
        self.assertLessEqual({"mean", "p50", "p99", "p999"}, run["slowdown"].keys())
        self.assertLessEqual(COUNTERS, run["counters"].keys())
        self.assertEqual([t["name"] for t in run["types"]], ["short", "long"])
        counts = sum(t["count"] + t["refused"] + t["lost"] for t in run["types"])
        self.assertEqual(counts, run["requests"])
        self.assertEqual(run["simulation"]["requests"], 30000)
        self.assertAlmostEqual(run["load"], 0.7)
        self.assertTrue(run["valid"])

    def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(self):
        sweep = [*SMALL, "--loads", "0.2:0.8:0.2", "--seeds", "3", "--no-wall", "--json", "-"]
        one = sim(*sweep, "--threads", "1")
        two = sim(*sweep, "--threads", "2")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertEqual(one.stdout, two.stdout)
        other = sim(*sweep, "--seed", "9")
        self.assertNotEqual(one.stdout, other.stdout)

    def test_without_no_wall_only_the_wall_time_differs(self):
        first, second = report(*SMALL), report(*SMALL)
        self.assertGreater(first.pop("wall_s"), 0)
        second.pop("wall_s")
        self.assertEqual(first, second)

    def test_a_rate_is_a_load(self):
        run = report(*SMALL, "--workload", "fixed-1", "--rate", "2e+06")
        self.assertAlmostEqual(run["load"], 0.5)
        self.assertAlmostEqual(run["achieved_rps"], 2e6, delta=0.05 * 2e6)

    def test_an_overloaded_run_says_so_and_achieves_its_capacity(self):
        run = report(*SMALL, "--workload", "fixed-1", "--load", "2")
        self.assertEqual((run["valid"], run["invalid_reason"], run["verdict"]),
                         (False, "overloaded", "overloaded"))
        self.assertAlmostEqual(run["offered_rps"], 8e6)
        self.assertAlmostEqual(run["achieved_rps"], 4e6, delta=0.01 * 4e6)

    def test_a_sweep_has_a_run_per_load_in_order(self):
        sweep = report(*SMALL, "--loads", "0.3:0.9:0.3")
        self.assertEqual(sweep["schema"], "rubato.sweep/1")
        self.assertEqual([round(run["load"], 9) for run in sweep["runs"]], [0.3, 0.6, 0.9])
        for run in sweep["runs"]:
            self.assertLessEqual(RUN_KEYS, run.keys())
            self.assertGreater(run["confidence"]["latency_us"]["mean"], 0)
        listed = report(*SMALL, "--loads", "0.9,0.3")
        self.assertEqual([round(run["load"], 9) for run in listed["runs"]], [0.9, 0.3])

    def test_several_seeds_have_a_confidence(self):
        run = report(*SMALL, "--seeds", "4")
        self.assertEqual(run["simulation"]["seeds"], 4)
        confidence = run["confidence"]
        self.assertEqual(confidence["level"], 0.95)
        self.assertGreater(confidence["latency_us"]["mean"], 0)
        self.assertEqual(len(confidence["types"]), len(run["types"]))
        singles = [report(*SMALL, "--seed", str(seed)) for seed in (1, 2, 3, 4)]
        self.assertAlmostEqual(run["latency_us"]["mean"],
                               sum(single["latency_us"]["mean"] for single in singles) / 4)
        self.assertEqual(run["requests"], sum(single["requests"] for single in singles))

    def test_tables_show_seeds_and_loads(self):
        done = sim(*SMALL, "--loads", "0.3,0.6", "--seeds", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("seeds 1 to 2", done.stdout)
        self.assertEqual(len(re.findall(r"^0\.[36] .*\+-", done.stdout, re.M)), 2, done.stdout)

    def test_settings_and_costs_matter_and_are_reported(self):
        ps = ["--policy", "ps", "--workers", "4", "--requests", "30000", "--load", "0.3"]
        plain = report(*ps)
        slow = report(*ps, "--set", "quantum=100us")
        self.assertNotEqual(plain["latency_us"], slow["latency_us"])
        self.assertEqual(slow["settings"]["quantum"], "100us")
        testbed = report(*ps, "--costs", "synergy-testbed")
        self.assertEqual(testbed["cost_model"], "synergy-testbed")
        self.assertGreater(testbed["latency_us"]["p50"], plain["latency_us"]["p50"])

    def test_every_kind_of_workload_runs(self):
        for args in (["--workload", "a:1us:1,b:exp(10us):1"], ["--workload", "tpcc"],
                     ["--arrivals", "uniform"], ["--arrivals", "onoff"], ["--arrivals", "batch:4"],
                     ["--arrivals", "bursty"], ["--flows", "8"], ["--flows", "100:in-turn"],
                     ["--zipf", "0.99"], ["--misclassify", "random"], ["--misclassify", "0.1"],
                     ["--phase", "1ms:high-bimodal", "--phase", "2ms@100000:exp-1"],
                     ["--classify", "feedback", "--long-over", "1us"], ["--classify", "learned"],
                     ["--classify", "declared"], ["--overload", "aqm"], ["--warmup", "0"]):
            with self.subTest(args=args):
                self.assertTrue(report(*SMALL, *args)["valid"])

    def test_what_is_long_is_told_by_age_as_in_a_server_unless_told(self):
        self.assertEqual(report(*SMALL)["settings"]["classify"], "age")
        said = report(*SMALL, "--classify", "feedback")
        self.assertEqual(said["settings"]["classify"], "feedback")

    def test_an_overloaded_server_refuses_who_waits_for_too_long(self):
        busy = ["--policy", "cfcfs", "--workers", "4", "--requests", "30000", "--load", "2"]
        patient = report(*busy, "--overload", "aqm")
        brisk = report(*busy, "--overload", "aqm", "--target-delay", "100us",
                       "--overload-patience", "0", "--overload-budget", "1")
        self.assertEqual(sum(t["refused"] for t in patient["types"]), 0)
        self.assertGreater(sum(t["refused"] for t in brisk["types"]), 0)
        self.assertLess(brisk["latency_us"]["p99"], patient["latency_us"]["p99"])

    def test_recorded_times_and_requests_are_replayed(self):
        with tempfile.TemporaryDirectory() as folder:
            times = os.path.join(folder, "times")
            with open(times, "w", encoding="ascii") as file:
                file.writelines(f"{i * 10}\n" for i in range(100))
            run = report(*SMALL, "--workload", "fixed-1", "--arrivals", "trace:" + times)
            self.assertAlmostEqual(run["offered_rps"], 1e5)
            many = sim(*SMALL, "--workload", "fixed-1", "--arrivals", "trace:" + times)
            self.assertIn("only 100 were recorded, which come again", many.stderr)
            once = report(*SMALL[:4], "--workload", "fixed-1", "--arrivals",
                          "trace:" + times)
            self.assertEqual(once["simulation"]["requests"], 100)
            requests = os.path.join(folder, "requests")
            with open(requests, "w", encoding="ascii") as file:
                file.writelines(f"{i * 10},2,short,{i % 3}\n" for i in range(100))
            run = report("--policy", "fcfs", "--workers", "1", "--warmup", "0",
                         "--recording", requests)
            self.assertEqual((run["requests"], run["latency_us"]["max"]), (100, 2.0))
            again = sim("--policy", "fcfs", "--workers", "1", "--recording", requests,
                        "--requests", "4000")
            self.assertEqual(again.returncode, 0)
            self.assertEqual(again.stderr, "rubato: --requests 4000: only 100 were recorded, which "
                                           "come again; intervals count them once\n")
            self.assertRegex(again.stdout, r"(?m)^short .* 2\.00us\+-\? ")

    def test_a_type_called_all_is_not_taken_for_the_sum(self):
        done = sim(*SMALL, "--workload", "all:1us:1,other:2us:1")
        self.assertEqual(re.findall(r"(?m)^all\w* *\w*", done.stdout.replace("  ", "\t")),
                         ["all", "all types"])

    def test_latencies_beyond_what_is_measured_are_told(self):
        done = sim("--policy", "cfcfs", "--workers", "1", "--workload", "a:4000s:1",
                   "--load", "0.9", "--requests", "300")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^\d+ latencies of 4398\.05s or more count as that: ")

    def test_explain_comes_before_the_figures(self):
        done = sim(*SMALL, "--explain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(done.stdout.index("\nlatency"), 100)


class OverTime(unittest.TestCase):
    ARGS = ["--policy", "darc", "--workers", "4", "--set", "window=2000", "--workload",
            "a:100us:50,b:1us:50", "--phase", "400ms:a:1us:50,b:100us:50", "--load", "0.8",
            "--requests", "50000", "--warmup", "0"]

    def test_a_change_shows_in_its_windows_only(self):
        run = report(*self.ARGS, "--over-time", "20ms")
        timeline = run["over_time"]
        self.assertEqual(timeline["window_us"], 20000)
        windows = timeline["windows"]
        self.assertEqual([w["from_us"] for w in windows[:3]], [0, 20000, 40000])
        for number, kind in enumerate(run["types"]):
            of_type = [w["types"][number] for w in windows]
            self.assertEqual({t["name"] for t in of_type}, {kind["name"]})
            self.assertEqual(sum(t["count"] for t in of_type), kind["count"])
            self.assertEqual(max(t["max_us"] for t in of_type), kind["latency_us"]["max"])
        before, after = windows[18], windows[21]
        self.assertGreater(before["types"][0]["p50_us"], 90)
        self.assertLess(before["types"][1]["p50_us"], 60)
        self.assertGreater(after["types"][1]["p50_us"], 90)

    def test_the_table_and_the_log_have_the_windows(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "log.hlog")
            done = sim(*self.ARGS, "--over-time", "100ms", "--hdr", name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("over time, windows of 100ms", done.stdout)
            table = done.stdout.split("over time", 1)[1].splitlines()
            self.assertRegex(table[1], r"sent from +a p50 +p99 +p99.9 +b p50 +p99 +p99.9$")
            with open(name, encoding="ascii") as log:
                begins = [line.split(",")[1] for line in log if line.startswith("Tag=a")]
            self.assertEqual([float(b) for b in begins[:3]], [0.0, 0.1, 0.2])
            self.assertEqual(len(begins), len(table) - 2)

    def test_seeds_add_up_and_long_runs_get_longer_windows(self):
        run = report(*self.ARGS, "--seeds", "2", "--over-time", "1ms")
        self.assertEqual(run["over_time"]["window_us"], 2000)  # 512 of two types
        counts = [t["count"] for w in run["over_time"]["windows"] for t in w["types"]]
        self.assertEqual(sum(counts), 100000)

    def test_what_does_not_fit_is_refused(self):
        for more, word in ((["--over-time", "0"], "--over-time"),
                           (["--over-time", "soon"], "--over-time"),
                           (["--over-time", "1ms", "--find-max", "--slo", "p99_latency=1ms"],
                            "--find-max")):
            with self.subTest(more):
                done = sim(*SMALL, *more)
                self.assertEqual(done.returncode, 2)
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)


class Precision(unittest.TestCase):
    """Runs that go on until they know what was asked."""

    POLICY = ["--policy", "cfcfs", "--workload", "exp-10", "--workers", "2", "--load", "0.8"]

    def test_a_run_goes_on_until_it_is_precise_and_says_how_precise_it_is(self):
        coarse = report(*self.POLICY, "--until", "p99=20%")
        fine = report(*self.POLICY, "--until", "p99_latency=4%")
        self.assertGreater(fine["simulation"]["requests"], coarse["simulation"]["requests"])
        (target,) = fine["until"]["targets"]
        self.assertEqual((target["metric"], target["wanted"]), ("p99_latency", 0.04))
        self.assertLessEqual(target["reached"], 0.04)
        self.assertAlmostEqual(fine["confidence"]["latency_us"]["p99"] / fine["latency_us"]["p99"],
                               target["reached"])
        self.assertFalse(fine["until"]["bounded"])
        self.assertEqual((fine["verdict"], fine["verdict_reasons"]), ("steady", []))

    def test_the_most_requests_are_told_when_they_end_a_run(self):
        args = [*self.POLICY, "--until", "p999=0.1%", "--max-requests", "200000"]
        run = report(*args)
        self.assertEqual(run["simulation"]["requests"], 200000)
        self.assertTrue(run["until"]["bounded"])
        self.assertIn("--max-requests 200000 ended the run before it knew that\n",
                      sim(*args).stdout)

    def test_of_several_seeds_each_has_its_most_requests(self):
        args = [*self.POLICY, "--until", "p99=0.5%", "--max-requests", "200000", "--seeds", "4"]
        run = report(*args)
        self.assertTrue(run["until"]["bounded"])
        (target,) = run["until"]["targets"]
        self.assertAlmostEqual(run["confidence"]["latency_us"]["p99"] / run["latency_us"]["p99"],
                               target["reached"])
        self.assertIn("--max-requests 200000 ended 4 of 4 seeds before each knew that by itself "
                      "and was steady\n", sim(*args).stdout)

    def test_a_run_that_was_precise_but_not_steady_is_told_so(self):
        done = sim("--policy", "darc", "--workload", "high-bimodal", "--until", "mean=50%",
                   "--max-requests", "60000")
        self.assertIn("--max-requests 60000 ended the run before it was steady\n", done.stdout)

    def test_a_policy_that_still_learns_is_told(self):
        done = sim("--policy", "darc", "--workload", "zippydb", "--requests", "100000")
        self.assertRegex(done.stdout, "(?m)^not steady: the policy learns from the first 50000")

    def test_mistakes_are_one_line(self):
        for args, named in ((["--until", "p99=5us"], "as 5%"),
                            (["--until", "get:refused=5%"], "no metric 'get:refused'"),
                            (["--until", "p98=5%"], "no metric 'p98'; there is mean"),
                            (["--until", "frob:p99=5%"], "no type 'frob'"),
                            (["--until", "p99=5%", "--requests", "5"], "--requests"),
                            (["--until", "p99=5%", "--phase", "1ms:exp-1"], "--phase"),
                            (["--until", "p99=5%", "--sessions", "8"], "--sessions"),
                            (["--max-requests", "0"], "--max-requests")):
            with self.subTest(args=args):
                done = sim(*self.POLICY, *args)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(named, done.stderr)


class Traces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "trace.json")

    def trace(self, requests, *args):
        done = sim(*ONE, requests, "--trace", self.path, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)["traceEvents"]

    def test_what_one_worker_does_never_overlaps(self):
        for costs in ("ideal", "synergy-testbed"):
            events = self.trace("10000", "--load", "0.8", "--costs", costs)
            rows = {}
            for event in events:
                if event["ph"] == "X":
                    rows.setdefault(event["tid"], []).append(
                        (round(event["ts"] * 1000), round(event["dur"] * 1000)))
            self.assertEqual(len(rows), 4)
            for slices in rows.values():
                slices.sort()
                for (start, length), (after, _) in zip(slices, slices[1:]):
                    self.assertLessEqual(start + length, after)

    def test_requests_get_all_of_their_service(self):
        served = {}
        for event in self.trace("2000", "--workload", "fixed-20"):
            if event["ph"] == "X" and "request" in event.get("args", {}):
                request = event["args"]["request"]
                served[request] = served.get(request, 0) + round(event["dur"] * 1000)
        self.assertEqual(len(served), 2000)
        self.assertEqual(set(served.values()), {20000})

    def test_it_is_bounded_by_events_and_by_time(self):
        events = self.trace("30000", "--trace-events", "100")
        self.assertEqual(sum(event["ph"] != "M" for event in events), 100)
        window = self.trace("30000", "--trace-from", "1ms", "--trace-for", "100us")
        times = [event["ts"] for event in window if event["ph"] == "i" or event["ph"] == "C"]
        self.assertTrue(times)
        self.assertTrue(all(1000 <= at < 1100 for at in times))

    def test_a_full_disk_is_one_line_and_status_1(self):
        for args in (["--trace", "/dev/full"], ["--json", "/dev/full"]):
            done = sim(*SMALL, *args)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr,
                             "rubato: cannot write '/dev/full': No space left on device\n")


class RequestTraces(unittest.TestCase):
    """Files rubato.trace/1, which docs/TRACES.md explains."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "requests.trace")

    def replay(self, names):
        """Of a trace with one request of each name, 1 us apart, of 1 us each."""
        def number(value):
            text = b""
            while value >= 128:
                text, value = text + bytes([value & 127 | 128]), value >> 7
            return text + bytes([value])

        def chunk(kind, payload):
            return kind + struct.pack("<3xII", len(payload), zlib.crc32(payload)) + payload

        types = b"".join(number(len(name)) + name.encode() for name in names)
        requests = b"".join(number(1000) + number(2 * i) + number(0) * 2 + number(1000)
                            for i in range(len(names)))
        with open(self.path, "wb") as file:
            file.write(b"RUBATRC1" + chunk(b"T", number(len(names)) + types) +
                       chunk(b"R", number(len(names)) + requests))
        done = sim("--policy", "cfcfs", "--workers", "4", "--warmup", "0", "--workload",
                   "trace:" + self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_a_trace_has_as_many_types_as_a_workload(self):
        done = self.replay([f"t{i}" for i in range(1024)])
        self.assertEqual((len(re.findall(r"(?m)^t\d+ ", done.stdout)), done.stderr), (1024, ""))
        self.assertNotIn("(others)", done.stdout)

    def test_types_that_are_not_told_apart_are_told(self):
        done = self.replay([f"t{i}" for i in range(1030)])
        self.assertRegex(done.stdout, r"(?m)^\(others\) +7 ")
        self.assertEqual(done.stderr, f"rubato: '{self.path}' has 1030 types; the rarest beyond "
                                      "1023 count as one, (others)\n")
        done = self.replay(["x", "y", "x"])
        self.assertRegex(done.stdout, r"(?m)^x +2 ")
        self.assertEqual(done.stderr,
                         f"rubato: '{self.path}' has two types 'x', which count as one\n")


class SessionsAndCores(unittest.TestCase):
    COMMAND = ("--policy", "steal", "--workload", "exp-10", "--costs", "coresync-testbed",
               "--sessions", "100", "--requests", "30000")

    def test_what_was_offered_is_served_refused_or_shed(self):
        run = report(*self.COMMAND, "--cores", "coresync", "--load", "1.2",
                     "--overload", "credits", "--cores-set", "r=20", "--target-delay", "60us")
        counts = sum(t["count"] + t["refused"] + t["lost"] for t in run["types"])
        self.assertEqual(counts + run["elastic"]["unsent_by_clients"], run["requests"])
        self.assertGreater(run["elastic"]["unsent_by_clients"], 0)
        self.assertEqual(run["settings"]["cores.r"], "20")
        self.assertEqual(run["settings"]["target_delay_us"], "60")

    def test_people_are_told_of_cores_and_credits(self):
        done = sim(*self.COMMAND, "--cores", "reactive", "--load", "0.2", "--explain")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"cores \d+\.\d+ on average, \d+\.\d % for best-effort work")
        self.assertIn("cores are allocated by 'reactive'", done.stdout)

    def test_without_them_nothing_is_said_of_them(self):
        self.assertNotIn("elastic", report("--policy", "steal", "--requests", "1000"))


class Limiters(unittest.TestCase):
    COMMAND = ("--policy", "cfcfs", "--workers", "4", "--workload", "exp-10", "--load", "2",
               "--requests", "50000", "--target-delay", "100us")

    def test_refusals_count_by_their_reason(self):
        for control, settings, reasons in (
                ("gradient", ("update_every=1ms",), ["limit"]),
                ("gradient2", ("update_every=1ms",), ["limit"]),
                ("cinnamon", ("update_every=2ms", "overload_after=5ms"), ["limit", "delay"]),
                ("dagor", ("window=1ms",), ["limit"])):
            with self.subTest(control=control):
                args = [arg for one in settings for arg in ("--overload-set", one)]
                run = report(*self.COMMAND, "--overload", control, *args)
                self.assertEqual(sum(run["refusals"].values()), run["refused"])
                for reason, count in run["refusals"].items():
                    self.assertEqual(count > 0, reason in reasons, reason)
                self.assertGreater(run["limiter"]["decisions"], 10)
                self.assertEqual(run["settings"]["overload"], control)
                self.assertLess(run["limiter"]["mean_levels"], 1.001)
                self.assertEqual(run["limiter"]["mean_requests"] > 0,
                                 control.startswith("gradient"))


class Refusals(unittest.TestCase):
    def test_bad_input_is_one_line_that_names_the_option_and_status_2(self):
        base = ["--policy", "synergy"]
        for args, named in (
                ([], "--policy"), (["--policy", "nonsense"], "--policy"),
                ([*base, "--workers", "0"], "--workers"),
                ([*base, "--workers", "4097"], "--workers"),
                ([*base, "--workload", "nonsense"], "--workload"),
                ([*base, "--workload", "a:10000s:1"], "--workload"),
                ([*base, "--load", "0"], "--load"), ([*base, "--load", "x"], "--load"),
                ([*base, "--load", "0.5", "--rate", "1000"], "--rate"),
                ([*base, "--rate", "0"], "--rate"), ([*base, "--requests", "-1"], "--requests"),
                ([*base, "--rate", "0.001"], "--requests"),
                ([*base, "--set", "frob=1"], "--set"), ([*base, "--set", "frob"], "--set"),
                ([*base, "--costs", "/nowhere"], "--costs"),
                ([*base, "--loads", "0.9:0.1:0.1"], "--loads"),
                ([*base, "--loads", "0.1:0.9:0.0001"], "--loads"),
                ([*base, "--loads", "0.1:0.9"], "--loads"), ([*base, "--loads", ""], "--loads"),
                ([*base, "--workload", "fixed-1ns", "--workers", "256", "--load", "1"], "--load"),
                ([*base, "--arrivals", "often"], "--arrivals"),
                ([*base, "--arrivals", "trace:/nowhere"], "--arrivals"),
                ([*base, "--flows", "0"], "--flows"), ([*base, "--zipf", "-1"], "--zipf"),
                ([*base, "--flows", "8:in-turn", "--zipf", "1"], "--flows"),
                ([*base, "--phase", "fixed-1"], "--phase"),
                ([*base, "--phase", "2s:fixed-1", "--phase", "1s:exp-1"], "--phase"),
                ([*base, "--misclassify", "2"], "--misclassify"),
                ([*base, "--recording", "/nowhere"], "--recording"),
                ([*base, "--classify", "x"], "--classify"), ([*base, "--warmup", "1"], "--warmup"),
                ([*base, "--long-over", "x"], "--long-over"), ([*base, "--seeds", "0"], "--seeds"),
                ([*base, "--threads", "0"], "--threads"),
                ([*base, "--trace", "x", "--seeds", "2"], "--trace"),
                ([*base, "--sessions", "0"], "--sessions"),
                ([*base, "--overload", "maybe"], "--overload"),
                ([*base, "--cores", "some"], "--cores"),
                ([*base, "--rpc-expire", "x"], "--rpc-expire"),
                ([*base, "--delay", "all"], "--delay"),
                ([*base, "--sessions", "9", "--guaranteed-cores", "17"], "--guaranteed-cores"),
                ([*base, "--cores-set", "r=20"], "--cores-set"),
                ([*base, "--cores", "coresync", "--cores-set", "frob=1"], "--cores-set"),
                ([*base, "--overload", "credits", "--credits-set", "alpha=-1"], "--credits-set"),
                ([*base, "--overload-set", "window=1s"], "--overload-set"),
                ([*base, "--overload", "dagor", "--overload-set", "frob=1"], "--overload-set"),
                (["--policy", "fcfs", "--cores", "static"], "--policy"),
                ([*base, "--frob"], "--frob")):
            with self.subTest(args=args):
                done = sim(*args)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(named, done.stderr)

    def test_ctrl_c_prints_what_there_is_and_is_status_1(self):
        status, out, err = interrupted("sim", "--policy", "cfcfs", "--requests", "100000000000",
                                       "--workload", "fixed-1", "--explain", "--json", "-")
        self.assertEqual(status, 1)
        self.assertTrue(err.endswith("rubato: stopped early\n"), err)
        run = json.loads(out)
        self.assertEqual((run["valid"], run["invalid_reason"]), (False, "stopped early"))


if __name__ == "__main__":
    unittest.main()
