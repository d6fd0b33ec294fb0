# SPDX-License-Identifier: Apache-2.0
import unittest

import support  # noqa: F401  (finds the modules under test)

from cpp_functions import classes, functions
from source_tree import code_only


def lengths(text):
    return [f.lines for f in functions(code_only(text))]


class Functions(unittest.TestCase):
    def test_members_of_classes_in_namespaces_are_found(self):
        self.assertEqual(lengths("namespace a {\nclass B {\n  int f() {\n    return 1;\n  }\n"
                                 "  int g() { return 2; }\n};\n}\n"), [3, 1])

    def test_blocks_inside_belong_to_the_function(self):
        self.assertEqual(lengths("void f() {\n  if (x) {\n    for (;;) {\n    }\n  }\n}\n"), [6])

    def test_lambdas_belong_to_the_function_they_are_written_in(self):
        self.assertEqual(lengths("void f() {\n  g([&](int x) {\n    return x;\n  });\n}\n"), [5])

    def test_the_signature_counts(self):
        self.assertEqual(lengths("void f(int a,\n       int b)\n{\n}\n"), [4])

    def test_member_initialisers_with_braces_are_part_of_the_constructor(self):
        self.assertEqual(lengths("A::A(int x)\n    : a_{x},\n      b_(2) {\n  f();\n}\n"), [5])

    def test_aggregates_are_no_functions(self):
        self.assertEqual(lengths("constexpr A kTable[] = {{f(1), 2}, {3, 4}};\nA b{1};\n"), [])

    def test_aligned_types_are_no_functions(self):
        self.assertEqual(lengths("class alignas(kLine) A {\n  int f() {\n  }\n};\n"), [2])

    def test_macros_with_braces_do_not_confuse(self):
        self.assertEqual(lengths("#define X(a) { \\\n  a {\nvoid f() {\n}\n"), [2])

    def test_braces_in_strings_and_comments_do_not_confuse(self):
        self.assertEqual(lengths("void f() {\n  g(\"{\", '{');  // {\n}\nvoid h() {\n}\n"), [3, 2])

    def test_raw_strings_do_not_confuse(self):
        self.assertEqual(lengths('void f() {\n  g(R"x({ "{ )x");\n}\n'), [3])

    def test_digit_separators_are_no_character_literals(self):
        self.assertEqual(lengths("int a = 1'000;\nvoid f() {\n}\nint b = 2'000;\n"), [2])

    def test_templates_and_requires_clauses_are_seen_through(self):
        self.assertEqual(lengths("template <class T>\n  requires requires(T t) { t.x(); }\n"
                                 "void f(T t) {\n  t.x();\n}\n")[-1], 3)


def methods(text):
    return {c.name: c.methods for c in classes(code_only(text))}


class Classes(unittest.TestCase):
    def test_declared_and_defined_methods_count(self):
        self.assertEqual(methods("class A {\n  int f();\n  int g() const { return h(1); }\n"
                                 "  template <class T>\n  void t(T&& x);\n};\n"), {"A": 3})

    def test_data_constructors_and_operators_do_not_count(self):
        self.assertEqual(methods("struct A {\n  A();\n  ~A();\n  bool operator==(A) const;\n"
                                 "  std::function<void(int)> f;\n  int x = g(1);\n"
                                 "  friend void h(A);\n};\n"), {"A": 0})

    def test_templates_and_nested_classes_are_classes(self):
        self.assertEqual(methods("template <Policy P>\nclass A final : public B<P>, private C {\n"
                                 "  struct D {\n    int f();\n  };\n  int g();\n};\n"),
                         {"A": 1, "D": 1})


if __name__ == "__main__":
    unittest.main()
