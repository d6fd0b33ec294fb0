#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Cross-compiles the fiber code for AArch64 and runs it under an emulator. Prints why and exits 77,
# which ctest counts as skipped, where a tool is absent (Debian: g++-aarch64-linux-gnu, qemu-user).
#   aarch64_check.sh SOURCE_ROOT WORK_FOLDER
set -eu
source_root=$1
work=$2

compiler=$(command -v aarch64-linux-gnu-g++ || true)
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
if [ -z "$compiler" ]; then echo "SKIP: no aarch64-linux-gnu-g++"; exit 77; fi
if [ -z "$emulator" ]; then echo "SKIP: no qemu-aarch64"; exit 77; fi

mkdir -p "$work"
fiber=$source_root/src/mechanism/fiber
for level in -O0 -O2; do
  "$compiler" -std=c++20 $level -static -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
    -I"$source_root/src" "$source_root/src/base/check.cc" "$fiber/context.cc" "$fiber/fiber.cc" \
    "$fiber/overflow.cc" "$fiber/stack.cc" "$fiber/switch_aarch64.S" "$fiber/fiber_check.cc" \
    -pthread \
    -o "$work/aarch64_check"
  timeout 120 "$emulator" "$work/aarch64_check"
done
