#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Cross-builds Rubato for AArch64 and tests it under qemu-user: unit tests of the folders below, the
# switch of fibers and interrupted requests among them; a server under each mechanism of preemption;
# and simulations, whose results must be those of the native binary given, to the byte. The
# libraries are Debian's for that processor, in build/aarch64-root.
#   tools/aarch64.sh [NATIVE_RUBATO]
set -euo pipefail
cd "$(dirname "$0")/.."

native=${1:-build/release/bin/rubato}
jobs=${JOBS:-$(nproc)}
root=build/aarch64-root
libraries=(libc6-dev libstdc++-12-dev libgtest-dev libfmt-dev libcli11-dev nlohmann-json3-dev
           libtomlplusplus-dev zlib1g-dev libssl-dev librocksdb-dev libsnappy-dev libgflags-dev
           libbz2-dev liblz4-dev libzstd-dev liburing-dev)
tests=(rubato_base_test workload_test sched_test overload_test mechanism_test mechanism_fiber_test
       mechanism_queue_test mechanism_preempt_test mechanism_code_map_test mechanism_interpose_test
       fiber_check sim_determinism_test runtime_interrupts_test)

for tool in aarch64-linux-gnu-g++ qemu-aarch64 mmdebstrap; do
  command -v "$tool" >/dev/null && continue
  echo "aarch64: $tool is missing; FULL=1 tools/setup.sh installs it" >&2
  exit 1
done

if [ ! -e "$root/.complete" ]; then
  echo "aarch64: Debian's libraries into $root"
  rm -rf "$root"
  mkdir -p build
  mmdebstrap --quiet --architectures=arm64 --variant=extract \
    --include="$(IFS=,; echo "${libraries[*]}")" bookworm "$root"
  # Paths that the packages' CMake files name from the root of the file system.
  grep -rl '"/usr' "$root/usr/lib/aarch64-linux-gnu/cmake" \
    | xargs sed -i 's|"/usr\([/"]\)|"${CMAKE_SYSROOT}/usr\1|g'
  touch "$root/.complete"
fi

# Death tests start themselves again, which qemu-user cannot. Nor has it robust mutexes,
# epoll_pwait2, or children of processes with threads; and it has a thread of its own. All
# interleavings are the same ones on every processor, and an emulator does not give out all the
# address space there is.
unsuited='DeathTest\.|Interleave\.|StateModel\.|address_space|_fork|robust_mutex'
unsuited+='|take_their_time_and_end_well|all_threads_have_the_group|beyond_its_stack'
# Stuck requests are tried under every policy, which is for the native tests.
unsuited+='|Stuck\..*/([a-rt-z]|s[a-xz])'
cmake --preset aarch64 >/dev/null
cmake --build --preset aarch64 -j "$jobs" --target rubato_cli "${tests[@]}"
ctest --test-dir build/aarch64 -j "$jobs" --output-on-failure --no-tests=error -E "$unsuited" \
  -R "^(mechanism\.fiber_check|($(IFS='|'; echo "${tests[*]}"))\.)"

emulated=build/aarch64/emulated-rubato
printf '#!/bin/sh\nexec qemu-aarch64 -L "%s" "%s" "$@"\n' "$PWD/$root" \
  "$PWD/build/aarch64/bin/rubato" >"$emulated"
chmod +x "$emulated"
for mechanism in signal timer; do
  "$emulated" doctor | grep -q "^ok  *$mechanism " && continue
  echo "aarch64: --preempt $mechanism does not work" >&2
  exit 1
done
RUBATO_BINARY=$emulated python3 tests/e2e/test_preempt.py
python3 tools/same_results.py "$native" "$emulated"
