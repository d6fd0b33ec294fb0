# SPDX-License-Identifier: Apache-2.0
import unittest

import support  # noqa: F401, finds the tools

import virtual_fidelity


def report(workers, paired):
    row = {"policy": "fcfs", "load": virtual_fidelity.USUAL_LOAD,
           "live": {"p99": 30}, "simulated": {"p99": 20},
           "types": [{"name": "short", "paired": paired}, {"name": "long", "paired": {}}]}
    return {"workload": "mix", "workers": workers, "rows": [row]}


class Table(unittest.TestCase):
    def found(self, paired):
        return list(virtual_fidelity.entries(report(1, paired)))

    def test_a_row_has_the_ratios_of_the_first_type_and_of_the_slowdowns(self):
        found = self.found({"p50": {"ratio": 1.0321, "within": 0.011}})
        self.assertIn("| `fcfs` | 1.03 +-0.01 | 1.50 |" + " - |" * 6,
                      virtual_fidelity.table(found, "mix"))

    def test_too_few_requests_leave_the_median_out(self):
        self.assertIn("| `fcfs` | - | 1.50 |", virtual_fidelity.table(self.found({}), "mix"))


if __name__ == "__main__":
    unittest.main()
