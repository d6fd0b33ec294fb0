#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the fuzz targets as OSS-Fuzz does, whole servers among them: CC, CXX, CFLAGS, CXXFLAGS,
# LIB_FUZZING_ENGINE, WORK and OUT say how and where to. The shared libraries that a target needs
# lie beside it in lib, as the machine that runs it has none. MemorySanitizer finds nothing there:
# these libraries are built without.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$WORK/rubato
# An old kind of path (RPATH) also counts for what the libraries need.
LDFLAGS="${LDFLAGS:-} -Wl,--disable-new-dtags" \
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRUBATO_FUZZ=ON \
  -DRUBATO_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DRUBATO_TESTS=OFF -DRUBATO_BENCH=OFF \
  -DCMAKE_BUILD_RPATH='$ORIGIN/lib'
cmake --build "$build" --target fuzzers fuzzers_whole -j "$(nproc)"
cp "$build"/fuzzers/*_fuzz "$OUT"
mkdir -p "$OUT/lib"
ldd "$OUT"/*_fuzz | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' | xargs -r cp -Lt "$OUT/lib"
# The files that each target begins with; CMake has written which folder they are in.
while IFS=' ' read -r target folder; do
  [ -e "$OUT/$target" ] || continue
  (cd "$folder" && python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" ./*)
done <"$build/fuzzers/corpora"
for target in "$OUT"/kv_server*_fuzz; do
  cp tests/fuzz/kv_server.dict "$target.dict"
done
