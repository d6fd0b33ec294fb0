# SPDX-License-Identifier: Apache-2.0
"""What examples/README.md says of installing the library, in the build folder of these tests: the
targets it names make every file that the component needs, and its commands then do what they say.
test_fresh_clone.py is the same from nothing."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/api"))

import install_test  # noqa: E402
from documented import ROOT, block, library_commands, words_after  # noqa: E402

BUILD = Path(os.environ.get("RUBATO_BUILD", ROOT / "build/dev"))
BUILD_OF_DOCUMENT = "build/release"
LIMIT_S = 240
INCLUDED = re.compile(r'^\s*include\("(.*/cmake_install\.cmake)"\)$', re.MULTILINE)
OF_COMPONENT = re.compile(
    r'^if\(CMAKE_INSTALL_COMPONENT STREQUAL "(\w+)" OR NOT CMAKE_INSTALL_COMPONENT\)\n(.*?)^endif',
    re.MULTILINE | re.DOTALL)
INSTALLED = re.compile(r"file\(INSTALL (.*?)\)\n", re.DOTALL)


def run(command, folder=ROOT, **environment):
    return subprocess.run(command, cwd=folder, shell=isinstance(command, str), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S,
                          check=False, env={**os.environ, **environment})


def installed_by(component, script=None):
    """The files that the install rules of the build folder take for the component."""
    script = script or BUILD / "cmake_install.cmake"
    text = script.read_text(encoding="utf-8")
    found = set()
    for name, rules in OF_COMPONENT.findall(text):
        for rule in INSTALLED.findall(rules if name == component else ""):
            found |= set(re.findall(r'"(/[^"]+)"', rule.split(" FILES ", 1)[-1]))
    for included in INCLUDED.findall(text):
        found |= installed_by(component, Path(included))
    return {path for path in found if path.startswith(f"{BUILD}/")}


def steps():
    """Every output of the build, with all that its step takes and makes."""
    text = (BUILD / "build.ninja").read_text(encoding="utf-8").replace("$\n", "")
    found = {}
    for made, taken in re.findall(r"^build (.*?): \S+(.*)$", text, re.MULTILINE):
        names = {os.path.normpath(BUILD / name.replace("${cmake_ninja_workdir}", ""))
                 for name in f"{made} {taken}".split() if set(name) - set("|")}
        for name in made.split():
            found[os.path.normpath(BUILD / name)] = names
    return found


def made_for(targets, every):
    """All outputs that building the targets makes sure of."""
    wanted, seen = [str(BUILD / target) for target in targets], set()
    while wanted:
        name = wanted.pop()
        if name not in seen:
            seen.add(name)
            wanted += every.get(name, ())
    return seen


@unittest.skipUnless((BUILD / "build.ninja").exists(), f"{BUILD} is no build folder of ninja")
class Library(unittest.TestCase):
    def check_made(self, commands):
        targets = words_after("--target", commands)
        [component] = words_after("--component", commands)
        needed = installed_by(component)
        self.assertTrue(needed)
        every = steps()
        self.assertEqual((needed & set(every)) - made_for(targets, every), set(),
                         f"{' '.join(targets)} does not make them")
        # The rest is there once CMake has run.
        self.assertEqual([path for path in needed - set(every) if not Path(path).exists()], [])

    def test_the_documented_targets_make_all_that_the_library_installs(self):
        self.check_made(library_commands())

    def test_the_documented_targets_make_all_that_the_pass_installs(self):
        if not installed_by("pass"):
            self.skipTest("no plugin is built here")
        self.check_made(block((ROOT / "docs/PASS.md").read_text(encoding="utf-8")))

    def test_every_component_finds_what_it_installs_in_a_full_build(self):
        with tempfile.TemporaryDirectory(prefix="rubato-documents-") as folder:
            done = run(["cmake", "--install", BUILD, "--prefix", folder])
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertTrue((Path(folder) / "bin/rubato").exists())

    def test_the_documented_commands_install_it_and_build_the_examples(self):
        with tempfile.TemporaryDirectory(prefix="rubato-documents-") as folder:
            here = Path(folder)
            shutil.copytree(ROOT / "examples", here / "examples")
            configure, *rest = library_commands()
            script = "\n".join(["set -e", configure.partition("&&")[2], *rest])
            script = script.replace(f"--build --preset {Path(BUILD_OF_DOCUMENT).name}",
                                    f"--build {BUILD}").replace(BUILD_OF_DOCUMENT, str(BUILD))
            done = run(script, here, PREFIX=str(here / "prefix"))
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertTrue(os.access(here / "kv_handler", os.X_OK))
            for name, check in install_test.CHECKS.items():
                with self.subTest(example=name):
                    check(here / f"build/examples/example_{name}", None)


if __name__ == "__main__":
    unittest.main()
