// SPDX-License-Identifier: Apache-2.0
//
// For test programs that use librocksdb under ThreadSanitizer, which does not see the atomics of a
// library that was built without it and takes its correct hand-overs for races. Never called
// otherwise.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:librocksdb\n"
         "race:rocksdb::\n"
         "called_from_lib:librocksdb\n"
         "mutex:librocksdb\n"
         "deadlock:librocksdb\n"
         "thread:librocksdb\n";
}
