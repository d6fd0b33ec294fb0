#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the fuzz targets as OSS-Fuzz does: CC, CXX, CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE, WORK and
# OUT say how and where to. The whole servers are left out: they need RocksDB as a shared library.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$WORK/rubato
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRUBATO_FUZZ=ON \
  -DRUBATO_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DRUBATO_TESTS=OFF -DRUBATO_BENCH=OFF
cmake --build "$build" --target fuzzers -j "$(nproc)"
cp "$build"/fuzzers/*_fuzz "$OUT"
# The files that each target begins with; CMake has written which folder they are in.
while IFS=' ' read -r target folder; do
  [ -e "$OUT/$target" ] || continue
  (cd "$folder" && python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" ./*)
done <"$build/fuzzers/corpora"
