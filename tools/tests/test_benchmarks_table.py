# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

from support import TreeTest

import benchmarks_table

MACHINE = '[machines.here]\ndescription = "two cores"\n[[sections]]\ntitle = "Latency"\n'
ROW = {"what": '"GET"', "command": '"`make demo`"', "machine": '"here"', "commit": '"1a2b3c4"',
       "median": '"42 us"', "range": '"41 .. 43 us"'}


def row(without="", **fields):
    lines = [f"{name} = {value}\n" for name, value in {**ROW, **fields}.items() if name != without]
    return "[[sections.rows]]\n" + "".join(lines)


class BenchmarksTable(TreeTest):
    def run_on(self, text):
        self.write("data.toml", text)
        return subprocess.run([sys.executable, benchmarks_table.__file__, self.root / "data.toml"],
                              capture_output=True, text=True, timeout=30, check=False)

    def printed(self, text):
        done = self.run_on(text)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refusal(self, text):
        done = self.run_on(text)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr.count("\n"), 1)
        return done.stderr

    def test_machines_stand_above_a_table_for_each_section(self):
        self.assertEqual(self.printed(MACHINE + row()), """## Machines

- **here**: two cores

## Latency

| what | median | range | command | machine | commit |
|---|---|---|---|---|---|
| GET | 42 us | 41 .. 43 us | `make demo` | here | 1a2b3c4 |
""")

    def test_a_section_keeps_to_itself(self):
        text = self.printed(MACHINE + row() + '[[sections]]\ntitle = "Cores"\n' + row(what='"SET"'))
        self.assertIn("| SET |", text.split("\n## Cores\n")[1])
        self.assertNotIn("| SET |", text.split("\n## Cores\n")[0])

    def test_a_missed_target_is_bold(self):
        text = self.printed(MACHINE + row(target='"at most 40 us"', met="false"))
        self.assertIn("| at most 40 us: **missed** |", text)

    def test_a_target_that_is_met_says_so(self):
        text = self.printed(MACHINE + row(target='"at most 50 us"', met="true") + row())
        self.assertIn("| at most 50 us: met |", text)
        self.assertIn("| 41 .. 43 us |  | `make demo` |", text)

    def test_a_note_has_a_column_of_its_own(self):
        self.assertIn("| 1a2b3c4 | quiet |\n", self.printed(MACHINE + row(note='"quiet"')))

    def test_a_bar_does_not_end_a_cell(self):
        self.assertIn("| a\\|b |", self.printed(MACHINE + row(what='"a|b"')))

    def test_a_row_that_lacks_a_field_is_refused(self):
        for field in ROW:
            self.assertIn(f"lacks '{field}'", self.refusal(MACHINE + row(without=field)), field)
            self.assertIn(f"lacks '{field}'", self.refusal(MACHINE + row(**{field: '""'})), field)

    def test_the_refusal_names_the_row_and_its_section(self):
        self.assertIn("row 'GET' of section 'Latency'", self.refusal(MACHINE + row("median")))

    def test_a_target_and_its_outcome_come_together(self):
        self.assertIn("'met'", self.refusal(MACHINE + row(target='"1 us"')))
        self.assertIn("'target'", self.refusal(MACHINE + row(met="true")))
        self.assertIn("'met'", self.refusal(MACHINE + row(target='"1 us"', met='"false"')))

    def test_an_unknown_machine_is_refused(self):
        self.assertIn("unknown machine 'there'", self.refusal(MACHINE + row(machine='"there"')))

    def test_an_unknown_field_is_refused(self):
        self.assertIn("unknown field 'mean'", self.refusal(MACHINE + row(mean='"1 us"')))

    def test_a_long_note_is_refused(self):
        note = '"' + "word " * 25 + 'more"'
        self.assertIn("more than 25 words", self.refusal(MACHINE + row(note=note)))

    def test_a_damaged_or_missing_file_is_refused(self):
        self.assertIn("data.toml", self.refusal("[["))
        done = subprocess.run([sys.executable, benchmarks_table.__file__, self.root / "none.toml"],
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.toml", done.stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
