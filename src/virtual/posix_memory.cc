// SPDX-License-Identifier: Apache-2.0
//
// The functions of libc that take memory: in a world they fail when it says so, otherwise they are
// libc's own. operator new is kept apart from malloc, since the programs do without memory only
// where they ask malloc or the system.
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "virtual/real.h"
#include "virtual/scheduler.h"

namespace {

bool fails() {
  rubato::virt::Scheduler* scheduler = rubato::virt::Scheduler::here();
  if (scheduler == nullptr || !scheduler->no_memory()) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);

void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return fails() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  return fails() ? nullptr : __libc_realloc(memory, size);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  RUBATO_REAL(mmap);
  return fails() ? MAP_FAILED : real(at, size, protection, flags, fd, offset);
}

int mprotect(void* at, size_t size, int protection) noexcept {
  RUBATO_REAL(mprotect);
  return fails() ? -1 : real(at, size, protection);
}

}  // extern "C"

void* operator new(size_t size) {
  void* const memory = __libc_malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
