# SPDX-License-Identifier: Apache-2.0
"""What `pip install ./lab` leaves behind, without a network: every module, and commands that know
their names."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
LIMIT_S = 120
# Debian's, which python3-pip gives all that a build takes, when the one at hand has less.
PYTHONS = (sys.executable, "/usr/bin/python3")
HAS_ALL = ("import sys; from importlib.util import find_spec; "
           "sys.exit(not all(map(find_spec, ('pip', 'setuptools', 'wheel'))))")


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          **more)


def builder():
    """A Python that can build and install a wheel by itself; None if there is none."""
    for python in PYTHONS:
        if shutil.which(python) and run(python, "-c", HAS_ALL).returncode == 0:
            return python
    return None


BUILDER = builder()


def modules_of_the_tree():
    """The dotted name of every module under lab/rubato_lab."""
    paths = (path.relative_to(LAB).with_suffix("") for path in LAB.glob("rubato_lab/**/*.py"))
    return sorted(".".join(p.parts).removesuffix(".__init__") for p in paths)


@functools.cache
def installed():
    """(folder, what went wrong): the lab, installed from a copy, for a build writes beside it."""
    holder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(holder.cleanup)
    source, target = (Path(holder.name) / name for name in ("source", "target"))
    shutil.copytree(LAB, source, ignore=shutil.ignore_patterns(
        "__pycache__", "build", "*.egg-info"))
    done = run(BUILDER, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
               "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check",
               "--target", str(target), str(source))
    return target, done.stdout + done.stderr if done.returncode else ""


@unittest.skipUnless(BUILDER, "no Python here has pip, setuptools and wheel: see python3-pip")
class Installed(unittest.TestCase):
    def setUp(self):
        self.target, failure = installed()
        self.assertEqual(failure, "")
        self.elsewhere = self.target.parent / "elsewhere"
        self.elsewhere.mkdir(exist_ok=True)

    def run_there(self, *command):
        """Out of the checkout, so that nothing of it is found by chance."""
        return run(*command, cwd=self.elsewhere,
                   env={**os.environ, "PYTHONPATH": str(self.target)})

    def test_every_module_of_the_tree_can_be_imported(self):
        names = modules_of_the_tree()
        self.assertIn("rubato_lab.reproduce.main", names)
        done = self.run_there(sys.executable, "-c", f"import {', '.join(names)}; "
                              "print(rubato_lab.reproduce.__file__)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(str(self.target)), done.stdout)

    def test_nothing_but_the_package_is_installed(self):
        found = {path.name for path in self.target.iterdir() if path.suffix != ".dist-info"}
        self.assertEqual(found, {"rubato_lab", "bin"})

    def test_commands_call_themselves_by_their_names(self):
        for name in ("rubato-demo", "rubato-reproduce"):
            done = self.run_there(sys.executable, str(self.target / "bin" / name), "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith(f"usage: {name} "), done.stdout)

    def test_a_missing_program_is_looked_for_where_the_user_is(self):
        done = self.run_there(sys.executable, str(self.target / "bin" / "rubato-demo"))
        self.assertEqual(done.returncode, 1)
        wanted = self.elsewhere / "build/release/bin/rubato"
        self.assertIn(f"{wanted} is missing", done.stderr)


class Checkout(unittest.TestCase):
    def test_scripts_call_themselves_by_their_names(self):
        for name in ("demo.py", "reproduce.py"):
            done = run(sys.executable, str(LAB.parent / "tools" / name), "--help")
            self.assertTrue(done.stdout.startswith(f"usage: {name} "), done.stdout)


if __name__ == "__main__":
    unittest.main()
