# SPDX-License-Identifier: Apache-2.0
"""What a sweep consists of, its keys and its seeds; without Dask."""

import tempfile
import unittest
from pathlib import Path

from rubato_lab.program import RubatoError
from rubato_lab.sweep import intervals, spec

SPEC = """
[run]
workload = "profile:traffic.json"
[axes]
policy = ["fcfs", "ps"]
"set.quantum" = ["1us", "5us"]
[seeds]
least = 2
most = 9
until = "p99_latency=10%"
"""


class Spec(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        (self.folder / "traffic.json").write_text("one", encoding="utf-8")

    def load(self, text=SPEC, version="1"):
        (self.folder / "sweep.toml").write_text(text, encoding="utf-8")
        return spec.load(self.folder / "sweep.toml", version)

    def refused(self, text):
        with self.assertRaises(RubatoError) as raised:
            self.load(text)
        self.assertNotIn("\n", str(raised.exception))
        return str(raised.exception)

    def test_every_combination_is_a_point(self):
        points = self.load().points
        self.assertEqual(len({point.key for point in points}), 4)
        self.assertIn(("set", ("quantum=1us",)), points[0].options)

    def test_keys_follow_version_options_seed_and_contents_but_not_folders(self):
        before = self.load().points
        self.assertEqual(before, self.load().points)
        self.assertNotEqual(before[0].run_key(1), before[0].run_key(2))
        self.assertNotEqual(before[0].key, self.load(version="2").points[0].key)
        (self.folder / "traffic.json").write_text("two", encoding="utf-8")
        self.assertNotEqual(before[0].key, self.load().points[0].key)
        (self.folder / "traffic.json").rename(self.folder / "other.json")
        (self.folder / "other.json").write_text("one", encoding="utf-8")
        moved = self.load(SPEC.replace("traffic", "other"))
        self.assertEqual(before[0].key, moved.points[0].key)
        self.assertNotIn(str(self.folder), " ".join(moved.points[0].words(1)))

    def test_bad_specifications_are_refused_by_name(self):
        for change, said in ((("[run]", "[runs]"), "'runs' is no key"),
                             (("least", "lest"), "'lest' is no key"),
                             (('["fcfs", "ps"]', '"fcfs"'), "axes.policy takes a list"),
                             (('"fcfs", "ps"', '"ps", "ps"'), "a value twice"),
                             (("traffic", "nosuch"), "nosuch.json: No such file"),
                             (("10%", "ten"), "seeds.until takes"),
                             (("least = 2", "least = 1"), "seeds.least takes"),
                             (("[axes]", "seed = 3\n[axes]"), "'seed' is not an option"),
                             (("[axes]", "axes"), "line")):
            with self.subTest(said):
                self.assertIn(said, self.refused(SPEC.replace(*change)))


class Intervals(unittest.TestCase):
    SEEDS = spec.Seeds(1, 2, 9, "p99_latency", 0.1)

    def test_seeds_are_added_until_the_interval_is_as_asked(self):
        self.assertEqual(intervals.wanted(self.SEEDS, {}), 2)
        self.assertEqual(intervals.wanted(self.SEEDS, {1: 100, 2: 100}), 2)
        self.assertEqual(intervals.wanted(self.SEEDS, {1: 100, 2: 120}), 4)
        self.assertEqual(intervals.wanted(self.SEEDS, {1: 100, 2: 120, 3: 110}), 4)
        self.assertEqual(intervals.wanted(self.SEEDS, {s: 100.0 * s for s in range(1, 10)}), 9)

    def test_later_seeds_do_not_change_what_earlier_ones_asked_for(self):
        known = {1: 100, 2: 101, 5: 1000}
        self.assertEqual(intervals.wanted(self.SEEDS, known), 2)

    def test_quantiles_are_those_of_student(self):
        for freedom, quantile in ((1, 12.706), (10, 2.228), (11, 2.201), (29, 2.045),
                                  (1000, 1.962)):
            self.assertAlmostEqual(intervals.quantile(freedom), quantile, delta=0.003)


if __name__ == "__main__":
    unittest.main()
