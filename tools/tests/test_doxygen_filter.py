# SPDX-License-Identifier: Apache-2.0
import unittest

import support  # noqa: F401  makes the tools importable

import doxygen_filter


class Filter(unittest.TestCase):
    def test_headings_get_anchors(self):
        self.assertEqual(doxygen_filter.filtered("docs/A.md", "# A `b`\n## At *last*, c\n"),
                         "# A `b` {#docs_A_md}\n## At *last*, c {#docs_A_md-at-last-c}\n")

    def test_links_between_documents_become_references(self):
        said = doxygen_filter.filtered("docs/A.md", "[b](B.md#c) [r](../README.md) [s](#t)\n")
        self.assertEqual(said, "[b](@ref docs_B_md-c) [r](@ref index) [s](@ref docs_A_md-t)\n")

    def test_links_out_of_the_site_are_dropped_and_those_of_the_web_stay(self):
        said = doxygen_filter.filtered("docs/A.md", "[x](../src/x.h) [w](https://w.org/a)\n")
        self.assertEqual(said, "x [w](https://w.org/a)\n")

    def test_code_and_pictures_stay(self):
        text = "`[b](B.md)` ![p](img/p.svg)\n```sh\n# no heading\n[b](B.md)\n```\n"
        self.assertEqual(doxygen_filter.filtered("docs/A.md", text), text)


if __name__ == "__main__":
    unittest.main()
