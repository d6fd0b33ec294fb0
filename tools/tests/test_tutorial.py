# SPDX-License-Identifier: Apache-2.0
import io
import sys
from contextlib import redirect_stderr, redirect_stdout

from support import SPDX, TreeTest

import tutorial

NEW = f"""Text.
<!-- file: src/new.h -->
```cpp
{SPDX}int number();
```
"""
CHANGE = """More text.
<!-- change to: src/list.h -->
```diff
 #include "a.h"
+#include "new.h"
@@
     A,   //
+    New,  //
```
"""
LIST = '#include "a.h"\n\nusing All = List<  //\n    A,  //\n    B>;\n'


class Tutorial(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/list.h", LIST)

    def main(self, document, *args):
        """(exit status, all that was printed)"""
        self.write("doc.md", document)
        printed = io.StringIO()
        before = sys.argv
        sys.argv = ["tutorial.py", str(self.root / "doc.md"), "--root", str(self.root), *args]
        try:
            with redirect_stdout(printed), redirect_stderr(printed):
                status = tutorial.main()
        finally:
            sys.argv = before
        return status, printed.getvalue()

    def refused(self, document):
        with self.assertRaises(tutorial.Wrong) as raised:
            tutorial.files_of(document, self.root)
        return str(raised.exception)

    def test_a_marked_block_is_a_file_word_for_word(self):
        self.assertEqual(tutorial.files_of(NEW, self.root),
                         {"src/new.h": f"{SPDX}int number();\n"})

    def test_other_blocks_are_left_alone(self):
        text = "```sh\nmake\n```\n" + NEW
        self.assertEqual(list(tutorial.files_of(text, self.root)), ["src/new.h"])

    def test_a_change_is_applied_to_a_copy_whatever_the_blanks(self):
        files = tutorial.files_of(CHANGE, self.root)
        self.assertEqual(files["src/list.h"],
                         '#include "a.h"\n#include "new.h"\n\nusing All = List<  //\n'
                         "    A,   //\n    New,  //\n    B>;\n")
        self.assertEqual((self.root / "src/list.h").read_text(), LIST)

    def test_what_is_removed_goes(self):
        text = "<!-- change to: src/list.h -->\n```diff\n-#include \"a.h\"\n+//\n```\n"
        self.assertTrue(tutorial.files_of(text, self.root)["src/list.h"].startswith("//\n\n"))

    def test_a_change_without_a_place_or_with_two_is_refused(self):
        self.assertIn("0 places", self.refused(CHANGE.replace('"a.h"', '"z.h"')))
        self.write("src/list.h", LIST + LIST)
        self.assertIn("2 places", self.refused(CHANGE))

    def test_files_that_are_there_or_missing_are_refused(self):
        self.write("src/new.h", "")
        self.assertIn("there already", self.refused(NEW))
        self.assertIn("no src/z.h to change", self.refused(CHANGE.replace("src/list.h", "src/z.h")))

    def test_broken_documents_are_refused(self):
        self.assertIn("marks no block", self.refused("Nothing.\n"))
        self.assertIn("no block of code", self.refused("<!-- file: src/new.h -->\n\n```\n```\n"))
        self.assertIn("does not end", self.refused("<!-- file: src/new.h -->\n```cpp\nint x;\n"))
        self.assertIn("does not say where", self.refused(
            "<!-- change to: src/list.h -->\n```diff\n+int x;\n```\n"))
        self.assertIn("neither kept", self.refused(
            "<!-- change to: src/list.h -->\n```diff\nint x;\n```\n"))

    def test_files_are_written_once_and_named(self):
        status, printed = self.main(NEW, "--into", str(self.root / "out"))
        written = self.root / "out/src/new.h"
        self.assertEqual((status, printed), (0, f"{written}\n"))
        before = written.stat().st_mtime_ns
        self.main(NEW, "--into", str(self.root / "out"))
        self.assertEqual(written.stat().st_mtime_ns, before)

    def test_trouble_is_one_line_that_names_the_document(self):
        status, printed = self.main("Nothing.\n", "--into", str(self.root / "out"))
        self.assertEqual(status, 1)
        self.assertEqual(printed, f"{self.root / 'doc.md'}: it marks no block of code\n")

    def test_the_checks_of_the_house_look_at_the_files(self):
        status, printed = self.main(NEW, "--check")
        self.assertEqual(status, 1)
        self.assertIn("[pragma-once]", printed)
        banner = NEW.replace("int number", "//\n// A number. Any thread.\n#pragma once\nint number")
        self.assertEqual(self.main(banner, "--check")[0], 0)


if __name__ == "__main__":
    import unittest
    unittest.main()
