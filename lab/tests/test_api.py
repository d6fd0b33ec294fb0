# SPDX-License-Identifier: Apache-2.0
"""The package `rubato_lab` as a user calls it, with the real program; without the extras."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import rubato_lab as lab
from rubato_lab import extras, histogram, program

PROFILE = ('{"schema": "rubato.profile/1", "arrivals": {"rate_rps": 20000}, "types": ['
           '{"name": "get", "count": 99, "service_ns": [[5000, 5100, 1]]},'
           '{"name": "scan", "count": 1, "service_ns": [[400000, 600000, 1]]}]}')
ASKED = {"workload": "high-bimodal", "workers": 2, "requests": 5000}


@unittest.skipUnless(os.environ.get(program.ENVIRONMENT), "RUBATO_BINARY names no program")
class Api(unittest.TestCase):
    def test_no_name_hides_a_module(self):
        folder = Path(lab.__file__).parent
        modules = {path.stem for path in folder.glob("*.py")}
        modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
        self.assertEqual(modules & set(lab.__all__), set())

    def test_a_run_is_typed_and_repeats(self):
        run = lab.simulate("ps", load=0.6, **ASKED)
        self.assertEqual((run.policy, run.workers, run.load), ("ps", 2, 0.6))
        self.assertEqual([one.name for one in run.types], ["short", "long"])
        self.assertLess(run["short"].latency_us.p50, run["long"].latency_us.p50)
        self.assertEqual(run.digest, lab.simulate("ps", load=0.6, **ASKED).digest)
        self.assertNotEqual(run.digest, lab.simulate("ps", load=0.6, seed=2, **ASKED).digest)
        self.assertRaisesRegex(KeyError, "short, long", lambda: run["nosuch"])

    def test_histograms_agree_with_the_percentiles_of_the_program(self):
        run = lab.simulate("fcfs", load=0.8, **ASKED)
        for name, share in (("p50", 0.5), ("p90", 0.1), ("p99", 0.01)):
            value = next(at for at, beyond in run.ccdf() if beyond <= share)
            self.assertAlmostEqual(value / getattr(run.latency_us, name), 1, delta=0.01)
        self.assertEqual([histogram.low_of(i) for i in (0, 127, 128, 1856, 1857)],
                         [0, 127, 128, 1 << 34, 9 << 31])

    def test_policies_are_compared_at_loads(self):
        runs = lab.compare(["fcfs", "ps"], loads=[0.3, 0.6], **ASKED)
        self.assertEqual([(r.policy, r.load) for r in runs],
                         [("fcfs", 0.3), ("ps", 0.3), ("fcfs", 0.6), ("ps", 0.6)])
        figure = lab.plot_load(runs, "p99", backend="vega")
        self.assertEqual(len(figure["data"]["values"]), 4)
        self.assertRaisesRegex(lab.RubatoError, "not 'p98'", lab.plot_load, runs, "p98",
                               backend="vega")

    def test_loads_and_configurations_are_found(self):
        best = lab.find_max(["cfcfs", "ps"], slo="p99_slowdown=20", seeds=2, **ASKED)
        self.assertGreater(best["ps"].load, best["cfcfs"].load)
        found = lab.tune(slo={"short:p99_latency": "50us"}, workload="high-bimodal", rate=50000,
                         max_workers=3, requests=5000, policies=["cfcfs", "ps"])
        self.assertEqual((found.policy, found.workers), ("ps", 3))
        self.assertIn("short:p99_latency", found.notes["predicted"])

    def test_a_profile_is_a_workload(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "traffic.json"
            path.write_text(PROFILE, encoding="utf-8")
            found = lab.profile(path)
            self.assertEqual(found.types[0].service_us, 5.05)
            run = lab.simulate("ps", workload=found, workers=2, requests=2000)
            self.assertEqual([one.name for one in run.types], ["get", "scan"])
            path.write_text("{}", encoding="utf-8")
            self.assertRaisesRegex(lab.RubatoError, "no profile", lab.profile, path)

    def test_what_the_program_refuses_is_its_one_line(self):
        for options, said in (({"policy": "nosuch"}, "not 'nosuch'"), ({"nosuch": 1}, "--nosuch"),
                              ({"load": "x"}, "--load")):
            with self.assertRaisesRegex(lab.RubatoError, said) as raised:
                lab.simulate(**{"policy": "ps", **ASKED, **options})
            self.assertEqual(raised.exception.status, 2)
            self.assertNotIn("\n", str(raised.exception))


class Missing(unittest.TestCase):
    def test_a_missing_program_is_told(self):
        with mock.patch.dict(os.environ, {program.ENVIRONMENT: "/nonexistent"}):
            self.assertRaisesRegex(lab.RubatoError, "RUBATO_BINARY", program.path)

    def test_a_missing_package_names_its_extra(self):
        with mock.patch.dict(sys.modules, {"pandas": None}):
            self.assertRaisesRegex(lab.RubatoError, r"rubato-lab\[pandas\]", extras.need, "pandas")

    def test_nothing_but_the_standard_library_is_imported(self):
        code = ("import sys, rubato_lab; "
                "sys.exit(bool({'pandas', 'distributed', 'matplotlib'} & set(sys.modules)))")
        done = subprocess.run([sys.executable, "-c", code], check=False,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
