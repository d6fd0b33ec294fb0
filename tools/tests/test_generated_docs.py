# SPDX-License-Identifier: Apache-2.0
import sys

from support import TreeTest

import generated_docs

TEXT = "before\n<!-- generated: t -->\nold\n<!-- end of t -->\nafter\n"


class GeneratedDocs(TreeTest):
    def entries(self, output, part=generated_docs.ALL):
        return [("a.md", "t", [sys.executable, "-c", f"print({output!r})"], part)]

    def test_a_stale_table_is_found_and_left_alone(self):
        self.write("a.md", TEXT)
        trouble = generated_docs.process(self.root, "", False, self.entries("new"))
        self.assertIn("stale", trouble[0])
        self.assertEqual((self.root / "a.md").read_text(), TEXT)

    def test_writing_renews_it_and_nothing_else(self):
        self.write("a.md", TEXT)
        self.assertEqual(generated_docs.process(self.root, "", True, self.entries("new")), [])
        self.assertEqual((self.root / "a.md").read_text(), TEXT.replace("old", "new"))

    def test_a_table_that_is_up_to_date_passes(self):
        self.write("a.md", TEXT)
        self.assertEqual(generated_docs.process(self.root, "", False, self.entries("old")), [])

    def test_missing_markers_are_found(self):
        self.write("a.md", "nothing here\n")
        self.assertIn("no markers", generated_docs.process(
            self.root, "", False, self.entries("x"))[0])

    def test_code_has_its_part_between_comments(self):
        code = "struct {\n  // generated: t\n  int old;\n  // end of t\n};\n"
        self.write("a.md", code)
        entries = self.entries("  int fresh;")
        self.assertIn("stale", generated_docs.process(self.root, "", False, entries)[0])
        self.assertEqual(generated_docs.process(self.root, "", True, entries), [])
        self.assertEqual((self.root / "a.md").read_text(), code.replace("old", "fresh"))

    def test_fields_keep_their_places_and_new_ones_go_to_the_end(self):
        begin, end = "struct {\n  // generated: t\n", "  // end of t\n};\n"
        first = "  // First;\n  // in two lines.\n  int first = 1;\n"
        gone, pair = "  // Gone.\n  int gone;\n", "  // Two.\n  int* two;\n  int two_count;\n"
        fresh, changed = "  // New.\n  map<int> fresh{};\n", first.replace("1", "2")
        self.write("a.md", begin + pair + gone + first + end)
        entries = self.entries(fresh + changed + pair, generated_docs.IN_PLACE)
        self.assertEqual(generated_docs.process(self.root, "", True, entries), [])
        self.assertEqual((self.root / "a.md").read_text(), begin + pair + changed + fresh + end)

    def test_a_field_is_known_by_its_name_whatever_its_comment_says(self):
        begin, end = "struct {\n  // generated: t\n", "  // end of t\n};\n"
        one, two = ("  // Up to 9;\n  // %s.\n  int %s;\n" % (name, name) for name in ("a", "b"))
        self.write("a.md", begin + one.replace("to 9;\n  //", "to 9; ") + two + end)
        entries = self.entries(two + one, generated_docs.IN_PLACE)
        self.assertEqual(generated_docs.process(self.root, "", True, entries), [])
        self.assertEqual((self.root / "a.md").read_text(), begin + one + two + end)

    def test_a_failing_command_is_found(self):
        self.write("a.md", TEXT)
        entries = [("a.md", "t", [sys.executable, "-c", "raise SystemExit(3)"], "all")]
        self.assertEqual(len(generated_docs.process(self.root, "", False, entries)), 1)


if __name__ == "__main__":
    import unittest
    unittest.main()
