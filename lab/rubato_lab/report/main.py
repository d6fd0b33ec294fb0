# SPDX-License-Identifier: Apache-2.0
"""`rubato report page`: one self-contained page of runs."""

import argparse
import sys
from pathlib import Path

from rubato_lab.program import RubatoError
from rubato_lab.report import runs


def write(html, path):
    """`-` is stdout. Raises RubatoError."""
    if str(path) == "-":
        print(html, end="")
        return
    try:
        Path(path).write_text(html, encoding="utf-8")
    except OSError as error:
        raise RubatoError(f"{path}: {error.strerror}") from error
    print(path)


def main(arguments=None):
    """Exit status: 0 written, 1 could not, 2 bad arguments."""
    p = argparse.ArgumentParser(prog="rubato report page", description="One page of runs, live or "
                                "simulated, as an HTML file that needs no network.")
    p.add_argument("files", nargs="+", metavar="RUN.json",
                   help="what --json of `rubato sim`, `rubato load` or `rubato report merge` wrote")
    p.add_argument("--output", default="report.html", metavar="FILE",
                   help="where the page goes, - is stdout (default report.html)")
    options = p.parse_args(arguments)
    try:
        found = [run for path in options.files for run in runs.read(path)]
        write(runs.page(found).html(), options.output)
    except RubatoError as error:
        print(f"rubato: {error}", file=sys.stderr)
        return error.status or 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
