#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where librubato-pass.so puts checkpoints, and where it puts none: on small sources, by what it
reports and by what is in the IR."""

import re

from pass_test_support import CXX, INCLUDE, PassTest, load_pass, main, run

SUM = "long sum(const long* p, unsigned long n) { long s = 0; " \
      "for (unsigned long i = 0; i < n; ++i) s += p[i]; return s; }"
LIST = "struct Node { Node* next; long value; };" \
       "long total(const Node* n) { long s = 0; for (; n; n = n->next) s += n->value; return s; }"
SEARCH = "const char* find(const char* p, char c) { while (*p != c) ++p; return p; }"
FIBONACCI = "long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }"
HEADER = "#include <rubato/checkpoint.h>\n"


def body_of(ir, function):
    return re.search(rf"^define [^\n]*@{function}\(.*?^}}", ir, re.DOTALL | re.MULTILINE).group(0)


class Loops(PassTest):
    def kinds(self, code, *options, flags=("-O2",)):
        _, report = self.compiled(code, *options, flags=flags)
        return {loop["kind"] for loop in report["loop_list"]}

    def test_a_loop_that_counts_is_strip_mined_and_stays_vectorised(self):
        ir, report = self.compiled(SUM)
        kinds = {loop["kind"] for loop in report["loop_list"]}
        self.assertEqual(kinds - {"short"}, {"strip-mined"})  # a rest of three rounds may be short
        inner = re.search(r"^vector.body:.*?^\S", ir, re.DOTALL | re.MULTILINE).group(0)
        self.assertIn("add <2 x i64>", inner)
        self.assertNotIn("asm", inner)

    def test_a_search_is_counted(self):
        self.assertEqual(self.kinds(SEARCH), {"counted"})

    def test_a_chain_of_loads_has_a_checkpoint_every_few(self):
        ir, report = self.compiled(LIST)
        loop, = report["loop_list"]
        self.assertEqual(loop["kind"], "each")
        self.assertEqual(body_of(ir, "_Z5totalPK4Node").count("decl %fs"), 1)

    def test_a_short_loop_has_none(self):
        code = "int few(const int* p) { int s = 0; for (int i = 0; i < 40; ++i) s ^= p[i] / 7;" \
               "return s; }"
        ir, report = self.compiled(code, flags=("-O1", "-fno-unroll-loops"))
        self.assertEqual(report["loops"]["short"], 1)
        self.assertEqual(report["checkpoints"], 0)
        self.assertNotIn("rubato_checkpoint", ir)

    def test_the_same_loop_has_some_if_the_distance_is_shorter(self):
        code = "int few(const int* p) { int s = 0; for (int i = 0; i < 40; ++i) s ^= p[i] / 7;" \
               "return s; }"
        kinds = self.kinds(code, "-rubato-distance=50", flags=("-O1", "-fno-unroll-loops"))
        self.assertEqual(kinds, {"strip-mined"})

    def test_a_loop_of_long_rounds_has_one_in_each(self):
        calls = "".join(f"f({i});" for i in range(40))
        code = f"void f(int); void rounds(int n) {{ for (int i = 0; i < n; ++i) {{ {calls} }} }}"
        self.assertEqual(self.kinds(code), {"each"})

    def test_a_loop_whose_rounds_meet_a_checkpoint_has_no_more(self):
        code = "#include <cmath>\nvoid f(int); static void __attribute__((noinline)) g(int i)" \
               "{ f(i); f(i + 1); }" \
               "extern void (*hook)(int); void set() { hook = g; }" \
               "void rounds(int n) { for (int i = 0; i < n; ++i) g(i); }"
        _, report = self.compiled(code)
        self.assertEqual(report["loops"]["covered"], 1)

    def test_an_endless_loop_has_one(self):
        _, report = self.compiled("extern volatile int go; void wait() { while (go) {} }")
        self.assertGreaterEqual(report["checkpoints"], 1)

    def test_a_jump_into_a_loop_is_no_way_around(self):
        code = "int f(int n, bool b, int* p) { int i = 0; if (b) goto two;" \
               "one: p[i++] += 3; if (p[i] > 4) goto end; two: p[i++] ^= 5; if (i < n) goto one;" \
               "end: return i; }"
        _, report = self.compiled(code, flags=("-O1",))
        self.assertEqual(report["checkpoints"], 1)


class Functions(PassTest):
    def test_a_short_function_has_none(self):
        ir, report = self.compiled("int add(int a, int b) { return a * b + 1; }")
        self.assertEqual(report["functions"]["instrumented"], 0)
        self.assertNotIn("rubato", body_of(ir, "_Z3addii"))

    def test_recursion_meets_one(self):
        _, report = self.compiled(FIBONACCI)
        self.assertEqual(report["functions"]["recursion"], 1)

    def test_recursion_over_two_functions_meets_one(self):
        code = "static int odd(int); __attribute__((noinline)) int even(int n)" \
               "{ return n == 0 ? 1 : odd(n - 1) + 1; }" \
               "__attribute__((noinline)) static int odd(int n) { return n ? even(n - 1) * 3 : 0; }"
        _, report = self.compiled(code)
        self.assertGreaterEqual(report["functions"]["recursion"], 1)

    def test_a_call_to_who_knows_whom_may_come_back(self):
        ir, report = self.compiled("void f(int); int g(int i) { if (i > 9) return 1; f(i); f(i);"
                                   " return 0; }")
        self.assertEqual(report["functions"]["recursion"], 1)
        fast = body_of(ir, "_Z1gi").split("\n")[1:4]
        self.assertFalse(any("asm" in line for line in fast), fast)

    def test_a_long_stretch_of_calls_meets_some(self):
        calls = "".join(f"s += std::sin(x + {i});" for i in range(200))
        _, report = self.compiled(f"#include <cmath>\ndouble f(double x) {{ double s = 0; {calls}"
                                  "return s; }")
        self.assertGreater(report["checkpoints"], 2)

    def test_long_copies_are_done_in_pieces(self):
        ir, report = self.compiled("#include <cstring>\nvoid copy(char* to, const char* from,"
                                   "size_t n) { memcpy(to, from, n); }"
                                   "void few(char* to, const char* from) { memcpy(to, from, 64); }")
        self.assertEqual(report["copies"], 1)
        self.assertIn("rubato.piece", ir)

    def test_a_marked_function_has_none_and_is_not_inlined(self):
        code = HEADER + "RUBATO_NO_PREEMPT " + SUM + \
            "long twice(const long* p, unsigned long n) { return sum(p, n) * 2; }"
        ir, report = self.compiled(code)
        self.assertEqual(report["functions"]["skipped"], {"RUBATO_NO_PREEMPT": 1})
        self.assertNotIn("asm", body_of(ir, "_Z3sumPKlm"))
        self.assertIn("@_Z3sumPKlm", body_of(ir, "_Z5twicePKlm"))

    def test_naked_functions_and_resolvers_are_left_alone(self):
        code = '__attribute__((naked)) int seven() { asm("mov $7, %eax; ret"); }' \
               'extern "C" { static int one(int n) { return n; }' \
               'static int (*pick())(int) { for (volatile int i = 0; i < 9999; i = i + 1) {}' \
               'return one; } int chosen(int) __attribute__((ifunc("_ZL4pickv"))); }'
        _, report = self.compiled(code, flags=("-O1",))
        self.assertEqual(report["functions"]["skipped"], {"naked": 1, "ifunc resolver": 1})


class ThreadLocals(PassTest):
    CODE = "thread_local int mine; void f(); int g() { mine = 1; f(); return mine; }"

    def test_an_address_is_looked_up_after_every_call(self):
        ir, report = self.compiled(self.CODE)
        self.assertEqual(body_of(ir, "_Z1gv").count("@rubato.address_of.mine()"), 2)
        self.assertEqual(report["functions"]["skipped"], {})

    def test_so_is_the_address_of_a_part_on_every_way(self):
        code = "struct Pair { int one, two[9]; }; __thread Pair pair; void f(int*);" \
               "int* g(int n, int* other) { f(&pair.two[3]); int* p;" \
               "switch (n) { case 1: case 2: p = &pair.two[5]; break; default: p = other; }" \
               "f(p); return n > 7 ? pair.two : other; }"
        for level in ("-O0", "-O2"):
            ir, report = self.compiled(code, flags=(level,))
            body = body_of(ir, "_Z1giPi")
            self.assertEqual(len(re.findall("call.*@rubato.address_of.pair", body)), 3, body)
            self.assertNotRegex(body, r"@pair\b")
            self.assertEqual(report["functions"]["skipped"], {})

    def test_without_that_the_function_is_left_alone(self):
        ir, report = self.compiled(self.CODE, "-rubato-thread-locals=false")
        self.assertIn({"function": "_Z1gv", "reason": "thread-local"}, report["skip_list"])
        self.assertNotIn("asm", body_of(ir, "_Z1gv"))

    def test_the_address_of_errno_is_not_kept(self):
        code = "#include <cerrno>\nvoid f(); int g() { errno = 0; f(); return errno; }"
        ir, _ = self.compiled(code)
        self.assertEqual(len(re.findall("call.*__errno_location", ir)), 2)


class Code(PassTest):
    def test_the_word_is_reached_by_one_instruction(self):
        asm, _ = self.compiled(FIBONACCI, output="-fno-lto")
        self.assertRegex(asm, r"decl\s+%fs:\(%r\w+\)\n\s+#NO_APP\n\s+js\s")
        self.assertIn("rubato_checkpoint_budget@GOTTPOFF", asm)

    def test_a_program_that_has_the_word_itself_needs_no_table(self):
        asm, _ = self.compiled(FIBONACCI, "-rubato-local-exec", output="-fno-lto")
        self.assertRegex(asm, r"decl\s+%fs:rubato_checkpoint_budget@TPOFF\n\s+#NO_APP\n\s+js\s")

    def test_the_hot_path_spills_no_vector(self):
        code = "double sum(const double* p, int n) { double s = 0; " \
               "for (int i = 0; i < n; ++i) s += p[i] * p[i]; return s; }"
        asm, _ = self.compiled(code, flags=("-O3", "-mavx2", "-ffast-math"), output="-fno-lto")
        self.assertIn("%ymm", asm)
        self.assertNotRegex(asm, r"vmov\w+\s+%[xy]mm\d+, -?\d*\(%r[sb]p\)")


class Options(PassTest):
    def fails(self, *options, **environment):
        done = run(CXX, "-O1", "-c", *INCLUDE, *load_pass(*options), "-x", "c++", "-", "-o",
                   self.folder / "x.o", input=SUM, status=None,
                   env={"PATH": "/usr/bin:/bin", **environment})
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("Stack dump", done.stderr)
        return done.stderr

    def test_a_distance_out_of_range_is_refused_in_one_line(self):
        self.assertIn("-rubato-distance takes a number from 10 to 1000000, not '3'",
                      self.fails("-rubato-distance=3"))
        self.assertIn("RUBATO_PASS_DISTANCE takes a number", self.fails(RUBATO_PASS_DISTANCE="far"))

    def test_a_report_that_cannot_be_written_is_an_error(self):
        for path in ("/dev/full", f"{self.folder}/none/report"):
            self.assertIn(f"cannot write the report {path}",
                          self.fails(f"-rubato-pass-report={path}"))

    def test_the_environment_does_where_only_the_pass_is_loaded(self):
        report = self.folder / "r.json"
        for _ in range(2):
            run(CXX, "-O1", "-c", load_pass()[1], "-x", "c++", "-", "-o", self.folder / "x.o",
                input=SUM, env={"PATH": "/usr/bin:/bin", "RUBATO_PASS_REPORT": str(report)})
        self.assertEqual(len(report.read_text().splitlines()), 2)

    def test_a_summary_is_a_line(self):
        done = run(CXX, "-O2", "-c", *load_pass("-rubato-pass-summary"), "-x", "c++", "-", "-o",
                   self.folder / "x.o", input=SUM + SEARCH)
        self.assertRegex(done.stderr, r"^rubato-pass: -: \d+ checkpoints; 2 of 2 functions.*\n$")


if __name__ == "__main__":
    main()
