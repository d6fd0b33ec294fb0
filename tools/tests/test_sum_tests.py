# SPDX-License-Identifier: Apache-2.0
from support import TreeTest

import sum_tests

GOOD = '<testsuite><testcase name="a" status="run"/><testcase name="b" status="run"/></testsuite>'
BAD = ('<testsuite><testcase name="a" status="run"/>'
       '<testcase name="c" status="fail"><failure message=""/></testcase>'
       '<testcase name="d" status="notrun"><skipped message=""/></testcase></testsuite>')


class SumTests(TreeTest):
    def summary(self, **files):
        for name, text in files.items():
            self.write(f"{name}.xml", text)
        lines, status = sum_tests.summarise([self.root / f"{name}.xml" for name in files])
        return lines[-1], status

    def test_files_add_up(self):
        self.assertEqual(self.summary(one=GOOD, two=GOOD), ("4 passed, 0 failed", 0))

    def test_a_failure_fails_the_whole_and_skips_count_as_neither(self):
        self.assertEqual(self.summary(one=GOOD, two=BAD), ("3 passed, 1 failed", 1))

    def test_what_failed_beside_others_and_passed_alone_counts_as_passed_and_is_named(self):
        self.write("two.xml", BAD)
        self.write("two.again.xml", '<testsuite><testcase name="c" status="run"/></testsuite>')
        lines, status = sum_tests.summarise([self.root / "two.xml"])
        self.assertEqual((lines[-1], status), ("2 passed, 0 failed", 0))
        self.assertIn("  failed beside others, passed alone: c", lines)

    def test_what_fails_again_is_a_failure(self):
        self.write("two.xml", BAD)
        self.write("two.again.xml", '<testsuite><testcase name="c" status="fail">'
                                    '<failure message=""/></testcase></testsuite>')
        self.assertEqual(self.summary(two=BAD), ("1 passed, 1 failed", 1))

    def test_a_run_that_did_not_happen_is_a_failure(self):
        lines, status = sum_tests.summarise([self.root / "absent.xml"])
        self.assertEqual((lines[-1], status), ("0 passed, 1 failed", 1))

    def test_a_run_without_tests_is_a_failure(self):
        self.assertEqual(self.summary(one="<testsuite/>"), ("0 passed, 1 failed", 1))


if __name__ == "__main__":
    import unittest
    unittest.main()
