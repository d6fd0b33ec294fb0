# SPDX-License-Identifier: Apache-2.0
"""Finds functions and classes in C++ by their braces. A heuristic, good enough to measure sizes."""

import re
from dataclasses import dataclass

NOT_A_FUNCTION = re.compile(r"^\s*(?:\}\s*)?(if|for|while|switch|catch|do|else|try)\b")
SCOPE = re.compile(r"\b(namespace|class|struct|enum|union|concept)\b|\bextern\s*\"")
INITIALISER_LIST = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:)")


@dataclass(frozen=True)
class Function:
    first_line: int
    last_line: int
    head: str

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


@dataclass(frozen=True)
class Class:
    first_line: int
    name: str
    methods: int  # declared in its body; constructors, destructors and operators do not count


def without_preprocessor(code):
    lines = code.split("\n")
    inside = False
    for i, line in enumerate(lines):
        if inside or line.lstrip().startswith("#"):
            inside = line.rstrip().endswith("\\")
            lines[i] = ""
    return "\n".join(lines)


def _kind(head):
    head = re.sub(r"\balignas\s*\([^)]*\)", "", head)
    stripped = head.rstrip()
    if INITIALISER_LIST.search(head) and re.search(r"[\w>]$", stripped):
        return "initialiser"
    if NOT_A_FUNCTION.match(head):
        return "block"
    if ")" in head and not re.match(r"^\s*(?:inline\s+)?namespace\b", head):
        if re.search(r"[=,(]\s*$", stripped):
            return "block"
        return "function"
    return "scope" if SCOPE.search(head) else "block"


def functions(code):
    """`code` has no comments and literals (source_tree.code_only). Outermost functions only, so a
    lambda counts as part of the function it is written in."""
    code = without_preprocessor(code)
    found, stack = [], []
    head, line, head_line, open_function = "", 1, 1, 0
    for char in code:
        if char == "\n":
            line += 1
        if char == "{":
            kind = _kind(head) if not open_function else "block"
            stack.append((kind, head, head_line))
            if kind == "function":
                open_function += 1
            if kind != "initialiser":
                head = ""
            else:
                head += char
        elif char == "}":
            kind, opening_head, opening_line = stack.pop() if stack else ("block", "", line)
            if kind == "function":
                open_function -= 1
                found.append(Function(opening_line, line, " ".join(opening_head.split())))
            head = head + char if kind == "initialiser" else ""
        elif char == ";" and not _in_parentheses(head):
            head = ""
        else:
            if not head.strip():
                head_line, head = line, ""
            head += char
    return found


def _in_parentheses(head):
    return head.count("(") > head.count(")")


CLASS = re.compile(r"^(?:template )*(?:requires\b.* )?(?:class|struct) ([\w:]+)(?: final)?\s*"
                   r"(?::[^:].*)?$")
NO_METHOD = re.compile(r"^(friend|using|typedef|static_assert|enum|return)\b|\boperator\b|~")


def _plain(head):
    """A declaration without its label, template arguments and alignment."""
    head = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)+", "", head)
    head = re.sub(r"\balignas\s*\([^()]*(?:\([^()]*\))?[^()]*\)|\[\[\w+\]\]", "", head).strip()
    while True:
        shorter = re.sub(r"<[^<>]*>", "", head)
        if shorter == head:
            return " ".join(head.split())
        head = shorter


def _is_method(head, class_name):
    plain = re.sub(r"^(?:template\s+)?(?:requires\b.*?\)\s*)?", "", _plain(head))
    before, parenthesis, _ = plain.partition("(")
    if not parenthesis or "=" in before or NO_METHOD.search(before):
        return False
    return bool(re.search(r"\w$", before)) and before.split()[-1] != class_name


def classes(code):
    """`code` as for functions(). Nested classes are classes of their own."""
    code = without_preprocessor(code)
    found, stack = [], []  # of [kind, class name, first line, methods]
    head, line, head_line = "", 1, 1
    for char in code:
        if char == "\n":
            line += 1
        inside = stack[-1] if stack else None
        if char == "{":
            match = CLASS.match(_plain(head)) if inside is None or inside[0] != "body" else None
            scope = SCOPE.search(head) and ")" not in head
            if match:
                stack.append(["class", match.group(1).split("::")[-1], head_line, 0])
            elif inside is not None and inside[0] == "class" and _is_method(head, inside[1]):
                inside[3] += 1
                stack.append(["body", "", line, 0])
            else:
                stack.append(["scope" if scope else "body", "", line, 0])
            head = ""
        elif char == "}":
            kind, name, first, methods = stack.pop() if stack else ("body", "", line, 0)
            if kind == "class":
                found.append(Class(first, name, methods))
            head = ""
        elif char == ";" and not _in_parentheses(head):
            if inside is not None and inside[0] == "class" and _is_method(head, inside[1]):
                inside[3] += 1
            head = ""
        else:
            if not head.strip():
                head_line, head = line, ""
            head += char
    return found
