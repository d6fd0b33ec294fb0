# SPDX-License-Identifier: Apache-2.0
"""`rubato tune` as a user meets it: a configuration file that servers take, and why it says so."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import tomllib
import unittest

from server import BINARY, PATIENCE_S, Server, interrupted

QUICK = ["--requests", "20000", "--seeds", "3", "--warmup", "0.1"]
WORK = ["--workload", "short:1us:9,long:100us:1", "--rate", "200000"]  # keeps 2.2 workers busy
GOAL = [*WORK, *QUICK, "--slo", "short:p99_slowdown=20", "--max-workers", "8"]
SEARCH = [*GOAL, "--policies", "fcfs,cfcfs,ps"]


def tune(*args):
    return subprocess.run([BINARY, "tune", *args], capture_output=True, text=True,
                          timeout=10 * PATIENCE_S, check=False)


def found(*args):
    """The text of a file that was found, and what it holds."""
    done = tune(*args)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout, tomllib.loads(done.stdout)


def line_of(text, label):
    return re.search(rf"(?m)^# {label} +(.*)$", text).group(1)


class Tune(unittest.TestCase):
    def test_servers_take_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "found.toml")
            done = tune(*GOAL, "--policies", "ps", "--output", path)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            with open(path, "rb") as file:
                config = tomllib.load(file)
            self.assertEqual(config["policy"], "ps")
            self.assertIn("quantum", config["set"])
            for program in ("spin", "kv"):
                with Server("--config", path, program=program) as server:
                    self.assertIn(f"policy ps, {config['workers']} worker(s)", server.output())
            # It was read, and not passed over: a setting that ps has not is refused.
            with open(path, "a", encoding="ascii") as file:
                file.write("frob = 1\n")
            refused = subprocess.run([BINARY, "serve", "spin", "--port", "0", "--config", path],
                                     capture_output=True, text=True, timeout=PATIENCE_S,
                                     check=False)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("frob", refused.stderr)

    def test_the_prediction_can_be_had_again(self):
        text, config = found(*SEARCH)
        command = shlex.split(line_of(text, "again"))
        self.assertEqual(command[0], "rubato")
        done = subprocess.run([BINARY, *command[1:], "--json", "-"], capture_output=True,
                              text=True, timeout=10 * PATIENCE_S, check=True)
        run = json.loads(done.stdout)
        self.assertEqual((run["policy"], run["workers"]), (config["policy"], config["workers"]))
        figure = run["slo"]["figures"][0]
        self.assertEqual(figure["verdict"], "met")
        self.assertIn(f"short:p99_slowdown {figure['figure']:.2f}+-{figure['half_width']:.2f} ",
                      line_of(text, "predicted"))

    def test_a_profile_is_its_types_and_arrivals_at_its_own_rate(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")
            with open(path, "w", encoding="ascii") as file:
                json.dump({"schema": "rubato.profile/1", "arrivals": {"rate_rps": 150000},
                           "types": [{"name": "get", "count": 9000,
                                      "service_ns": [[0, 1, 0], [2000, 2001, 9000]]},
                                     {"name": "scan", "count": 1000,
                                      "service_ns": [[0, 1, 0], [90000, 90001, 1000]]}]}, file)
            args = [*QUICK, "--policies", "cfcfs,ps", "--slo", "get:p99_slowdown=20"]
            text, _ = found("--from-profile", path, *args)
            self.assertIn("profile arrivals, 150.0 krps", line_of(text, "workload"))
            done = subprocess.run([BINARY, *shlex.split(line_of(text, "again"))[1:]],
                                  capture_output=True, text=True, timeout=10 * PATIENCE_S,
                                  check=True)
            said = re.search(r"get:p99_slowdown (\S+) ", line_of(text, "predicted")).group(1)
            self.assertIn(f"SLO met: get:p99_slowdown {said} ", done.stdout)
            self.assertEqual(found("--workload", f"profile:{path}", *args)[0], text)
            other, _ = found("--from-profile", path, "--rate", "60000", *args)
            self.assertIn("60.0 krps", line_of(other, "workload"))

    def test_no_fewer_workers_would_do(self):
        text, config = found(*GOAL, "--policies", "cfcfs")
        self.assertGreater(config["workers"], 3)  # of the load alone
        command = shlex.split(line_of(text, "again"))
        at = command.index("--workers")
        command[at + 1] = str(config["workers"] - 1)
        done = subprocess.run([BINARY, *command[1:], "--json", "-"], capture_output=True,
                              text=True, timeout=10 * PATIENCE_S, check=True)
        self.assertNotEqual(json.loads(done.stdout)["slo"]["verdict"], "met")

    def test_settings_orders_of_magnitude_from_the_default_are_found(self):
        # A preemption costs more than the default quantum of 10 us: with that ps serves nobody.
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as costs:
            costs.write('[machine]\nname = "dear"\n[preemption]\nclock = "self"\n'
                        'receive = "20us"\ndone = "20us"\n')
            costs.flush()
            text, config = found("--workload", "short:100us:90,long:10ms:10", "--rate", "4400",
                                 "--slo", "short:p99_slowdown=10,long:p99_slowdown=10",
                                 "--costs", costs.name, "--policies", "ps", *QUICK)
        self.assertLessEqual(config["workers"], 8)
        self.assertGreater(float(config["set"]["quantum"].removesuffix("us")), 50)
        self.assertRegex(line_of(text, "certainty"),
                         rf"sure that {config['workers'] - 1} would not do: the best found is ps")

    def test_a_policy_that_still_learns_is_told(self):
        done = tune(*WORK, *QUICK, "--policies", "darc", "--slo", "p99_latency=1s")
        self.assertIn("darc learns from the first 50000 requests", done.stderr)

    def test_it_says_what_was_assumed(self):
        text, _ = found(*SEARCH, "--arrivals", "uniform", "--seed", "7")
        for label, said in (("SLO", "short:p99_slowdown <= 20, refused <= 0"),
                            ("workload", "uniform arrivals, 200.0 krps, 512 flows"),
                            ("machine", "costs ideal"), ("seeds", "7 chose the settings, 8 to 1"),
                            ("searched", "fcfs cfcfs ps; ")):
            self.assertIn(said, line_of(text, label))
        self.assertRegex(line_of(text, "searched"), r"\d+ runs of 20000 requests")
        ranked = re.findall(r"(?m)^#   (\S+) \(\S+\) +(\w+)", text)
        self.assertEqual({policy for _, policy in ranked}, {"fcfs", "cfcfs", "ps"})
        self.assertEqual(ranked, sorted(ranked, key=lambda rank: float(rank[0])))

    def test_the_same_seed_gives_the_same_file_on_any_number_of_threads(self):
        one = tune(*SEARCH, "--threads", "1")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertEqual(one.stdout, tune(*SEARCH, "--threads", "2").stdout)

    def test_the_classification_is_the_one_that_was_simulated(self):
        self.assertEqual(found(*SEARCH)[1]["classify"], "age")
        self.assertEqual(found(*SEARCH, "--classify", "feedback")[1]["classify"], "feedback")

    def test_what_cannot_be_met_is_said_with_the_best_there_is(self):
        done = tune(*WORK, *QUICK, "--policies", "fcfs,cfcfs", "--max-workers", "4",
                    "--slo", "short:p50_latency=0.5us")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr,
                         r"^rubato: no configuration of up to 4 workers meets short:p50_latency <= "
                         r"500ns, refused <= 0, nor do 256; the best found is \w+ with 4 workers: "
                         r"short:p50_latency 1.00us .*; \d+ runs\n$")
        few = tune(*SEARCH[:4], *QUICK, "--max-workers", "2", "--slo", "p99_latency=1s")
        self.assertEqual(few.returncode, 1)
        self.assertEqual(few.stderr, "rubato: the work alone takes 3 workers at --max-load 0.9; "
                                     "--max-workers is 2\n")

    def test_runs_are_bounded(self):
        done = tune(*SEARCH, "--max-runs", "30")
        if done.returncode == 0:
            self.assertLessEqual(int(re.search(r"(\d+) runs of", done.stdout).group(1)), 30)
        self.assertIn("--max-runs", done.stderr)
        none = tune(*SEARCH, "--max-runs", "1")
        self.assertEqual(none.returncode, 1)
        self.assertIn("0 runs, which is all that --max-runs allows", none.stderr)

    def test_percentiles_of_few_requests_are_warned_of(self):
        done = tune(*WORK, *QUICK, "--policies", "ps", "--slo", "long:p999_latency=1s")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--slo: long:p999_latency of a run has", done.stderr)

    def test_ctrl_c_and_full_disks_are_status_1(self):
        self.assertEqual(tune(*SEARCH, "--output", "/dev/full").stderr,
                         "rubato: cannot write '/dev/full': No space left on device\n")
        self.assertEqual(interrupted("tune", *WORK, "--slo", "p99_latency=1ms", "--requests",
                                     "10000000000"),
                         (1, "", "rubato: stopped early\n"))

    def test_mistakes_are_one_line(self):
        slo = ["--slo", "p99_latency=1ms"]
        rate = ["--rate", "1000"]
        work = ["--workload", "fixed-1"]
        for args, named in (([*slo, *rate], "--workload"), ([*work, *rate], "--slo"),
                            ([*work, *slo], "--rate"), ([*work, *slo, "--rate", "0"], "--rate"),
                            ([*slo, *rate, "--workload", "frob"], "--workload"),
                            ([*work, *rate, "--slo", "x:p99_latency=1ms"], "--slo"),
                            ([*work, *rate, *slo, "--max-workers", "0"], "--max-workers"),
                            ([*work, *rate, *slo, "--policies", "frob"], "--policies"),
                            ([*work, *rate, *slo, "--policies", "ps,ps"], "--policies"),
                            ([*work, *rate, *slo, "--max-load", "2"], "--max-load"),
                            ([*work, *rate, *slo, "--costs", "/nowhere"], "--costs"),
                            ([*work, *slo, "--from-profile", "/nowhere"], "--from-profile"),
                            ([*slo, "--from-profile", "/nowhere"],
                             "--from-profile: cannot read '/nowhere'"),
                            ([*slo, *rate, "--workload", "profile:/nowhere"], "--workload"),
                            ([*work, *rate, *slo, "--load", "0.5"], "--load")):
            with self.subTest(args=args):
                done = tune(*args)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(named, done.stderr)


if __name__ == "__main__":
    unittest.main()
