# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess
import sys
import unittest
from importlib.util import find_spec

import support  # noqa: F401, finds the tools

import scaling


def row(workers, policy="fcfs", answered=1.0, **counts):
    fields = {field: 10.0 for field, _, _, _ in scaling.COUNTS}
    return {"policy": policy, "workers": workers, **fields, "answered": answered, **counts}


class Slope(unittest.TestCase):
    def slope_of(self, rows):
        return scaling.slope(rows, "wakes")

    def test_a_count_that_stays_has_slope_0(self):
        self.assertAlmostEqual(self.slope_of([row(n, wakes=3) for n in (8, 16, 64)]), 0)

    def test_one_in_proportion_to_workers_has_slope_1(self):
        self.assertAlmostEqual(self.slope_of([row(n, wakes=0.5 * n) for n in (8, 32, 64)]), 1)

    def test_few_workers_and_rows_that_do_not_keep_up_are_left_out(self):
        rows = [row(4, wakes=90), row(8, wakes=3), row(16, wakes=3),
                row(64, answered=0.5, wakes=99)]
        self.assertAlmostEqual(self.slope_of(rows), 0)
        self.assertIsNone(self.slope_of(rows[:2]))


class CentralPart(unittest.TestCase):
    def has(self, *counts):
        rows = [row(8 << i, spinning_one_line=n) for i, n in enumerate(counts)]
        return scaling.has_central_part(rows)

    def test_a_line_that_each_request_writes_is_one(self):
        self.assertTrue(self.has(1.2, 1.2, 1.2))

    def test_one_that_fewer_write_the_more_workers_there_are_is_none(self):
        self.assertFalse(self.has(1.2, 0.6, 0.3))

    def test_one_that_few_write_however_many_workers_there_are_is_one(self):
        self.assertTrue(self.has(0.3, 0.3, 0.3))

    def test_those_that_ought_to_have_none_have_none(self):
        policies = scaling.by_policy(scaling.load())
        for policy in ("fcfs", "steal", "zygos", "sbb", "synergy"):
            self.assertIs(scaling.has_central_part(policies[policy].values()), False, policy)


class Changes(unittest.TestCase):
    def test_a_change_within_five_percent_is_none(self):
        self.assertEqual(scaling.changes([row(1, accesses=1000)], [row(1, accesses=1049)]), [])

    def test_a_larger_one_is_named(self):
        self.assertEqual(scaling.changes([row(2, accesses=1000)], [row(2, accesses=1051)]),
                         ["fcfs, 2 workers: accesses was 1000 and is 1051"])

    def test_what_fails_is_a_larger_one_than_what_is_shown(self):
        old, new = [row(1, accesses=1000)], [row(1, accesses=1080)]
        self.assertEqual(len(scaling.changes(old, new)), 1)
        self.assertEqual(scaling.changes(old, new, scaling.FAILS), [])

    def test_of_small_counts_little_is_no_change(self):
        self.assertEqual(scaling.changes([row(1, wakes=0.02)], [row(1, wakes=0.03)]), [])

    def test_policies_that_come_and_go_are_named(self):
        self.assertEqual(scaling.changes([row(1, "old")], [row(1, "new")]),
                         ["new, 1 workers: not in docs/scaling.jsonl",
                          "old: in docs/scaling.jsonl only"])


class Instructions(unittest.TestCase):
    PROFILE = """desc: of cachegrind
events: Ir
fl=/r/build/tsan/../../src/sched/core.h
fn=rubato::Core::next()
10 5
11 7
fl=/usr/include/c++/12/bits/stl_vector.h
fn=rubato::Core::next()
90 3
fn=std::vector<int>::size()
91 100
fl=/r/build/tsan/../../src/base/time.h
fn=pthread_mutex_lock
5 1000
fl=/r/build/tsan/../../src/virtual/posix.cc
fn=pthread_mutex_lock
7 2000
fl=/r/build/tsan/../../src/runtime/testing/letter_app.h
fn=rubato::testing::LetterApp::handle()
7 4000
fl=???
fn=memcpy
0 8000
summary: 15115
"""

    def test_those_of_the_product_and_of_what_is_inlined_count(self):
        self.assertEqual(scaling.of_the_product(scaling.functions(self.PROFILE)), 5 + 7 + 3)


class Output(unittest.TestCase):
    def test_a_count_that_some_rows_lack_is_left_open(self):
        without = row(8, "steal")
        del without["wakes"]
        table = scaling.table([row(8), row(16), without], "wakes", "Wake-ups", 1)
        self.assertIn("| `fcfs` | 10.0 | 10.0 |", table)
        self.assertNotIn("steal", table)


    def test_rows_that_do_not_keep_up_are_marked(self):
        table = scaling.table([row(8), row(16, answered=0.5)], "wakes", "Wake-ups", 1)
        self.assertIn("| `fcfs` | 10.0 | 10.0\\* | - |", table)

    @unittest.skipUnless(find_spec("matplotlib"), "this Python has no matplotlib")
    def test_the_figure_has_a_plot_for_each_policy(self):
        rows = [row(n, policy) for policy in ("a", "b") for n in (1, 8)]
        for figure in scaling.FIGURES:
            plots = [ax for ax in scaling.drawing(rows, figure).axes if ax.axison]
            self.assertEqual([ax.get_title("left") for ax in plots], ["a", "b"])
            self.assertEqual([len(ax.get_lines()) for ax in plots], [len(figure.drawn)] * 2)


class Commands(unittest.TestCase):
    def told(self, *arguments):
        done = subprocess.run([sys.executable, scaling.__file__, *arguments], text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_a_program_that_counts_nothing_and_a_wrong_number_are_one_line(self):
        program = shutil.which("true")
        self.assertEqual(self.told("--check", program),
                         (1, f"scaling: {program} has counted nothing (status 0); it takes "
                             "virtual_counts of the preset tsan\n"))
        self.assertEqual(self.told("--check", program, "--workers-max", "0"),
                         (2, "scaling: --workers-max takes 1 to 64, not 0\n"))


if __name__ == "__main__":
    unittest.main()
