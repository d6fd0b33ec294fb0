# SPDX-License-Identifier: Apache-2.0
import unittest

from support import HEADER, SPDX, TreeTest

import check_tidy
from source_tree import Finding


class Tidy(TreeTest):
    def found(self, path, text):
        self.write(path, text)
        if path.endswith(".cc"):
            self.write("src/CMakeLists.txt", "# " + SPDX[3:] + path.rsplit("/", 1)[-1] + "\n")
        return self.rules(check_tidy.check(self.root))

    def header(self, body):
        return self.found("src/base/x.h", HEADER + body)

    def test_a_clean_header_passes(self):
        self.assertEqual(self.header("\nclass Thing {\n public:\n  int size() const;\n\n"
                                     " private:\n  int size_ = 0;\n};\n"), [])

    def test_spdx_is_the_first_line(self):
        self.assertEqual(self.found("src/a.cc", "int x;\n" + SPDX), ["spdx"])
        self.assertEqual(self.found("src/a.cc", SPDX + "int x;\n"), [])

    def test_spdx_may_follow_an_interpreter_line(self):
        self.assertEqual(self.found("a.py", "#!/usr/bin/env python3\n# " + SPDX[3:]), [])
        self.assertEqual(self.found("b.py", "#!/usr/bin/env python3\nprint(1)\n"), ["spdx"])

    def test_headers_open_with_a_banner_and_pragma_once(self):
        self.assertEqual(self.found("src/x.h", SPDX + "#pragma once\nint x();\n"), ["banner"])
        self.assertEqual(self.found("src/x.h", SPDX + "//\n// Words here.\nint x();\n"),
                         ["pragma-once"])

    def test_classes_have_few_methods(self):
        head, tail = "class A {\n public:\n", "};\n"
        methods = [f"  int m{i}(int x) const {{ return x; }}\n" for i in range(26)]
        few = "".join(methods[:25]) + "  A(int x);\n  ~A();\n"
        self.assertEqual(self.header(head + few + tail), [])
        self.assertEqual(self.header(head + "".join(methods) + tail), ["class-size"])

    def test_retired_words_are_no_names_of_the_product(self):
        self.assertEqual(self.found("src/a.cc", SPDX + "int seat_of(int x);\n"), ["retired-name"])
        self.assertEqual(self.found("src/a.cc", SPDX + "// Takes a seat.\nint f();\n"), [])
        bench = SPDX + "// A bench.\n#pragma once\nint seat_of();\n"
        self.assertEqual(self.found("bench/a.h", bench), [])

    def test_functions_are_short(self):
        self.assertEqual(self.header("inline void f() {\n" + "  g();\n" * 68 + "}\n"), [])
        self.assertEqual(self.header("inline void f() {\n" + "  g();\n" * 69 + "}\n"),
                         ["function-length"])

    def test_python_functions_are_short(self):
        body = "# " + SPDX[3:] + "def f():\n" + "    print(1)\n" * 70
        self.assertEqual(self.found("a.py", body), ["function-length"])

    def test_lines_end_at_column_100(self):
        self.assertEqual(self.header("// " + "x" * 97 + "\n"), [])
        self.assertEqual(self.header("// " + "x" * 98 + "\n"), ["columns"])

    def test_blanks_and_tabs_are_found(self):
        for text in ("int x; \n", "\tint x;\n", "int x;"):
            self.assertEqual(self.header(text), ["whitespace"])

    def test_unfinished_work_is_found(self):
        self.assertEqual(self.header("// TODO: later\n"), ["todo"])
        self.assertEqual(self.header("int todo_list();\n"), [])

    def test_commented_out_code_is_found(self):
        for line in ("// return 4;", "// f(x);", "// count = count + 1;", '// #include "a.h"'):
            self.assertEqual(self.header(line + "\n"), ["dead-code"], line)
        self.assertEqual(self.header("// The caller owns it; null means empty.\n"), [])

    def test_conditionals_stay_in_their_places(self):
        self.assertEqual(self.header("#ifdef X\n#endif\n"), ["conditional"])
        self.assertEqual(self.found("src/base/x.h", HEADER), [])
        self.assertEqual(self.found("src/mechanism/y.h", HEADER + "#if X\n#endif\n"), [])

    def test_the_c_and_cpp_guard_is_no_conditional(self):
        self.assertEqual(self.header("#ifdef __cplusplus\n#endif\n"), [])

    def test_paths_of_machines_are_found(self):
        for path in ("/home/me/x", "/" + "work/main", "/root/x"):
            self.assertEqual(self.header(f"// see {path}\n"), ["machine-path"], path)
        self.assertEqual(self.header("// src/home/me\n"), [])

    def test_names_have_the_shape_of_their_kind(self):
        for line in ("struct my_type {\n};", "inline constexpr int max_size = 4;",
                     "#define CHECK(x) x", "void DoIt();", "using namespace std;"):
            self.assertEqual(self.header(line + "\n"), ["naming"], line)

    def test_private_members_end_in_an_underscore(self):
        self.assertEqual(self.header("class A {\n private:\n  int size = 0;\n};\n"), ["naming"])
        self.assertEqual(self.header("struct A {\n  int size = 0;\n};\n"), [])

    def test_file_names_are_snake_case(self):
        self.assertEqual(self.found("src/MyFile.cc", SPDX), ["naming"])

    def test_tests_are_named_as_behaviours(self):
        self.assertEqual(self.found("src/a_test.cc", SPDX + "TEST(A, DoesIt) {\n}\n"),
                         ["test-name"])
        self.assertEqual(self.found("src/a_test.cc", SPDX + "TEST(A, does_it) {\n}\n"), [])

    def test_tests_do_not_sleep_and_can_be_replayed(self):
        self.assertEqual(self.found("src/a_test.cc", SPDX + "std::random_device d;\n"), ["replay"])
        self.assertEqual(self.found("src/a_test.cc", SPDX + "std::this_thread::sleep_for(x);\n"),
                         ["sleep"])

    def test_a_loop_that_looks_again_may_pause(self):
        self.assertEqual(self.found("src/a_test.cc", SPDX + "while (!done()) usleep(1);\n"), [])
        self.assertEqual(self.found("src/a_test.cc", SPDX + "for (;;) {\n  f();\n  sleep(1);\n"),
                         [])

    def test_python_tests_sleep_in_the_module_that_waits_only(self):
        body = "# " + SPDX[3:] + "import time\ntime.sleep(1)\n"
        self.assertEqual(self.found("tests/e2e/waiting.py", body), [])
        self.assertEqual(self.found("bench/a.py", body), [])
        self.assertEqual(self.found("tests/e2e/test_a.py", body), ["sleep"])
        self.assertEqual(self.found("tests/e2e/test_a.py", "# " + SPDX[3:]), [])
        self.assertEqual(self.found("lab/tests/test_a.py", "# " + SPDX[3:] +
                                    "from time import sleep\n"), ["sleep"])

    def test_policies_keep_no_state_of_their_own(self):
        for line in ("static int count = 0;", "static thread_local int x;", "inline int n = 0;"):
            self.assertEqual(self.found("src/policy/x.h", HEADER + line + "\n"),
                             ["policy-state"], line)
        self.assertEqual(self.found("src/policy/x.h", HEADER + "static constexpr int kA = 1;\n"),
                         [])

    def test_policies_allocate_and_synchronise_nothing(self):
        for line in ("auto* x = new Job;", "std::atomic<int> depth_;"):
            self.assertEqual(self.found("src/policy/x.h", HEADER + line + "\n"),
                             ["policy-pure"], line)

    def test_a_source_in_no_cmake_list_is_dead(self):
        self.write("src/base/CMakeLists.txt", "# " + SPDX[3:] + "lived.cc\n")
        self.write("src/base/lived.cc", SPDX)
        self.assertEqual(check_tidy.check(self.root), [])
        self.write("src/base/ived.cc", SPDX)
        self.assertEqual(self.rules(check_tidy.check(self.root)), ["dead-file"])

    def test_a_source_may_be_named_by_a_glob_of_its_folder(self):
        self.write("cli/CMakeLists.txt", "# " + SPDX[3:] + "file(GLOB sources *.cc)\n")
        self.write("cli/main.cc", SPDX)
        self.assertEqual(check_tidy.check(self.root), [])
        self.write("cli/deeper/other.cc", SPDX)
        self.assertEqual(self.rules(check_tidy.check(self.root)), ["dead-file"])

    def test_large_files_are_found(self):
        self.write("docs/big.txt", "x" * (check_tidy.MAX_BLOB_BYTES + 1))
        self.assertEqual(self.rules(check_tidy.check(self.root)), ["blob"])

    def test_strings_and_comments_are_not_taken_for_code(self):
        text = 'const char* a = "{ #if using namespace";\n// void DoIt();x\n'
        self.assertEqual(self.header(text), [])


class Exceptions(unittest.TestCase):
    def apply(self, text, findings):
        return [str(f) for f in check_tidy.apply_exceptions(
            findings, check_tidy.parse_exceptions(text), "list")]

    def test_an_exception_with_a_reason_silences_its_rule(self):
        self.assertEqual(self.apply("todo a.h because", [Finding("a.h", 1, "todo", "x")]), [])

    def test_an_exception_needs_a_reason(self):
        self.assertEqual(self.apply("todo a.h", [Finding("a.h", 1, "todo", "x")]),
                         ["list:1: [exception] an exception states its reason"])

    def test_an_exception_nobody_needs_is_found(self):
        self.assertEqual(self.apply("todo a.h because", []),
                         ["list:1: [exception] no longer needed: todo a.h"])

    def test_other_files_stay_under_the_rule(self):
        self.assertEqual(len(self.apply("todo a.h why", [Finding("a.h", 1, "todo", "x"),
                                                         Finding("b.h", 1, "todo", "x")])), 1)


if __name__ == "__main__":
    unittest.main()
