# SPDX-License-Identifier: Apache-2.0
import json
import tempfile
import unittest
from pathlib import Path

import samples
from rubato_lab import calibration, contenders, machine, options, run_report


class Reports(unittest.TestCase):
    def test_a_report_is_read_with_its_distributions_and_timeline(self):
        report = run_report.from_object(samples.report_object(300.0))
        self.assertEqual(report.latency("get", "p999"), 300.0)
        self.assertEqual(len(report.type_named("get").ccdf), 60)
        self.assertEqual(report.timeline[3][0], 0.3)
        self.assertEqual(report.slice_s, 0.1)
        self.assertIsNone(report.latency("lrange", "p99"))

    def test_what_no_stall_touched_is_read_if_there_is_enough_of_it(self):
        data = samples.report_object(300.0)
        report = run_report.from_object(data)
        self.assertEqual(report.undisturbed_latency("get", "p999"), 240.0)
        self.assertAlmostEqual(report.undisturbed_share("get"), 18000 / 19800)
        self.assertIsNone(report.undisturbed_latency("range", "p999"))
        self.assertIsNone(report.undisturbed_share("lrange"))

    def test_a_type_without_requests_has_no_latency(self):
        data = samples.report_object()
        data["types"][1]["count"] = 0
        self.assertIsNone(run_report.from_object(data).latency("range", "p99"))

    def test_what_is_optional_may_be_missing(self):
        data = samples.report_object()
        for key in ("noise", "timeline", "send_lag_us", "seed", "version", "undisturbed"):
            del data[key]
        for entry in data["types"]:
            del entry["ccdf"]
        self.assertEqual(run_report.from_object(data).noise, {})

    def test_a_missing_key_is_named(self):
        data = samples.report_object()
        del data["achieved_rps"]
        with self.assertRaisesRegex(run_report.ReportError, "achieved_rps"):
            run_report.from_object(data)

    def test_rubbish_and_absence_are_told_with_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.json"
            with self.assertRaisesRegex(run_report.ReportError, "x.json"):
                run_report.read(path)
            path.write_text("{")
            with self.assertRaisesRegex(run_report.ReportError, "not JSON"):
                run_report.read(path)
            path.write_text(json.dumps({"schema": "other/1"}))
            with self.assertRaisesRegex(run_report.ReportError, "rubato.run/1"):
                run_report.read(path)


class Machine(unittest.TestCase):
    STAT = ("cpu  30 0 20 100 0 0 0 5 0 0\n"
            "cpu0 10 0 10 50 0 1 1 2 0 0\ncpu1 20 0 10 50 0 0 0 3 0 0\nintr 5\n")

    def test_proc_stat_gives_busy_and_steal_per_core(self):
        cores = machine.parse_stat(self.STAT)
        self.assertEqual(sorted(cores), [0, 1])
        self.assertAlmostEqual(cores[0].busy * machine.TICKS_PER_S, 22)
        self.assertAlmostEqual(cores[1].steal * machine.TICKS_PER_S, 3)

    def test_noise_is_what_others_used(self):
        idle, busy = machine.CpuTimes(0, 0), machine.CpuTimes(3, 1)
        before = machine.Sample(0, {0: idle, 1: idle}, 0)
        after = machine.Sample(2, {0: busy, 1: idle}, 2)
        noise = machine.noise_between(before, after)
        self.assertEqual((noise.foreign, noise.steal), (0.5, 0.5))

    def test_cores_are_the_quietest_and_not_hyper_threads_of_each_other(self):
        pairs = {0: {0, 2}, 1: {1, 3}, 2: {0, 2}, 3: {1, 3}}
        self.assertEqual(machine.choose_cores({0, 1, 2, 3}, [1, 3, 0, 2], pairs.get), (2, 3))
        self.assertEqual(machine.choose_cores({0, 2}, [0, 2], pairs.get), (2, 0))
        self.assertEqual(machine.choose_cores({5}, [], lambda c: {c}), (5, 5))

    def test_this_machine_can_be_sampled(self):
        now = machine.sample()
        self.assertTrue(now.cores)
        self.assertGreaterEqual(machine.noise_between(now, machine.sample()).foreign, 0)
        self.assertIn("cores", machine.describe())


class Calibration(unittest.TestCase):
    def test_the_limit_is_found_when_the_cost_has_a_constant_part(self):
        limit, cost = calibration.choose_scan_limit(lambda n: 40 + n * 0.2, 1000, 100_000)
        self.assertAlmostEqual(cost, 1000, delta=100)
        self.assertAlmostEqual(limit, 4800, delta=500)

    def test_the_limit_stays_within_the_keys(self):
        self.assertEqual(calibration.choose_scan_limit(lambda n: n * 0.01, 1000, 2000)[0], 2000)

    def test_a_noisy_probe_ends(self):
        costs = iter([5000, 100, 7000, 50, 9000])
        calibration.choose_scan_limit(lambda _: next(costs), 1000, 100_000)

    def test_rates_can_be_typed_again(self):
        self.assertEqual(calibration.rate_for(40123, 0.5), 20000)
        self.assertEqual(calibration.rate_for(2999, 0.5), 1400)
        self.assertEqual(calibration.rate_for(150, 0.5), 75)

    def test_a_dead_server_is_no_calibration(self):
        with self.assertRaises(calibration.CalibrationFailed):
            calibration.choose_scan_limit(lambda _: 0.0, 1000, 100)
        with self.assertRaises(calibration.CalibrationFailed):
            calibration.rate_for(0.0, 0.5)


class Commands(unittest.TestCase):
    def load(self, **changes):
        base = dict(policy="ps", port=7000, mix="get:0.99,range:0.01", duration_s=7.0, keys=10,
                    value_size=32, scan_limit=50, seed=3, core=1, flows=64)
        return contenders.load_command(contenders.Load(**{**base, **changes}), "rubato", "o.json")

    def test_an_open_loop_has_a_rate_and_a_timeline(self):
        command = self.load(rate=12000.0)
        self.assertIn("--rate 12000", " ".join(command))
        self.assertIn("--timeline", command)
        self.assertIn("--ccdf", command)
        self.assertNotIn("--watch", command)
        self.assertIn("--watch 77", " ".join(self.load(watch=77)))
        self.assertNotIn("--closed", command)

    def test_a_closed_loop_has_clients_and_no_rate(self):
        command = self.load(closed=8, core=None)
        self.assertIn("--closed 8", " ".join(command))
        self.assertNotIn("--rate", command)
        self.assertNotIn("--cpu", command)

    def test_shares_add_up(self):
        self.assertEqual(contenders.mix_of("range", 0.01), "get:0.99,range:0.01")

    def test_quick_is_small_unless_told_otherwise(self):
        quick = options.parse(["--quick"])
        self.assertEqual((quick.repeats, quick.policies), (1, ["fcfs", "synergy"]))
        self.assertEqual(options.parse(["--quick", "--repeats", "2"]).repeats, 2)
        self.assertIsNone(options.parse(["--seconds", "60"]).limit_s)
        self.assertLess(options.parse([]).limit_s, 180)


if __name__ == "__main__":
    unittest.main()
