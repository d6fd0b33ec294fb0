# SPDX-License-Identifier: Apache-2.0
import unittest

from support import TreeTest

import check_links


class Links(TreeTest):
    def found(self):
        return [(f.path, f.line, f.rule) for f in check_links.check(self.root)]

    def test_links_that_lead_somewhere_pass(self):
        self.write("docs/a.md", "# The `first` part, at last\n[b](b.md) [c](../src) [d](#"
                                "the-first-part-at-last) [w](https://example.org/none)\n")
        self.write("docs/b.md", "[a](a.md#the-first-part-at-last)\n")
        self.write("src/x.h", "// docs/a.md says why\n")
        self.assertEqual(self.found(), [])

    def test_a_file_that_is_gone_is_found(self):
        self.write("a.md", "one\n[b](b.md)\n")
        self.assertEqual(self.found(), [("a.md", 2, "link")])

    def test_a_heading_that_is_gone_is_found(self):
        self.write("a.md", "[b](b.md#old)\n")
        self.write("b.md", "## New\n```\n# old\n```\n")
        self.assertEqual(self.found(), [("a.md", 1, "link")])

    def test_code_is_no_link(self):
        self.write("a.md", "`[b](b.md)`\n```sh\nx[1](2)\n```\n")
        self.assertEqual(self.found(), [])

    def test_a_document_that_a_source_names_must_exist(self):
        self.write("src/x.h", "//\n// docs/decisions/001-none.md\n")
        self.assertEqual(self.found(), [("src/x.h", 2, "document")])


if __name__ == "__main__":
    unittest.main()
