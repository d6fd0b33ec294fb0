#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the lab: all of them, or the modules named. Debian's Python runs them where the
one at hand has no matplotlib."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "tests")]

from rubato_lab.extras import use_a_python_with  # noqa: E402

if __name__ == "__main__":
    use_a_python_with("matplotlib")
    loader = unittest.defaultTestLoader
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names) if names else loader.discover(
        str(HERE / "tests"), top_level_dir=str(HERE / "tests"))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    sys.exit(not result.wasSuccessful())
