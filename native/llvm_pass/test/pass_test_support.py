# SPDX-License-Identifier: Apache-2.0
"""What the tests of librubato-pass.so share: where things are, and running the compiler. The
environment comes from CMakeLists.txt; by hand:
    PASS_PLUGIN=build/dev/lib/librubato-pass.so python3 native/llvm_pass/test/placement_test.py"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PLUGIN = Path(os.environ.get("PASS_PLUGIN", ROOT / "build/dev/lib/librubato-pass.so")).resolve()
CXX = os.environ.get("PASS_CXX", "clang++-19")
# The checkpoint's own code, for programs that need no server.
RUNTIME = [ROOT / "src/mechanism/preempt/checkpoint.cc",
           ROOT / "src/mechanism/preempt/enter_x86_64.S"]
INCLUDE = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
TIMEOUT_S = 300
SKIP = 77


def load_pass(*options):
    """Compiler flags: the pass, with options such as -rubato-distance=100."""
    flags = [f"-fplugin={PLUGIN}", f"-fpass-plugin={PLUGIN}"]
    for option in options:
        flags += ["-mllvm", option]
    return flags


def run(*command, status=0, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S, **options)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n"
                             f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done


class PassTest(unittest.TestCase):
    """A test with a folder of its own that is removed after it."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="rubato-pass-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def compiled(self, code, *options, flags=("-O2",), output="-emit-llvm"):
        """The IR (or, with output="-S", the assembly) of C++ and what the pass says of it."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        text = run(CXX, "-std=c++20", "-fno-discard-value-names", *flags, *INCLUDE,
                   *load_pass(f"-rubato-pass-report={report}", *options), "-S", output, "-x", "c++",
                   "-", "-o", "-", input=code).stdout
        return text, json.loads(report.read_text())


def main():
    for needed, name in ((shutil.which(CXX), CXX), (PLUGIN.exists(), str(PLUGIN))):
        if not needed:
            print(f"skipped: {name} is missing")
            sys.exit(SKIP)
    unittest.main(verbosity=2)
