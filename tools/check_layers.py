#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes and CMake dependencies point left only, and that only those files call a
policy's hooks which tools/layers.txt names."""

import fnmatch
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from source_tree import Finding, is_cpp, list_files, read, report

ROOT_FOLDERS = ("include", "apps", "cli", "bench", "tests", "tools", "examples")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TARGET = re.compile(r"rubato_(library|test|bench|fuzz)\s*\(([^)]*)\)", re.DOTALL)
HOOK_CALL = re.compile(r"\bhook::(\w+)\s*\(")
KEYWORDS = {"SOURCES", "DEPS", "PRIVATE_DEPS", "LABELS", "TIMEOUT", "CORPUS"}


@dataclass
class Layers:
    """The parsed rule file. Keys are folders as they are written there: src/policy, apps."""

    allowed: dict = field(default_factory=dict)
    banned: dict = field(default_factory=dict)
    exempt: dict = field(default_factory=dict)  # the files that a ban spares, by its folder
    test_allowed: dict = field(default_factory=dict)
    hooks: dict = field(default_factory=dict)  # the files that may call each hook


def parse_rules(text):
    layers = Layers()
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        if "!" in line:
            line, _, files = line.partition(":")
            folders, headers = line.split("!")
            for folder in folders.split():
                layers.exempt.setdefault(folder, []).extend(files.split())
                layers.banned.setdefault(folder, []).extend(h.strip("<>") for h in headers.split())
            continue
        folder, _, what = line.partition(":")
        if folder.startswith("hook "):
            for hook in folder.split()[1:]:
                layers.hooks.setdefault(hook, []).extend(what.split())
            continue
        table = layers.allowed
        if folder.startswith("test "):
            folder, table = folder[len("test "):], layers.test_allowed
        table.setdefault(folder.strip(), []).extend(what.split())
    return layers


def folder_of(path, layers):
    """The folder of the rule file a source belongs to, None if no rule speaks of it."""
    parts = Path(path).parts
    for length in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:length])
        if folder in layers.allowed:
            return folder
    return None


def target_of(included, path, root):
    """Where an #include "..." leads: a path relative to the root, None if there is no such file."""
    beside = Path(path).parent / included
    for candidate in (Path("src") / included, Path("include") / included,
                      Path("apps") / included, Path(included), beside):
        if (Path(root) / candidate).is_file():
            return str(candidate)
    return None


def may_include(folder, target, layers, for_test):
    allowed = list(layers.allowed[folder])
    if for_test:
        allowed += layers.test_allowed.get(folder, [])
    home = folder_of(target, layers)
    if home == folder:
        return True
    for what in allowed:
        full = what if what.split("/")[0] in ROOT_FOLDERS else "src/" + what
        if target == full or target.startswith(full + "/"):
            return True
    return False


def is_banned(path, folder, header, layers):
    for rule_folder, patterns in layers.banned.items():
        if path in layers.exempt[rule_folder]:
            continue
        if folder == rule_folder or folder.startswith(rule_folder + "/"):
            if any(fnmatch.fnmatch(header, pattern) for pattern in patterns):
                return True
    return False


def check_includes(path, text, layers, root):
    folder = folder_of(path, layers)
    if folder is None:
        if path.startswith("src/"):
            yield Finding(path, 0, "layers", "tools/layers.txt has no rule for this folder")
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, header = match.groups()
        target = target_of(header, path, root)
        if bracket == "<" and not header.startswith("rubato/"):
            if not is_test(path) and is_banned(path, folder, header, layers):
                yield Finding(path, number, "layers", f"{folder} must not include <{header}>")
        elif target is None:
            yield Finding(path, number, "layers", f"no such header: {header}")
        elif not may_include(folder, target, layers, is_test(path)):
            yield Finding(path, number, "layers", f"{folder} may not include {header}")


def is_test(path):
    return path.endswith("_test.cc") or "/testing/" in path


def check_hooks(path, text, layers):
    """Tests and benchmarks call what they like; namespace hook itself is where it is defined."""
    if is_test(path) or path.startswith(("bench/", "tests/")) or not layers.hooks:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for match in HOOK_CALL.finditer(line.split("//")[0]):
            hook = match.group(1)
            if path not in layers.hooks.get(hook, []):
                yield Finding(path, number, "hooks", f"hook::{hook} is not to be called here")


def check_links(path, text, layers):
    """A library named rubato_x is src/x; libraries without a folder are left to the linker."""
    folder = folder_of(path, layers)
    if folder is None:
        return
    text = re.sub(r"#[^\n]*", "", text)
    for match in TARGET.finditer(text):
        kind, words = match.group(1), match.group(2).split()
        keyword = None
        for word in words:
            if word in KEYWORDS:
                keyword = word
            elif keyword in ("DEPS", "PRIVATE_DEPS") and word.startswith("rubato_"):
                dep = word[len("rubato_"):]
                home = "src/" + dep
                if home not in layers.allowed or home == folder:
                    continue
                wanted = [w.split("/")[0] for w in layers.allowed[folder]]
                if kind != "library":
                    wanted += layers.test_allowed.get(folder, [])
                if dep not in wanted:
                    line = text.count("\n", 0, match.start()) + 1
                    yield Finding(path, line, "layers", f"{folder} may not link {word}")


def check(root, rules=None):
    layers = parse_rules(rules or (Path(root) / "tools/layers.txt").read_text())
    findings = []
    for path in list_files(root):
        if is_cpp(path):
            text = read(root, path) or ""
            findings += check_includes(path, text, layers, root)
            findings += check_hooks(path, text, layers)
        elif Path(path).name == "CMakeLists.txt":
            findings += check_links(path, read(root, path) or "", layers)
    return findings


if __name__ == "__main__":
    sys.exit(report(check(sys.argv[1] if len(sys.argv) > 1 else "."), "layers"))
