# SPDX-License-Identifier: Apache-2.0
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401, finds the tools

import abi

MAP = abi.ROOT / "src/api/rubato.map"


class Interface(unittest.TestCase):
    def test_every_function_that_the_library_exports_is_compared(self):
        exported = set(re.findall(r"^    (rubato_\w+);", MAP.read_text(encoding="utf-8"),
                                  re.MULTILINE))
        compared = re.findall(r"(rubato_\w+)\([^{}]*\) \{", abi.definitions(abi.HEADERS))
        self.assertEqual(len(compared), len(set(compared)))
        self.assertEqual(set(compared), exported - {"rubato_checkpoint_budget"})

    @unittest.skipUnless(shutil.which("abidiff"), "abigail-tools is missing")
    def test_a_field_that_moves_and_a_function_that_goes_are_seen(self):
        source = "struct s { int a, b; };\nvoid f(struct s* x) { (void)x; }\nvoid g(void) {}\n"
        for other in (source.replace("int a", "long a"), source.replace("void g(void) {}", "")):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "old").mkdir()
                before = abi.describe(Path(folder) / "old", source)
                after = abi.describe(Path(folder), other)
                same, changed = (subprocess.run(["abidiff", before, which], capture_output=True,
                                                check=False).returncode
                                 for which in (before, after))
                self.assertEqual(same, 0)
                self.assertNotEqual(changed, 0)


if __name__ == "__main__":
    unittest.main()
