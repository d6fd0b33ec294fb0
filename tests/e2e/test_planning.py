# SPDX-License-Identifier: Apache-2.0
"""Planning with the simulator as a user meets it: policies compared, the load an SLO allows."""

import json
import re
import subprocess
import unittest

from server import BINARY, PATIENCE_S, interrupted

SMALL = ["--workers", "4", "--requests", "30000"]


def rubato(command, *args):
    return subprocess.run([BINARY, command, *args], capture_output=True, text=True,
                          timeout=10 * PATIENCE_S, check=False)


def sim(*args):
    return rubato("sim", *args)


def report(*args):
    done = sim(*args, "--json", "-")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def policies():
    return [p["name"] for p in json.loads(rubato("policies", "--json").stdout)]


class OneLine(unittest.TestCase):
    def assert_refused(self, command, args, named):
        with self.subTest(args=args):
            done = rubato(command, *args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(named, done.stderr)


class Outputs(OneLine):
    def test_a_file_that_cannot_be_written_is_refused_before_the_work(self):
        load = ("--target", "resp://127.0.0.1:1")
        for command, args, option in (
                ("sim", ("--policy", "fcfs"), "--json"), ("sim", ("--policy", "fcfs"), "--hdr"),
                ("sim", ("--policy", "fcfs"), "--trace"), ("load", load, "--json"),
                ("load", load, "--hdr"), ("tune", (), "--output"), ("fleet", (), "--json"),
                ("fidelity", (), "--json"), ("fidelity", (), "--requests-csv"),
                ("calibrate", (), "--out"), ("calibrate", (), "--json"),
                ("report", ("merge",), "--json"), ("report", ("merge",), "--hdr"),
                ("report", ("page",), "--output"), ("trace", ("diff",), "--json"),
                ("bench", ("preempt",), "--json")):
            for path, why in (("/nowhere/x", "No such file or directory"),
                              ("/", "Is a directory")):
                self.assert_refused(command, [*args, option, path],
                                    f"{option}: cannot write '{path}': {why}")

    def test_fidelity_says_what_is_wrong_before_it_runs(self):
        for args, named in ((("--policies", "steel"), "--policies: takes one of fcfs"),
                            (("--loads", "0.5,0"), "--loads: takes shares above 0, up to 2, not "),
                            (("--policies", "ps,fcfs", "--set", "quantum=5us"),
                             "--set: fcfs has no option 'quantum'")):
            self.assert_refused("fidelity", args, named)


class Compare(OneLine):
    def test_every_policy_gets_the_same_requests(self):
        runs = report(*SMALL, "--compare", "all", "--workload", "a:1us:9,b:exp(20us):1",
                      "--load", "0.5")["runs"]
        self.assertEqual([run["policy"] for run in runs], policies())
        first = runs[0]

        def service_s(run):
            return run["simulation"]["useful_share"] * run["workers"] \
                * run["simulation"]["simulated_s"]

        for run in runs:
            self.assertEqual((run["requests"], run["refused"], run["lost"]),
                             (first["requests"], 0, 0))
            self.assertEqual([t["count"] for t in run["types"]],
                             [t["count"] for t in first["types"]])
            self.assertAlmostEqual(service_s(run) / service_s(first), 1, 9)

    def test_a_run_of_it_is_what_the_policy_alone_gives(self):
        compared = report(*SMALL, "--compare", "cfcfs,synergy", "--no-wall")
        self.assertEqual(compared["schema"], "rubato.compare/1")
        alone = report(*SMALL, "--policy", "synergy", "--no-wall")
        self.assertEqual(compared["runs"][1], alone)

    def test_the_table_has_a_row_per_policy_and_a_table_per_load(self):
        done = sim(*SMALL, "--compare", "fcfs,ps", "--loads", "0.3,0.6", "--seeds", "2",
                   "--slo", "p999_slowdown=100")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = re.findall(r"^(load 0\.\d|fcfs|ps)\b.*?(met|missed|unsure|offered)$", done.stdout,
                          re.M)
        self.assertEqual([row[0] for row in rows],
                         ["load 0.3", "fcfs", "ps", "load 0.6", "fcfs", "ps"], done.stdout)
        self.assertIn("+-", done.stdout)

    def test_one_policy_can_be_compared_too(self):
        self.assertEqual(len(report(*SMALL, "--compare", "ps")["runs"]), 1)

    def test_settings_reach_those_that_have_them(self):
        runs = report(*SMALL, "--compare", "fcfs,ps,tinyquanta", "--set", "quantum=20us",
                      "--set", "ps.quantum=1us")["runs"]
        self.assertEqual([run["settings"].get("quantum") for run in runs], [None, "1us", "20us"])

    def test_mistakes_are_one_line(self):
        for args, named in ((["--compare", "ps,frob"], "--compare"),
                            (["--compare", "ps,ps"], "twice"), (["--compare", ""], "--compare"),
                            (["--compare", "ps", "--policy", "fcfs"], "--compare"),
                            (["--compare", "ps,fcfs", "--set", "levels=1"], "none of ps, fcfs"),
                            (["--compare", "ps,fcfs", "--set", "fcfs.quantum=1us"], "--set"),
                            (["--compare", "ps,fcfs", "--set", "edf.check=1us"], "edf"),
                            (["--compare", "ps,fcfs", "--trace", "x"], "--trace"),
                            (["--compare", "ps,fcfs", "--slo", "p12_latency=1"], "p12_latency")):
            self.assert_refused("sim", args, named)

    def test_ctrl_c_prints_what_there_is(self):
        status, out, err = interrupted("sim", "--compare", "cfcfs,ps", "--requests",
                                       "100000000000", "--json", "-")
        self.assertEqual(status, 1)
        self.assertTrue(err.endswith("rubato: stopped early\n"), err)
        runs = json.loads(out)["runs"]
        self.assertEqual((runs[0]["policy"], runs[0]["valid"]), ("cfcfs", False))


class Slo(OneLine):
    def test_a_run_says_whether_it_was_met_and_ends_well_either_way(self):
        for limit, verdict in (("1ms", "met"), ("1us", "missed")):
            args = [*SMALL, "--policy", "synergy", "--slo", f"short:p99_latency={limit}"]
            done = sim(*args)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"SLO {verdict}: short:p99_latency", done.stdout)
            run = report(*args)
            self.assertEqual(run["slo"]["verdict"], verdict)
            self.assertEqual(run["slo"]["figures"][0]["figure"],
                             run["types"][0]["latency_us"]["p99"])
        self.assertNotIn("slo", report(*SMALL, "--policy", "synergy"))

    def test_refusals_are_misses_unless_they_are_allowed(self):
        overload = ["--policy", "cfcfs", "--workers", "1", "--workload", "fixed-1", "--load", "10",
                    "--requests", "1500000", "--slo", "p50_latency=10s"]
        run = report(*overload)
        self.assertGreater(run["refused"] + run["lost"], 0)
        self.assertEqual(run["slo"]["verdict"], "missed")
        self.assertNotEqual(report(*overload, "--slo", "refused=1")["slo"]["verdict"], "missed")

    def test_a_sweep_has_a_column_for_it(self):
        done = sim(*SMALL, "--policy", "cfcfs", "--loads", "0.1,0.95", "--slo",
                   "mean_slowdown=3", "--workload", "exp-10")
        self.assertEqual(re.findall(r"^0\.\d+ .* (\w+)$", done.stdout, re.M), ["met", "missed"])

    def test_percentiles_of_few_requests_are_warned_of(self):
        done = sim("--policy", "ps", "--requests", "5000", "--slo", "p999_slowdown=50")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^rubato: --slo: p999_slowdown .* --requests \d+ has ten\n$")
        many = sim("--policy", "ps", "--requests", "30000", "--slo", "p99_slowdown=50")
        self.assertEqual(many.stderr, "")


class FindMax(OneLine):
    FIND = ["--workers", "4", "--compare", "fcfs,ps", "--workload", "high-bimodal", "--slo",
            "p99_slowdown=20", "--find-max", "--precision", "0.05"]
    SHORT = [*FIND, "--requests", "30000", "--seeds", "2"]

    def test_the_load_found_meets_it_and_the_next_does_not(self):
        found = report(*self.FIND, "--requests", "30000", "--seeds", "1")
        self.assertEqual(found["schema"], "rubato.max/1")
        for result in found["results"]:
            load = result["load"]["mean"]
            self.assertEqual(result["per_seed"], [load])
            self.assertAlmostEqual(result["rate_rps"]["mean"], load * 4e6 / 50.5, 3)
            for at, verdict in ((load, "met"), (load + 0.05, "missed")):
                if 0 < at <= 1:
                    run = report(*SMALL, "--policy", result["policy"], "--workload",
                                 "high-bimodal", "--slo", "p99_slowdown=20", "--load", str(at))
                    met = run["slowdown"]["p99"] <= 20
                    self.assertEqual(met, verdict == "met", (result, at))
        self.assertGreater(found["results"][1]["load"]["mean"], found["results"][0]["load"]["mean"])

    def test_the_same_bytes_on_any_number_of_threads(self):
        args = [*self.SHORT, "--no-wall", "--json", "-"]
        one = sim(*args, "--threads", "1")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertEqual(one.stdout, sim(*args, "--threads", "2").stdout)

    def test_it_takes_five_seeds_unless_told(self):
        found = report(*self.FIND, "--requests", "10000")
        self.assertEqual(len(found["results"][0]["per_seed"]), 5)

    def test_limits_that_are_always_or_never_met_are_told_apart(self):
        loose = sim(*self.SHORT, "--max-load", "0.5", "--slo", "p99_latency=10s")
        self.assertRegex(loose.stdout, r"(?m)^ps +>= 0\.500 .* met at --max-load 0\.50$")
        tight = sim(*self.SHORT, "--slo", "p99_latency=1us")
        self.assertRegex(tight.stdout, r"(?m)^ps +0\.000.* missed even at load 0\.05$")

    def test_mistakes_are_one_line(self):
        base = ["--policy", "ps", "--find-max"]
        slo = ["--slo", "p99_latency=1ms"]
        for args, named in ((base, "--slo"), ([*base, *slo, "--load", "0.5"], "--load"),
                            ([*base, *slo, "--loads", "0.5,0.6"], "--loads"),
                            ([*base, *slo, "--rate", "5"], "--rate"),
                            ([*base, *slo, "--precision", "0"], "of 0.001 to 0.5, not '0'"),
                            ([*base, *slo, "--max-load", "0.005"], "--precision"),
                            ([*base, *slo, "--max-load", "x"], "--max-load"),
                            ([*base, *slo, "--trace", "x"], "--trace"),
                            (["--policy", "ps", "--max-load", "1"], "--find-max")):
            self.assert_refused("sim", args, named)

    def test_ctrl_c_and_full_disks_are_status_1(self):
        status, _, err = interrupted("sim", *self.FIND, "--requests", "100000000000")
        self.assertEqual((status, err), (1, "rubato: stopped early\n"))
        done = sim(*self.SHORT, "--json", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "rubato: cannot write '/dev/full': No space left on device\n")


if __name__ == "__main__":
    unittest.main()
