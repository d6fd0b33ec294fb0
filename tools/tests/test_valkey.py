# SPDX-License-Identifier: Apache-2.0
"""The insertions into Valkey and the tables about it; no source of Valkey is needed."""

import json
import re
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from support import TreeTest

import valkey_insert
import valkey_suite
import valkey_tables

FOLDER = Path(__file__).resolve().parents[2] / "valkey"
SOURCE = """int before(void);
static int twice(int x);

int before(void) {
    int x = 1;
    return x;
}

static int twice(int x)
{
    return x;
}
"""


def insertions(text):
    return valkey_insert.parse(text)


class Insertions(TreeTest):
    def added(self, text, source=SOURCE):
        return valkey_insert.applied(source, insertions(text))

    def refusal(self, text, source=SOURCE):
        with self.assertRaises(valkey_insert.InsertionError) as caught:
            self.added(text, source)
        return str(caught.exception)

    def test_a_line_is_put_before_its_anchor_with_its_indent(self):
        text = self.added("@ a.c before before\n> return x;\n+ log(x);\n")
        self.assertIn("    int x = 1;\n    log(x);\n    return x;\n", text)
        self.assertEqual(text.count("log"), 1)

    def test_or_after_it_and_declarations_are_no_definitions(self):
        text = self.added("@ a.c twice after\n> return x;\n+ log(x);\n")
        self.assertIn("{\n    return x;\n    log(x);\n}\n", text)

    def test_several_at_one_anchor_stay_in_order(self):
        one = "@ a.c - before\n> int x = 1;\n+ {}\n"
        text = self.added(one.format("a();") + one.format("b();"))
        self.assertIn("    a();\n    b();\n    int x = 1;\n", text)

    def test_an_anchor_that_is_there_twice_is_refused(self):
        self.assertIn("there 2 times", self.refusal("@ a.c - before\n> return x;\n+ log(x);\n"))

    def test_an_anchor_or_a_function_that_is_gone_is_refused(self):
        self.assertIn("there 0 times", self.refusal("@ a.c before before\n> y;\n+ log(x);\n"))
        self.assertIn("there 0 times", self.refusal("@ a.c other before\n> return x;\n+ log();\n"))

    def test_a_malformed_insertion_names_its_line(self):
        self.assertIn("line 2", self.refusal("# text\n@ a.c before\n> y;\n+ z;\n"))
        self.assertIn("line 1", self.refusal("@ a.c - before\ny;\n+ z;\n"))
        self.assertIn("three lines", self.refusal("@ a.c - before\n> y;\n"))

    def test_one_bad_anchor_changes_no_file(self):
        self.write("src/a.c", SOURCE)
        self.write("list", "@ a.c - before\n> int x = 1;\n+ a();\n@ a.c - before\n> y;\n+ b();\n")
        with redirect_stderr(StringIO()) as said:
            status = valkey_insert.main(self.root / "list", self.root / "src")
        self.assertEqual((status, (self.root / "src/a.c").read_text()), (2, SOURCE))
        self.assertIn("a.c: the anchor is there 0 times", said.getvalue())

    def test_those_of_the_project_are_well_formed(self):
        found = insertions((FOLDER / "insertions.txt").read_text())
        self.assertGreater(len(found), 40)
        for one in found:
            ours = any(word in one.added
                       for word in ("scheduler", "RUBATO", "BLOCKED_POSTPONE", "protected"))
            declares = re.fullmatch(r"(void|int) \w+\(.*\);", one.added)
            self.assertTrue(ours or declares, one.added)


class Tables(TreeTest):
    HEADER = """
struct other { int x; };
struct valkeyServer {
    /* General */
    int hz;                /* a comment; with a semicolon */
    list *replicas, *monitors;
    char neterr[LEN + 1];
    struct { int inner; } samples[3];
#ifdef X
    uint32_t bits : 1;
#endif
    _Atomic uint64_t next; // another
};
"""

    def test_the_fields_of_a_structure(self):
        self.assertEqual(valkey_tables.fields_of(self.HEADER),
                         ["hz", "replicas", "monitors", "neterr", "samples", "bits", "next"])

    def test_commands_have_their_containers(self):
        self.write("c/get.json", json.dumps({"GET": {}}))
        self.write("c/list.json", json.dumps({"LIST": {"container": "CLIENT"}}))
        self.assertEqual(valkey_tables.commands_of(self.root / "c"), {"get", "client|list"})

    def test_entries_are_checked(self):
        with self.assertRaisesRegex(ValueError, "line 1"):
            valkey_tables.entries("get runs\n", valkey_tables.CLASSES)
        with self.assertRaisesRegex(ValueError, "twice"):
            valkey_tables.entries("get whole\nget waits\n", valkey_tables.CLASSES)

    def tree(self, commands="get whole\n", fields="hz shared\n", parts="X(a)"):
        self.write("valkey/commands.txt", commands)
        self.write("valkey/fields.txt", fields)
        self.write("valkey/scheduler_parts.h", "#define RUBATO_FIELDS(X) \\\n  " + parts +
                   "\n#define RUBATO_COUNTERS(X) \\\n  X(dirty)\n")
        self.write("src/server.h", "struct valkeyServer {\n int hz; int a; int dirty;\n};\n")
        self.write("src/commands/get.json", json.dumps({"GET": {}}))
        with redirect_stderr(StringIO()) as said, redirect_stdout(StringIO()):
            status = valkey_tables.main(self.root / "valkey", self.root / "src")
        return status, said.getvalue()

    def test_tables_that_fit_make_the_header(self):
        status, _ = self.tree(fields="hz shared\na command\ndirty counter\n")
        self.assertEqual(status, 0)
        self.assertIn('{"get", SCHEDULER_WHOLE},',
                      (self.root / "src/scheduler_classes.h").read_text())

    def test_a_field_or_command_without_a_class_fails(self):
        status, said = self.tree(commands="del waits\n", fields="hz shared\na command\n")
        self.assertEqual(status, 1)
        for line in ("command get has no class", "command del is not in Valkey",
                     "field dirty has no class", "RUBATO_COUNTERS and fields.txt differ: dirty"):
            self.assertIn(line, said)

    def test_the_lists_of_the_header_are_those_of_the_table(self):
        status, said = self.tree(fields="hz shared\na command\ndirty counter\n", parts="X(hz)")
        self.assertEqual(status, 1)
        self.assertIn("RUBATO_FIELDS and fields.txt differ: hz", said)

    def test_variables_are_read_of_a_table_of_symbols(self):
        table = """
server.o:     file format elf64-x86-64
0000000000015af0 l     O .bss\t0000000000000008 prev_err_count.3
0000000000000360 g     O .data.rel.local\t0000000000000058 sdsReplyHashtableType
0000000000000000 l     O .rodata\t0000000000000010 table.1
0000000000000000 l    d  .bss\t0000000000000000 .bss
0000000000000020 g     F .text\t0000000000000058 call
0000000000000000 l    d  .tbss\t0000000000000000 .tbss
0000000000000000 l       .tbss\t0000000000000004 of_thread
0000000000000000 g       .tdata\t0000000000000004 with_value
0000000000015af8 l     O .bss\t0000000000000008 prev_err_count.7
"""
        self.assertEqual(list(valkey_tables.statics_of_table(table, "server")),
                         ["server:prev_err_count", "server:sdsReplyHashtableType",
                          "server:of_thread", "server:with_value", "server:prev_err_count/2"])

    def test_a_folder_without_object_files_fails(self):
        self.write("valkey/statics.txt", "a:known shared\n")
        with redirect_stderr(StringIO()) as said:
            status = valkey_tables.compare_statics(self.root / "valkey", self.root)
        self.assertEqual(status, 1)
        self.assertIn("no object file", said.getvalue())

    def test_a_variable_without_a_class_fails(self):
        self.write("valkey/statics.txt", "a:known shared\na:gone brief\nb:* shared\n")
        with redirect_stderr(StringIO()) as said, patch.object(
                valkey_tables, "statics_of", lambda _: {"a:known", "b:any", "a:new"}):
            status = valkey_tables.compare_statics(self.root / "valkey", self.root)
        self.assertEqual((status, said.getvalue()),
                         (1, "valkey_tables: variable a:new has no class\n"))

    def test_those_of_the_project_are_well_formed(self):
        text = (FOLDER / "commands.txt").read_text()
        classes = valkey_tables.entries(text, valkey_tables.CLASSES)
        self.assertEqual(set(classes.values()), set(valkey_tables.CLASSES))
        fields = (FOLDER / "fields.txt").read_text()
        valkey_tables.entries(fields, valkey_tables.FIELD_CLASSES)
        statics = (FOLDER / "statics.txt").read_text()
        valkey_tables.entries(statics, valkey_tables.STATIC_CLASSES)


class Suite(unittest.TestCase):
    """What the logs of Valkey's runners say."""

    def test_a_unit_passes_when_it_ends_and_no_test_of_it_failed(self):
        log = """[ok]: first (1 ms)
[err]: second in tests/unit/b.tcl
Expected 1 <= 0
[1/3 done]: unit/a (1 seconds)
[2/3 done]: unit/b (2 seconds)
[exception]: Executing test client: I/O error reading reply.
"""
        self.assertEqual(valkey_suite.passed_units("runtest", log), ["unit/a"])
        self.assertEqual(valkey_suite.passed_tests(log), 1)

    def test_the_runners_of_instances_name_a_unit_when_it_begins(self):
        log = """Testing unit: 00-base.tcl
12:00:00> (init) Restart killed instances: OK
Testing unit: 01-next.tcl
12:00:01> Fails: FAILED: Expected 1 == 0
(Jumping to next unit after error)
Testing unit: 02-last.tcl
12:00:02> Passes: OK
"""
        self.assertEqual(valkey_suite.passed_units("runtest-cluster", log), ["00-base", "02-last"])
        self.assertEqual(valkey_suite.passed_tests(log), 2)

    def compare(self, failing):
        """The verdict on one unit; `failing` tells of the runs alone, by build."""
        def run(build, _runner, _options, units, clients):
            failed = clients != 1 or failing[build].pop(0)
            return units if failed else [], 0
        suite = valkey_suite.Suite(2)
        with patch.object(suite, "run", run), redirect_stdout(StringIO()) as said:
            suite.compare("runtest", [], [], ["unit/a"])
        return len(suite.failures), said.getvalue().splitlines()[-1].strip()

    def test_what_fails_alone_is_compared_with_the_unchanged_build(self):
        noise = {"ours": [False] * 3, "unchanged": []}
        self.assertEqual(self.compare(noise), (0, "unit/a: passes 3 times alone"))
        known = {"ours": [False, True], "unchanged": [False, False, True]}
        self.assertEqual(self.compare(known), (0, "unit/a: fails in the unchanged build as well"))
        ours = {"ours": [True], "unchanged": [False] * 3}
        self.assertEqual(self.compare(ours),
                         (1, "unit/a: FAILS, and passes in the unchanged build"))


if __name__ == "__main__":
    unittest.main()
