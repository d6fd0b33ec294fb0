#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the lab: all of them, or the modules named. Debian's Python runs them where the
one at hand has no matplotlib."""

import os
import sys
import unittest
from importlib.util import find_spec
from pathlib import Path

DEBIANS = "/usr/bin/python3"
if not find_spec("matplotlib") and sys.executable != DEBIANS and os.path.exists(DEBIANS):
    os.execv(DEBIANS, [DEBIANS, *sys.orig_argv[1:]])
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "tests")]

if __name__ == "__main__":
    loader = unittest.defaultTestLoader
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names) if names else loader.discover(
        str(HERE / "tests"), top_level_dir=str(HERE / "tests"))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    sys.exit(not result.wasSuccessful())
