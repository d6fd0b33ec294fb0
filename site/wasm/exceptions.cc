// SPDX-License-Identifier: Apache-2.0
//
// Exceptions where the platform has none. Commands throw to refuse an argument, nothing goes on
// after that: the message is printed as the native binary prints it, and the program ends with
// status 2. Every exception of this program is a std::exception, and starts with it.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <typeinfo>

extern "C" {

void* __cxa_allocate_exception(size_t bytes) throw() { return std::malloc(bytes); }
void __cxa_free_exception(void* thrown) throw() { std::free(thrown); }

[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  std::fflush(stdout);
  std::fprintf(stderr, "rubato: %s\n", static_cast<std::exception*>(thrown)->what());
  std::exit(2);
}

}  // extern "C"
