#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of a task's steps in an executor: those that its submission takes beside the push of
the queue alone, those from the queue to its end, and those of a yield to another task. Counted by
callgrind, so that load of the machine does not matter; of two runs the difference is taken, so that
the first batches do not count.

    bench/executor_instructions.py [build/release/bench/executor_instructions] [--batches 50]
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_S = 300
STEPS = (("push of the queue alone", "count_push", "tasks"),
         ("submission", "count_submit", "tasks"),
         ("from the queue to the end", "count_run", "tasks"),
         ("yield to another task", "count_yields", "yields"))


def counted(program, function, batches):
    """Instructions within the function in all, and what the program says it has done."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={Path(folder) / 'out'}",
             f"--toggle-collect={function}*", program, str(batches)],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    total = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not total:
        raise RuntimeError(f"{function}: {done.stderr[-500:]}")
    return int(total.group(1)), json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program", nargs="?", default="build/release/bench/executor_instructions")
    parser.add_argument("--batches", type=int, default=50)
    args = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("SKIP: valgrind is not installed", file=sys.stderr)
        return 77
    for name, function, unit in STEPS:
        few, few_of = counted(args.program, function, args.batches)
        many, many_of = counted(args.program, function, 2 * args.batches)
        each = (many - few) / (many_of[unit] - few_of[unit])
        print(f"{name:28}{each:8.1f} instructions", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
