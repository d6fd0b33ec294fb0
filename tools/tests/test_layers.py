# SPDX-License-Identifier: Apache-2.0
import unittest
from pathlib import Path

from support import HEADER, SPDX, TreeTest

import check_layers

RULES = """
src/base:
src/policy: base
src/policy src/datapath ! <atomic> <sys/*>
apps ! <CLI/*>: apps/a/parser.cc
src/datapath: base policy/job.h
src/runtime: base policy datapath
include: base
apps: include base runtime
test src/policy: runtime
hook next: src/runtime/core.h
"""


class Layers(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/base/time.h", HEADER)
        self.write("src/policy/job.h", HEADER)
        self.write("src/policy/contract.h", HEADER)
        self.write("src/runtime/runtime.h", HEADER)
        self.write("include/rubato/rubato.h", HEADER)

    def findings(self):
        return check_layers.check(self.root, RULES)

    def including(self, path, line):
        self.write(path, SPDX + line + "\n")
        return [f.message for f in self.findings()]

    def test_includes_that_point_left_are_fine(self):
        self.assertEqual(self.including("src/runtime/x.cc", '#include "policy/contract.h"'), [])

    def test_an_include_that_points_right_is_found(self):
        self.assertEqual(self.including("src/policy/x.h", '#include "runtime/runtime.h"'),
                         ["src/policy may not include runtime/runtime.h"])

    def test_only_the_files_that_are_named_and_tests_call_a_hook(self):
        call = "Job* job = hook::next(policy, worker, me, host);"
        self.assertEqual(self.including("src/runtime/core.h", call), [])
        self.assertEqual(self.including("src/runtime/core_test.cc", call), [])
        self.assertEqual(self.including("src/runtime/x.h", "// As hook::next() does."), [])
        self.assertEqual(self.including("src/runtime/x.h", call),
                         ["hook::next is not to be called here"])

    def test_a_hook_without_a_rule_is_called_by_nobody(self):
        self.assertEqual(self.including("src/runtime/core.h", "hook::route(policy, job);"),
                         ["hook::route is not to be called here"])

    def test_the_line_is_named(self):
        self.including("src/policy/x.h", '\n#include "runtime/runtime.h"')
        self.assertEqual(self.findings()[0].line, 3)

    def test_one_header_of_a_folder_can_be_allowed(self):
        self.assertEqual(self.including("src/datapath/x.h", '#include "policy/job.h"'), [])
        self.assertEqual(self.including("src/datapath/x.h", '#include "policy/contract.h"'),
                         ["src/datapath may not include policy/contract.h"])

    def test_system_headers_are_banned_by_name_and_by_pattern(self):
        self.assertEqual(len(self.including("src/policy/x.h", "#include <atomic>")), 1)
        self.assertEqual(len(self.including("src/policy/x.h", "#include <sys/mman.h>")), 1)
        self.assertEqual(self.including("src/policy/x.h", "#include <array>"), [])
        self.assertEqual(len(self.including("src/datapath/x.h", "#include <atomic>")), 1)

    def test_a_ban_spares_the_files_that_it_names(self):
        self.assertEqual(self.including("apps/a/parser.cc", "#include <CLI/CLI.hpp>"), [])
        self.assertEqual(self.including("apps/a/x.cc", "#include <CLI/CLI.hpp>"),
                         ["apps must not include <CLI/CLI.hpp>"])

    def test_tests_may_use_threads_and_what_their_rule_adds(self):
        self.assertEqual(self.including("src/policy/x_test.cc", "#include <atomic>"), [])
        self.assertEqual(
            self.including("src/policy/x_test.cc", '#include "runtime/runtime.h"'), [])

    def test_the_public_face_is_known_by_its_angle_brackets(self):
        self.assertEqual(self.including("apps/a/x.cc", "#include <rubato/rubato.h>"), [])
        self.assertEqual(self.including("src/policy/x.h", "#include <rubato/rubato.h>"),
                         ["src/policy may not include rubato/rubato.h"])

    def test_a_header_that_does_not_exist_is_found(self):
        self.assertEqual(self.including("src/runtime/x.cc", '#include "base/nothing.h"'),
                         ["no such header: base/nothing.h"])

    def test_a_folder_without_a_rule_is_found(self):
        self.assertEqual(self.including("src/newcomer/x.cc", "#include <array>"),
                         ["tools/layers.txt has no rule for this folder"])

    def test_a_link_that_points_right_is_found(self):
        self.write("src/policy/CMakeLists.txt",
                   "rubato_library(rubato_policy SOURCES a.cc DEPS rubato_base rubato_runtime)\n")
        self.assertEqual([f.message for f in self.findings()],
                         ["src/policy may not link rubato_runtime"])

    def test_a_link_that_points_left_is_fine(self):
        self.write("src/runtime/CMakeLists.txt",
                   "rubato_library(rubato_runtime SOURCES a.cc DEPS rubato_base rubato_policy)\n")
        self.assertEqual(self.findings(), [])


class RuleFile(unittest.TestCase):
    def test_the_simulator_knows_no_hardware(self):
        text = (Path(__file__).parent.parent / "layers.txt").read_text()
        allowed = check_layers.parse_rules(text).allowed
        self.assertEqual(set(allowed["src/sim"]),
                         {"base", "policy", "overload", "sched", "workload", "metrics"})

    def test_pure_folders_include_base_only(self):
        text = (Path(__file__).parent.parent / "layers.txt").read_text()
        allowed = check_layers.parse_rules(text).allowed
        for folder in ("src/policy", "src/workload", "src/metrics"):
            self.assertEqual(allowed[folder], ["base"])


if __name__ == "__main__":
    unittest.main()
