# SPDX-License-Identifier: Apache-2.0
"""A small tree of files in a temporary folder, for the tests of the checks."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = SPDX + "//\n// A header of the tests. Any thread.\n#pragma once\n"


class TreeTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.root = Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def rules(self, findings):
        return sorted({f.rule for f in findings})
