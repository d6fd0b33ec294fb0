#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rubato_instrument as its users have it: a project of their own, find_package(rubato) from an
installed tree, the Clang of the environment; and what it says where it cannot work."""

import contextlib
import json
import os
import shutil
import unittest
from pathlib import Path

from pass_test_support import CXX, PLUGIN, PassTest, main, run

BUILD = Path(os.environ.get("PASS_BUILD", "build/dev"))
PROJECT = """cmake_minimum_required(VERSION 3.24)
project(stranger LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(rubato REQUIRED)
add_executable(server main.cc helper.c)
target_link_libraries(server PRIVATE rubato::static)
rubato_instrument({arguments})
"""
ASKED_FIRST = """cmake_minimum_required(VERSION 3.24)
project(stranger LANGUAGES C CXX)
find_package(rubato REQUIRED)
rubato_can_instrument(can)
message(STATUS "can: ${can}")
"""
MAIN = """#include <rubato/rubato.hpp>
extern "C" long helper(long);
int main() { return helper(rubato_version()[0]) == 0 ? 1 : 0; }
"""
HELPER = "long helper(long n) { long s = 1; for (long i = 0; i < n * n; ++i) s ^= s * 7 + i;" \
         " return s | 1; }\n"


@unittest.skipUnless((BUILD / "cmake_install.cmake").exists(), f"{BUILD} is no build folder")
class Helper(PassTest):
    @classmethod
    def setUpClass(cls):
        cls.prefix = BUILD / f"{PLUGIN.stem}_prefix"
        for component in ("library", "pass"):
            run("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component)

    def configure(self, arguments, compiler=CXX, status=0, for_c=None):
        return self.configure_project(PROJECT.format(arguments=arguments), compiler, status, for_c)

    def configure_project(self, project, compiler=CXX, status=0, for_c=None):
        (self.folder / "CMakeLists.txt").write_text(project)
        (self.folder / "main.cc").write_text(MAIN)
        (self.folder / "helper.c").write_text(HELPER)
        for_c = for_c or ("gcc" if compiler == "g++" else compiler.replace("++", ""))
        return run("cmake", "-S", self.folder, "-B", self.folder / "build",
                   f"-DCMAKE_PREFIX_PATH={self.prefix.resolve()}",
                   f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_C_COMPILER={for_c}",
                   "-DCMAKE_BUILD_TYPE=Release", status=status)

    def test_a_project_is_built_with_checkpoints(self):
        self.configure("server DISTANCE 500 REPORT pass.json LOCAL_EXEC SUMMARY")
        said = run("cmake", "--build", self.folder / "build")
        self.assertIn("rubato-pass: ", said.stdout + said.stderr)
        run(self.folder / "build/server")
        reports = [json.loads(line)
                   for line in (self.folder / "build/pass.json").read_text().splitlines()]
        self.assertEqual({Path(report["module"]).name for report in reports},
                         {"main.cc", "helper.c"})
        self.assertEqual({report["distance"] for report in reports}, {500})
        self.assertGreater(sum(report["checkpoints"] for report in reports), 0)

    def refused(self, arguments, compiler=CXX, for_c=None):
        done = self.configure(arguments, compiler, status=1, for_c=for_c)
        return " ".join(done.stderr.split())

    def test_another_compiler_is_refused(self):
        self.assertRegex(self.refused("server", "g++"),
                         r"rubato_instrument takes Clang \d+.* \(configure with .*\), not GNU \d")
        self.assertRegex(self.refused("server", for_c="gcc"), r"\), not GNU \d")

    @contextlib.contextmanager
    def without_the_plugin(self):
        plugin, = self.prefix.rglob(PLUGIN.name)
        plugin.rename(self.prefix / "away")
        try:
            yield
        finally:
            (self.prefix / "away").rename(plugin)

    def test_a_clang_without_a_plugin_is_refused(self):
        with self.without_the_plugin():
            self.assertRegex(self.refused("server"),
                             "rubato_instrument( takes Clang .*, not Clang|: there is no lib)")

    def test_a_project_may_ask_before(self):
        self.assertIn("can: TRUE", self.configure_project(ASKED_FIRST).stdout)
        with self.without_the_plugin():
            self.assertIn("can: FALSE", self.configure_project(ASKED_FIRST).stdout)
        shutil.rmtree(self.folder / "build")  # else CMake begins anew, without the prefix
        self.assertIn("can: FALSE", self.configure_project(ASKED_FIRST, for_c="gcc").stdout)

    def test_what_it_does_not_take_is_refused(self):
        self.assertIn("there is no target client", self.refused("client"))
        self.assertIn("DISTANCE takes a number, not far", self.refused("server DISTANCE far"))
        self.assertIn("not SPEED", self.refused("server SPEED"))


if __name__ == "__main__":
    main()
