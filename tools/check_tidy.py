#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House style that a machine can check; docs/STYLE.md says why. Exceptions, each with its reason,
stand in tools/tidy_exceptions.txt, and one that nothing needs any more is itself an error."""

import ast
import re
import sys
from pathlib import Path

import cpp_functions
from source_tree import Finding, code_only, comments_only, is_cpp, list_files, read, report

MAX_FUNCTION_LINES = 70
MAX_METHODS = 25
MAX_COLUMNS = 100
MAX_BLOB_BYTES = 512 * 1024
SPDX = "SPDX-License-Identifier: Apache-2.0"

CODE_SUFFIXES = {".h", ".hpp", ".cc", ".c", ".cpp", ".S", ".py", ".sh", ".cmake"}
CODE_NAMES = {"CMakeLists.txt", "Makefile"}
# Where preprocessor conditionals may be: the compiler seam and what touches hardware.
CONDITIONALS = ("src/base/compiler.h", "src/base/check.h", "src/mechanism/", "src/datapath/")
# Tests in Python that wait through one module; no other of theirs sleeps.
WAITING = "tests/e2e/waiting.py"
WAITING_FOLDERS = ("tests/e2e/", "lab/tests/")
LINKED_FOLDERS = ("src/", "apps/", "cli/", "bench/", "tests/", "examples/", "tools/")


def is_code(path):
    return Path(path).suffix in CODE_SUFFIXES or Path(path).name in CODE_NAMES


def is_test(path):
    return path.endswith("_test.cc") or Path(path).name.startswith("test_")


def check_spdx(path, text):
    first = text.split("\n", 2)[:2]
    head = first[1] if first[0].startswith("#!") and len(first) > 1 else first[0]
    if SPDX not in head:
        yield Finding(path, 1, "spdx", f"the first line must hold {SPDX}")


def check_shape(path, text):
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        yield Finding(path, len(lines), "whitespace", "no newline at the end of the file")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield Finding(path, number, "columns", f"{len(line)} columns, at most {MAX_COLUMNS}")
        if line != line.rstrip():
            yield Finding(path, number, "whitespace", "trailing blanks")
        if "\t" in line and Path(path).name != "Makefile":
            yield Finding(path, number, "whitespace", "tab")


def check_banner(path, text):
    before, pragma, _ = text.partition("#pragma once")
    if not pragma:
        yield Finding(path, 0, "pragma-once", "header without #pragma once")
        return
    words = [line for line in before.split("\n")[1:] if re.search(r"\w{2}", line)]
    if not any(line.lstrip().startswith(("//", "/*", "*")) for line in words):
        yield Finding(path, 1, "banner", "a header opens with what it is and who may call it")


def check_words(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            yield Finding(path, number, "todo", "finish it, or write it down in docs/STATUS.md")


def check_paths(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"(?<![\w.$}/~-])/(work|root|home)/\w", line):
            yield Finding(path, number, "machine-path", "path of somebody's machine")


def check_comments(path, text):
    call = r"[\w:.>-]+\([^ ]*\)|[\w.>-]+ [-+*|&]?= .+|return\b.*|#include .*"
    for number, comment in comments_only(text):
        if re.match(rf"// ?(?:{call});?$", comment) and comment.rstrip().endswith((";", ">", '"')):
            yield Finding(path, number, "dead-code", "commented-out code")


def check_conditionals(path, code):
    if path.startswith(CONDITIONALS):
        return
    for number, line in enumerate(code.split("\n"), 1):
        if re.match(r"\s*#\s*if", line) and "__cplusplus" not in line:
            yield Finding(path, number, "conditional", "#if belongs to " + ", ".join(CONDITIONALS))


def check_functions(path, code):
    for function in cpp_functions.functions(code):
        if function.lines > MAX_FUNCTION_LINES:
            yield Finding(path, function.first_line, "function-length",
                          f"{function.lines} lines, at most {MAX_FUNCTION_LINES}")


def check_classes(path, code):
    for found in cpp_functions.classes(code):
        if found.methods > MAX_METHODS:
            yield Finding(path, found.first_line, "class-size",
                          f"{found.name} has {found.methods} methods, at most {MAX_METHODS}")


def check_python_functions(path, text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield Finding(path, node.lineno, "function-length",
                              f"{lines} lines, at most {MAX_FUNCTION_LINES}")


def check_python_sleep(path, text):
    if not path.startswith(WAITING_FOLDERS) or path == WAITING:
        return
    for node in ast.walk(ast.parse(text)):
        called = isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep"
        imported = isinstance(node, ast.ImportFrom) and node.module == "time" and \
            any(name.name == "sleep" for name in node.names)
        if called or imported:
            yield Finding(path, node.lineno, "sleep", f"tests wait by the functions of {WAITING}")


TYPE = re.compile(r"^\s*(?:class|struct|enum class|enum)\s+"
                  r"(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)*(\w+)\s*(?:final\s*)?[:{]")
CONSTANT = re.compile(r"^\s*(?:inline |static )+constexpr [\w:<>*, ]+?[ *](\w+)"
                      r"(?:\[[^\]]*\])*\s*[={]")
# Names that other people's interfaces prescribe.
FOREIGN = "LLVMFuzzerTestOneInput|SetUp|TearDown|SetUpTestSuite|TearDownTestSuite|GetName"
MACRO = re.compile(r"^\s*#\s*define\s+(\w+)")
FUNCTION = re.compile(r"^ *(?:(?:inline|static|constexpr|virtual|explicit|extern) )*"
                      r"(?:void|bool|int|size_t|u?int\d+_t|double|std::\w+(?:<[^;=]*>)?) "
                      r"[*&]?(\w+)\(")
MEMBER = re.compile(r"^  (?!(?:using|friend|static|return|struct|class|enum|typedef|namespace) )"
                    r"(?:mutable )?(?:const )?[\w:]+(?:<[^;()]*>)?[ *&]+(\w+)"
                    r"(?: = [^;]*|\{[^;]*\})?;")


def check_names(path, code):
    stem = Path(path).stem
    if not re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z]+)?", stem):
        yield Finding(path, 0, "naming", "file names are snake_case")
    in_c = 'extern "' in code
    for number, line in enumerate(code.split("\n"), 1):
        for pattern, shape, what in (
                (TYPE, r"[A-Z]\w*|rubato_\w+|fiber_local|promise_type", "types are CamelCase"),
                (CONSTANT, r"k[A-Z]\w*|value|type|is_\w+", "constants are kCamel"),
                (MACRO, r"RUBATO_[A-Z0-9_]+|_GNU_SOURCE", "macros are RUBATO_UPPER"),
                (FUNCTION, r"[a-z_][a-z0-9_]*|" + FOREIGN, "functions are snake_case")):
            if in_c and pattern is TYPE:
                continue
            # An override has the name that the interface gave it.
            match = None if " override" in line else pattern.match(line)
            if match and not re.fullmatch(shape, match.group(1)):
                yield Finding(path, number, "naming", f"{match.group(1)}: {what}")
        if path.endswith((".h", ".hpp")) and re.match(r"using namespace\b", line):
            yield Finding(path, number, "naming", "no using-directive in a header")


# Private words of earlier versions, for which the field has better ones.
RETIRED_PARTS = {"seat", "seats", "minder", "minded", "nudge", "nudged", "keeper", "commons",
                 "actor", "culprit", "desk", "lane", "lanes", "told", "bouncers"}
RETIRED_NAMES = {"Site", "site", "site_", "sign", "signs", "post", "posted", "unasked", "Identity",
                 "Learned", "Books", "books", "Letter", "Why", "Verdict", "Rest",
                 "FlowHome", "FlowGate", "lie_down", "rise", "Section", "half_way", "Trash",
                 "Knob", "knob", "Contender", "contender", "contenders", "Said", "QueueSpec",
                 "cpu_settle", "cpu_relax"}
PRODUCT = ("src/", "apps/", "cli/", "include/")
WORD = re.compile(r"[A-Za-z_]\w*")


def check_retired(path, code):
    if not path.startswith(PRODUCT) or is_test(path):
        return
    for number, line in enumerate(code.split("\n"), 1):
        for name in WORD.findall(line):
            parts = {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+", name)}
            if name in RETIRED_NAMES or parts & RETIRED_PARTS:
                yield Finding(path, number, "retired-name", f"{name}: see docs/GLOSSARY.md")


def check_members(path, code):
    """Private data members of a class end in `_`. Looks between `private:` and the closing brace
    at the column of a top-level class."""
    private = False
    for number, line in enumerate(code.split("\n"), 1):
        if re.match(r"^ private:", line):
            private = True
        elif re.match(r"^( public:| protected:|\};)", line):
            private = False
        match = MEMBER.match(line) if private else None
        if match and not match.group(1).endswith("_"):
            yield Finding(path, number, "naming", f"{match.group(1)}: private members end in _")


def polls(lines, number):
    """Is line `number` (from 1) in a loop that looks again? Its sleep is then a mere pause."""
    loop = r"^\s*(while|for) \("
    before = lines[max(0, number - 5):number - 1]
    return bool(re.match(loop, lines[number - 1])) or any(
        re.match(loop, line) and line.endswith("{") for line in before)


def check_test_names(path, code):
    lines = code.split("\n")
    for number, line in enumerate(lines, 1):
        match = re.match(r"\s*(?:TYPED_)?TEST(?:_F|_P)?\(\w+, (\w+)\)", line)
        if match and not re.fullmatch(r"[a-z][a-z0-9_]*", match.group(1)):
            yield Finding(path, number, "test-name", "a test is named as a behaviour, snake_case")
        if re.search(r"\brandom_device\b", line):
            yield Finding(path, number, "replay", "a random test prints its seed and replays it")
        sleeps = re.search(r"\b(sleep_for|usleep|nanosleep|sleep)\s*\(", line)
        if sleeps and not polls(lines, number):
            yield Finding(path, number, "sleep", "tests do not sleep to synchronise")


def check_policy(path, code):
    if not path.startswith("src/policy/") or is_test(path):
        return
    for number, line in enumerate(code.split("\n"), 1):
        if re.search(r"\b(static|thread_local)\s+(?!constexpr|const\b|inline constexpr)", line):
            if "(" not in line or re.search(r"=|;\s*$", line.split("(")[0]):
                yield Finding(path, number, "policy-state", "a policy has no mutable statics")
        if re.match(r"inline (?!constexpr|const\b|namespace)[\w:<>]+ \w+\s*[={;]", line):
            yield Finding(path, number, "policy-state", "a policy has no global variables")
        if re.search(r"\b(new\s+\w|malloc\s*\(|std::(atomic|thread|mutex|chrono)\b)", line):
            yield Finding(path, number, "policy-pure", "no memory or locks of its own")


def is_named(path, folder, cmake):
    """Does the CMakeLists.txt of `folder` name this source, in full or by a glob?"""
    if re.search(rf"(?<![\w.]){re.escape(Path(path).name)}\b", cmake):
        return True
    return any(Path(path).match(f"{folder}/{pattern}".removeprefix("./"))
               for pattern in re.findall(r"[\w./]*\*[\w./*]*", cmake))


def check_dead_files(root, files):
    """Every C++ source is named in the CMakeLists.txt of its folder or of one above."""
    lists = {str(Path(f).parent): read(root, f) for f in files if f.endswith("CMakeLists.txt")}
    helpers = "".join(read(root, f) for f in files if f.endswith(".cmake"))
    for path in files:
        if Path(path).suffix not in (".cc", ".c", ".cpp", ".S"):
            continue
        if not path.startswith(LINKED_FOLDERS) or Path(path).name in helpers:
            continue
        folders = [str(p) for p in Path(path).parents if str(p) in lists]
        if not any(is_named(path, folder, lists[folder]) for folder in folders):
            yield Finding(path, 0, "dead-file", "named in no CMakeLists.txt above it")


def check_cpp(path, text):
    code = code_only(text)
    yield from check_comments(path, text)
    yield from check_conditionals(path, code)
    yield from check_functions(path, code)
    yield from check_classes(path, code)
    yield from check_retired(path, code)
    yield from check_names(path, code)
    yield from check_members(path, code)
    yield from check_policy(path, code)
    if path.endswith((".h", ".hpp")):
        yield from check_banner(path, text)
    if path.endswith("_test.cc"):
        yield from check_test_names(path, code)


def check_file(root, path):
    if (Path(root) / path).stat().st_size > MAX_BLOB_BYTES:
        yield Finding(path, 0, "blob", f"larger than {MAX_BLOB_BYTES // 1024} KiB")
    text = read(root, path)
    if text is None or path == "LICENSE":
        return
    # The checks and their tests speak of what they forbid.
    if not path.startswith("tools/check_tidy") and not path.startswith("tools/tests/"):
        yield from check_paths(path, text)
        if is_code(path) or path.endswith(".md"):
            yield from check_words(path, text)
    if is_code(path):
        yield from check_spdx(path, text)
        yield from check_shape(path, text)
    if path.endswith(".py"):
        yield from check_python_functions(path, text)
        yield from check_python_sleep(path, text)
    if is_cpp(path):
        yield from check_cpp(path, text)


def parse_exceptions(text):
    """Lines of `rule path reason`; the reason is required."""
    exceptions = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split(None, 2)
        if words:
            exceptions[tuple(words[:2])] = (number, len(words) == 3)
    return exceptions


def apply_exceptions(findings, exceptions, where="tools/tidy_exceptions.txt"):
    kept = [f for f in findings if (f.rule, f.path) not in exceptions]
    used = {(f.rule, f.path) for f in findings}
    for key, (number, has_reason) in exceptions.items():
        if not has_reason:
            kept.append(Finding(where, number, "exception", "an exception states its reason"))
        if key not in used:
            kept.append(Finding(where, number, "exception", f"no longer needed: {' '.join(key)}"))
    return kept


def check(root):
    files = list_files(root)
    findings = [f for path in files for f in check_file(root, path)]
    findings += check_dead_files(root, files)
    exceptions = Path(root) / "tools/tidy_exceptions.txt"
    text = exceptions.read_text() if exceptions.exists() else ""
    return apply_exceptions(findings, parse_exceptions(text))


if __name__ == "__main__":
    sys.exit(report(check(sys.argv[1] if len(sys.argv) > 1 else "."), "tidy"))
