#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `make check`: what a change to a policy, the simulator or a command can break, in minutes. The
# tests of the parts below, in the dev build, but for what takes long beside what it finds (LATE).
# `make test` has all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
parts=(base workload policy sched sim overload cli)

cmake --preset dev -DRUBATO_BENCH=OFF >/dev/null
cmake --build build/dev -j "$jobs" --target rubato_cli "${parts[@]/#/tests_}"
labels=$(IFS='|'; echo "${parts[*]}")
ctest --test-dir build/dev -j "$jobs" --output-on-failure --no-tests=error \
  -L "^($labels)\$" -LE '^late$'
for check in layers tidy links; do python3 "tools/check_$check.py" .; done
