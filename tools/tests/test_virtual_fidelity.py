# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import shutil
import unittest
from unittest import mock

import support  # noqa: F401, finds the tools

import virtual_fidelity


def report(workers, paired, busy=0.7):
    row = {"policy": "fcfs", "load": virtual_fidelity.USUAL_LOAD, "simulated_busy_share": busy,
           "types": [{"name": "short", "paired": paired}, {"name": "long", "paired": {}}]}
    return {"workload": "mix", "workers": workers, "requests": 5000, "rows": [row]}


def found(ratio, within, busy=0.7):
    paired = {"p50": {"ratio": ratio, "within": within}} if ratio else {}
    return list(virtual_fidelity.entries(report(1, paired, busy)))


class Table(unittest.TestCase):
    def test_a_row_has_the_ratios_of_the_first_type(self):
        self.assertIn("| `fcfs` | 1.03 +-0.04 | - |" + " - |" * 8,
                      virtual_fidelity.by_workers(found(1.0321, 0.041), "mix"))

    def test_what_does_not_agree_has_the_letter_of_a_cause(self):
        table = virtual_fidelity.by_workers(found(1.5, 0.041, busy=0.99), "mix")
        self.assertIn("| `fcfs` | 1.50 +-0.04 o | - |", table)
        table = virtual_fidelity.by_workers(found(1.5, 0.041, busy=0.9), "mix")
        self.assertIn("| `fcfs` | 1.50 +-0.04 ? | - |", table)

    def test_prices_explain_as_much_as_the_simulator_moves_by_them(self):
        for moves, letter in ([0.7, 1.47], "s"), ([0.7, 1.4], "?"):
            entry, = found(1.5, 0.041, busy=0.9)
            entry["moves"] = {"short": {"p50": moves}}
            self.assertEqual(virtual_fidelity.cause(entry, "short", "p50"), letter)

    def test_a_long_run_says_whether_a_figure_is_of_too_few_requests(self):
        for ratio, letter in (1.019, "f"), (1.03, "?"):
            entry, = found(1.5, 0.041, busy=0.9)
            self.assertTrue(virtual_fidelity.wants_more_requests(entry))
            run = dict(entry, requests=10 * entry["requests"],
                       types={"short": {"p50": [ratio, 0.01]}})
            entry["longer"] = virtual_fidelity.longer(entry, {virtual_fidelity.key_of(run): run})
            self.assertEqual(virtual_fidelity.cause(entry, "short", "p50"), letter)

    def test_too_few_requests_leave_a_figure_out(self):
        self.assertIn("| `fcfs` | - | - |", virtual_fidelity.by_workers(found(None, 0), "mix"))

    def test_all_types_are_counted(self):
        entries = found(1.0, 0.01) + found(1.5, 0.01)
        self.assertEqual(virtual_fidelity.share(entries, "p50"), "50 %")
        self.assertEqual(virtual_fidelity.share(entries, "p99"), "-")


class Commands(unittest.TestCase):
    def test_another_program_and_a_wrong_number_are_told_in_a_line(self):
        for program in shutil.which("true"), "/nowhere":
            with mock.patch("sys.argv", ["virtual_fidelity", "--check", program]):
                self.assertIn("virtual_fidelity: it takes", virtual_fidelity.run())
        with mock.patch("sys.argv", ["virtual_fidelity", "--jobs", "0"]), \
                contextlib.redirect_stderr(io.StringIO()) as said, \
                self.assertRaises(SystemExit):
            virtual_fidelity.run()
        self.assertIn("--jobs takes 1 or more, not 0", said.getvalue())


class Check(unittest.TestCase):
    def bad(self, workers, factor):
        """Of fcfs, whose p50 alone is off by this factor."""
        def run(_binary, policies, mix, workers_asked, load, _requests):
            for policy in policies:
                entry = next(e for e in virtual_fidelity.load_data() if virtual_fidelity.key_of(e)
                             == (mix, workers_asked, load, policy))
                if (policy, workers_asked) == ("fcfs", workers):
                    entry["types"]["short"]["p50"][0] *= factor
                yield entry

        with mock.patch.object(virtual_fidelity, "fidelity", run), \
                contextlib.redirect_stdout(io.StringIO()):
            return virtual_fidelity.check("")

    def test_one_worker_shows_what_many_hide(self):
        self.assertEqual([self.bad(8, 1.05), self.bad(8, 1.2)], [0, 1])
        self.assertEqual([self.bad(1, 1.01), self.bad(1, 1.05)], [0, 1])


if __name__ == "__main__":
    unittest.main()
