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
import sys

from instructions import counted, has_valgrind

STEPS = (("push of the queue alone", "count_push", "tasks"),
         ("submission", "count_submit", "tasks"),
         ("the same onto an empty queue", "count_first", "batches"),
         ("execute, in C++", "count_execute", "tasks"),
         ("the same with attributes", "count_attributes", "tasks"),
         ("try_execute", "count_try", "tasks"),
         ("submit, with a future", "count_future", "tasks"),
         ("from the queue to the end", "count_run", "tasks"),
         ("yield to another task", "count_yields", "yields"))


def within(function, program, batches):
    """Instructions within the function in all, and what the program says it has done."""
    count, printed = counted([program, batches], (
        "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={function}*"))
    return count, json.loads(printed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program", nargs="?", default="build/release/bench/executor_instructions")
    parser.add_argument("--batches", type=int, default=50)
    args = parser.parse_args()
    if not has_valgrind():
        return 77
    for name, function, unit in STEPS:
        few, few_of = within(function, args.program, args.batches)
        many, many_of = within(function, args.program, 2 * args.batches)
        each = (many - few) / (many_of[unit] - few_of[unit])
        print(f"{name:28}{each:8.1f} instructions", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
