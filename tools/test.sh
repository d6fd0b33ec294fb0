#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What `make test` runs: all tests, every benchmark and every fuzz target for a moment, the tests of
# memory under AddressSanitizer and those of concurrency under ThreadSanitizer. Goes on after a
# failure, ends with one line 'N passed, N failed' over all of it, and with status 1 if anything
# failed or did not run. A few tests that fail beside others run once more, alone; what passes then
# is named. With FULL=1, which is `make test-full`, also what takes as long again: more
# tests under each sanitizer, the longest ones of theory, each header by itself, the pass of every
# Clang, the release build, and the documents' commands in a fresh clone.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
tests_at_once=$((jobs + 1))  # many wait
again_at_most=5  # more failures are a defect, not a busy machine
results=build/results
# Folders (which are labels) and labels whose tests run under each sanitizer.
address_labels="memory"
thread_labels="concurrency"
configuration=()  # of ctest
pass_versions=19
# Others of their kind are the sample.
left_out='Theory/ProcessorSharing\..*/(M_G_1|M_G_16|bimodal)_|Theory/M[MD]k\..*/(64|256)_'
left_out+='|Theory\.(preemptive_)?priorities_of_many_workers|Theory/MG1\..*/extreme'
if [ -n "${FULL:-}" ]; then
  address_labels="concurrency memory runtime mechanism datapath kv_server"
  thread_labels=$address_labels
  configuration=(-C Full)
  left_out='^$'
  pass_versions="19;16;15;14"
fi
files=()
mkdir -p "$results"
rm -f "$results"/*.xml

at() { printf '(at %dm%02ds)' $((SECONDS / 60)) $((SECONDS % 60)); }
say() { printf '\n== %s %s\n' "$1" "$(at)"; }

# follow NAME LOG COMMAND...: runs it into LOG, and says every ten seconds how far it is, as far as
# ninja and ctest tell. Returns its status.
follow() {
  local name=$1 log=$2 job step='^(\[[0-9]+/[0-9]+\]| *[0-9]+/[0-9]+ Test)'
  shift 2
  "$@" >"$log" 2>&1 </dev/null &
  job=$!
  while ! timeout 9 tail --pid="$job" -f /dev/null; do
    printf '   %s %s %s\n' "$name" "$(tail -c 10000 "$log" | grep -oE "$step" | tail -1)" "$(at)"
  done
  wait "$job"
}

# What could not be built counts as a file of results that never appears.
not_built() { # PRESET
  files+=("$results/$1-build.xml")
  return 1
}

configure() { # PRESET OPTION...
  local preset=$1
  shift
  cmake --preset "$preset" "$@" >"$results/$preset-configure.log" 2>&1 \
    || { tail -20 "$results/$preset-configure.log"; not_built "$preset"; }
}

build() { # PRESET TARGET...
  local preset=$1
  shift
  follow "$preset: build" "$results/$preset-build.log" \
    cmake --build "build/$preset" -j "$jobs" ${@:+--target "$@"} \
    || { grep -E -A5 'error|FAILED' "$results/$preset-build.log" | head -60; not_built "$preset"; }
}

# run PRESET CTEST-ARGUMENT...: ctest into a junit file, which counts even if it never appears.
run() {
  run_as "$1" "$@"
}

# run_as NAME PRESET CTEST-ARGUMENT...: the same with another name for the file and the log.
run_as() {
  local name=$1 preset=$2
  shift 2
  files+=("$results/$name.xml")
  [ -f "build/$preset/CTestTestfile.cmake" ] || return 1
  follow "$preset: tests" "$results/$name-ctest.log" \
    "${wrap[@]}" ctest --test-dir "build/$preset" -j "$tests_at_once" --output-on-failure \
    --no-tests=error --output-junit "$PWD/$results/$name.xml" "$@"
  local status=$?
  [ $status -eq 0 ] || grep -vE '^ *Start |Passed' "$results/$name-ctest.log" | tail -150
  grep -E 'tests passed|tests failed' "$results/$name-ctest.log"
  [ $status -eq 0 ] || run_again "$name" "$preset" "$@"
}

# run_again NAME PRESET CTEST-ARGUMENT...: the tests that failed, if they are few, one at a time;
# sum_tests.py reads the second file beside the first.
run_again() {
  local name=$1 preset=$2 failed=build/$2/Testing/Temporary/LastTestsFailed.log
  shift 2
  [ -f "$failed" ] && [ "$(wc -l <"$failed")" -le "$again_at_most" ] || return 1
  follow "$preset: again, alone" "$results/$name-again.log" \
    "${wrap[@]}" ctest --test-dir "build/$preset" "$@" -j 1 --rerun-failed --output-on-failure \
    --no-tests=error --output-junit "$PWD/$results/$name.again.xml"
  local status=$?
  [ $status -eq 0 ] || tail -60 "$results/$name-again.log"
  return $status
}

# The targets tests_LABEL of the labels that have tests.
label_targets() { # PRESET LABEL...
  local label all
  all=$(ninja -C "build/$1" -t targets all)
  shift
  for label in "$@"; do
    if grep -q "^tests_$label:" <<<"$all"; then echo "tests_$label"; fi
  done
}

# sanitizer_run PRESET LABELS UNSUITED: the tests of the labels but those that match UNSUITED.
sanitizer_run() {
  local targets
  configure "$1" -DRUBATO_BENCH=OFF || return 1
  mapfile -t targets < <(label_targets "$1" $2)
  build "$1" "${targets[@]}" fiber_check || return 1
  run "$1" -L "^(${2// /|})\$" -LE '^fuzz$' -E "$3"
}

wrap=()
say "build and test"
configure dev -DRUBATO_BENCH=ON "-DRUBATO_PASS_LLVM=$pass_versions" && build dev
run dev "${configuration[@]}" -LE '^fresh_clone$' -E "$left_out"

say "address and undefined behaviour"
# UBSan's check of virtual calls needs a descriptor of its own, which that test takes away.
sanitizer_run asan "$address_labels" 'running_out_of_descriptors'

say "threads"
# GCC 12's ThreadSanitizer cannot place its shadow on kernels that randomise more address bits.
if setarch -R true 2>/dev/null; then wrap=(setarch -R); fi
# The distribution's librocksdb is not instrumented: TSan does not see its locks. What tries every
# interleaving does so on one thread, and takes minutes here.
sanitizer_run tsan "$thread_labels" '(R|r)ocks|Interleave\.'
wrap=()

if command -v clang++-19 >/dev/null; then
  say "fuzz targets, briefly"
  configure fuzz -DRUBATO_FUZZ_SECONDS="${FUZZ_SECONDS:-3}" && build fuzz fuzzers
  run fuzz -L '^fuzz$'
else
  say "no clang++-19: fuzz targets only replayed their corpus"
fi

if [ -n "${FULL:-}" ]; then
  say "release build, benchmarks"
  configure release -DRUBATO_PRECOMPILED_HEADERS=OFF \
    && build release rubato_cli rubato_lab_cli benches
  run release -L '^bench$' -j 1

  if command -v clang++-19 >/dev/null; then
    say "build by Clang"
    configure dev-clang -DRUBATO_BENCH=OFF && build dev-clang
  fi

  say "the commands of the documents, in a fresh clone"
  run_as full dev -C Full -L '^fresh_clone$'
fi

say "all"
grep -hE 'tests passed|tests failed' "$results/dev-ctest.log"
exec python3 tools/sum_tests.py "${files[@]}"
