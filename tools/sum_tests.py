#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up ctest's junit files and prints 'N passed, N failed' as the last line. Exits 1 if a test
failed or a named file is missing or empty: a run that did not happen is no success."""

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


def summarise(paths):
    """Returns (lines to print, exit status)."""
    lines, total_passed, total_failed = [], 0, 0
    for path in paths:
        name = Path(path).stem
        try:
            passed, failed, skipped, names = count(path)
        except (OSError, ElementTree.ParseError) as error:
            lines.append(f"{name}: no result ({error})")
            total_failed += 1
            continue
        if passed + failed + skipped == 0:
            lines.append(f"{name}: no test ran")
            total_failed += 1
            continue
        lines.append(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
        lines += [f"  failed: {n}" for n in names]
        total_passed += passed
        total_failed += failed
    lines.append(f"{total_passed} passed, {total_failed} failed")
    return lines, 1 if total_failed else 0


if __name__ == "__main__":
    output, status = summarise(sys.argv[1:])
    print("\n".join(output))
    sys.exit(status)
