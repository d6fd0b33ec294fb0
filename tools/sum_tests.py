#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up ctest's junit files and prints 'N passed, N failed' as the last line. Exits 1 if a test
failed or a named file is missing or empty: a run that did not happen is no success. Failed tests of
NAME.xml that passed in NAME.again.xml, alone, count as passed and are named."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(path):
    """(passed, failed, skipped, names of the failed) of one junit file."""
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status", "run")
        if case.find("failure") is not None or status == "fail":
            failed.append(case.get("name"))
        elif case.find("skipped") is not None or status in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, len(failed), skipped, failed


def passed_again(path):
    """Names of what passed when the failed tests of a file ran again."""
    again = Path(path).with_suffix(".again.xml")
    if not again.exists():
        return set()
    return {case.get("name") for case in ElementTree.parse(again).getroot().iter("testcase")
            if case.get("status") == "run" and case.find("failure") is None}


def summarise(paths):
    """Returns (lines to print, exit status)."""
    lines, total_passed, total_failed = [], 0, 0
    for path in paths:
        name = Path(path).stem
        try:
            passed, failed, skipped, names = count(path)
            again = [n for n in names if n in passed_again(path)]
        except (OSError, ElementTree.ParseError) as error:
            lines.append(f"{name}: no result ({error})")
            total_failed += 1
            continue
        if passed + failed + skipped == 0:
            lines.append(f"{name}: no test ran")
            total_failed += 1
            continue
        passed, failed = passed + len(again), failed - len(again)
        lines.append(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
        lines += [f"  failed beside others, passed alone: {n}" for n in again]
        lines += [f"  failed: {n}" for n in names if n not in again]
        total_passed += passed
        total_failed += failed
    lines.append(f"{total_passed} passed, {total_failed} failed")
    return lines, 1 if total_failed else 0


if __name__ == "__main__":
    output, status = summarise(sys.argv[1:])
    print("\n".join(output))
    sys.exit(status)
