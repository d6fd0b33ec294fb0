// SPDX-License-Identifier: Apache-2.0
//
// For test programs that use librocksdb under ThreadSanitizer, which does not see the atomics of a
// library that was built without it and takes its correct hand-overs for races. Never called
// otherwise.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_options();

// FLUSHALL of the rocksdb engine takes all 1024 stripes, in order; the detector of deadlocks ends
// the program at 64 locks.
extern "C" const char* __tsan_default_options() { return "detect_deadlocks=0"; }

extern "C" const char* __tsan_default_suppressions() {
  return "race:librocksdb\n"
         "race:rocksdb::\n"
         "race:libsnappy\n"
         "called_from_lib:librocksdb\n"
         "mutex:librocksdb\n"
         "deadlock:librocksdb\n"
         "thread:librocksdb\n";
}
