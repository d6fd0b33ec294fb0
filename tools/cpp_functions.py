# SPDX-License-Identifier: Apache-2.0
"""Finds functions in C++ by their braces. A heuristic, good enough to measure lengths."""

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
