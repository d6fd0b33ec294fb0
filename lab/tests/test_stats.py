# SPDX-License-Identifier: Apache-2.0
import unittest
from statistics import median

from rubato_lab import stats, units


class Stats(unittest.TestCase):
    def test_spread_is_median_and_extremes_and_leaves_unknowns_out(self):
        found = stats.spread([3.0, None, 1.0, 10.0, float("nan")])
        self.assertEqual((found.mid, found.low, found.high), (3.0, 1.0, 10.0))
        self.assertIsNone(stats.spread([None]))

    def test_ratios_pair_neighbours_and_skip_what_is_missing(self):
        self.assertEqual(stats.ratios([10, None, 9, 4], [2, 5, 3, 0]), [5, 3])

    def test_value_at_and_share_beyond_read_the_curve_both_ways(self):
        curve = [(10, 0.5), (20, 0.1), (50, 0.001), (90, 0.0)]
        self.assertEqual(stats.value_at(curve, 0.1), 20)
        self.assertEqual(stats.value_at(curve, 0.01), 50)
        self.assertEqual(stats.share_beyond(curve, 5), 1.0)
        self.assertEqual(stats.share_beyond(curve, 30), 0.1)
        self.assertIsNone(stats.value_at([], 0.1))

    def test_the_median_curve_has_the_median_of_the_repeats_at_every_share(self):
        one = [(10, 0.5), (20, 0.1), (50, 0.001), (90, 0.0)]
        other = [(12, 0.4), (30, 0.01), (31, 0.0)]
        third = [(11, 0.3), (12, 0.2), (700, 0.0)]
        for curves in ([one], [one, other], [one, other, third]):
            middle = stats.median_ccdf(curves)
            for share in (0.9, 0.5, 0.45, 0.4, 0.2, 0.15, 0.1, 0.05, 0.01, 0.001, 0.0005, 0.0):
                self.assertEqual(stats.value_at(middle, share),
                                 median(stats.value_at(c, share) for c in curves), share)

    def test_the_median_of_one_curve_is_that_curve_and_of_none_is_none(self):
        curve = [(10, 0.5), (20, 0.1), (50, 0.001), (90, 0.0)]
        self.assertEqual(stats.median_ccdf([curve] * 3), curve)
        self.assertEqual(stats.median_ccdf([[], curve]), curve)
        self.assertEqual(stats.median_ccdf([[]]), [])

    def test_thinning_keeps_the_ends_and_what_can_be_drawn(self):
        curve = [(i, 1 - i / 10000) for i in range(10001)]
        kept = stats.thinned(curve)
        self.assertLess(len(kept), 500)
        self.assertEqual((kept[0], kept[-1]), (curve[1], curve[9999]))


class Units(unittest.TestCase):
    def test_latencies_change_unit_where_three_digits_end(self):
        for us, text in ((0.82, "0.82 µs"), (31.0, "31 µs"), (999.4, "999 µs"), (999.6, "1 ms"),
                         (7123.0, "7.12 ms"), (45_000.0, "45 ms"), (2.5e6, "2.5 s")):
            self.assertEqual(units.latency(us), text)
        self.assertEqual(units.latency(None), "-")

    def test_counts_shares_and_spreads(self):
        self.assertEqual(units.count(25010.4), "25 010")
        self.assertEqual(units.percent(0.00001), "0.001 %")
        self.assertEqual(units.significant(0.0123456), "0.0123")
        self.assertEqual(units.spread_of(stats.Spread(22.94, 18.2, 27.0)), "22.9 [18.2-27]")
        self.assertEqual(units.spread_of(stats.Spread(1.0, 1.0, 1.0)), "1")
        self.assertEqual(units.spread_of(None), "-")
        self.assertEqual(units.ends_of(stats.Spread(2, 840, 848), units.latency), "840–848 µs")
        self.assertEqual(units.ends_of(stats.Spread(2, 840, 1200), units.latency),
                         "840 µs–1.2 ms")
        self.assertEqual(units.ends_of(stats.Spread(2, 25892, 25951), units.count),
                         "25 892–25 951")


if __name__ == "__main__":
    unittest.main()
