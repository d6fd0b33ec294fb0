# SPDX-License-Identifier: Apache-2.0
import shutil
import unittest

from support import HEADER, TreeTest

import check_headers

CXX = shutil.which("c++") or shutil.which("g++")


@unittest.skipUnless(CXX, "no compiler")
class Headers(TreeTest):
    def messages(self):
        return [f.message for f in check_headers.check(self.root, CXX, None)]

    def test_a_header_that_brings_what_it_needs_passes(self):
        self.write("src/base/x.h", HEADER + "#include <vector>\nstd::vector<int> f();\n")
        self.assertEqual(self.messages(), [])

    def test_a_header_that_leans_on_its_includer_is_found(self):
        self.write("src/base/x.h", HEADER + "std::vector<int> f();\n")
        self.assertEqual(len(self.messages()), 1)

    def test_a_header_that_a_source_includes_first_is_left_to_the_build(self):
        self.write("src/base/x.h", HEADER + "std::vector<int> f();\n")
        self.write("src/base/x.cc", '#include "base/x.h"\n#include <vector>\n')
        self.assertEqual(self.messages(), [])

    def test_a_header_that_a_source_includes_later_is_compiled(self):
        self.write("src/base/x.h", HEADER + "std::vector<int> f();\n")
        self.write("src/base/x.cc", '#include <vector>\n#include "base/x.h"\n')
        self.assertEqual(len(self.messages()), 1)

    def test_a_header_without_a_guard_is_found(self):
        self.write("src/base/x.h", "struct A {};\n")
        self.assertIn("redefinition", self.messages()[0])

    def test_a_warning_is_an_error(self):
        self.write("src/base/x.h", HEADER + "inline int f(long x) { return x; }\n")
        self.assertEqual(len(self.messages()), 1)


if __name__ == "__main__":
    unittest.main()
