// SPDX-License-Identifier: Apache-2.0
//
// For test programs whose futures hold exceptions, under ThreadSanitizer, which does not see the
// count of references that libstdc++ keeps of an exception: it takes the last holder's end for a
// race with what another one read. Never called otherwise.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n";
}
