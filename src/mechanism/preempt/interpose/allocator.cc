// SPDX-License-Identifier: Apache-2.0
//
// The allocator, which keeps its lists by thread and has locks of its own. Its code is unsafe by
// the code map anyway (code_map.h); with the region around it, a preemption that falls due inside
// is honoured at its end, not at the next try, if the caller may be left. Only a fiber with a TLS
// block of its own can be interrupted here at all.
//
// Looking for libc's functions may itself allocate, before there are any: such memory comes from a
// small array and is never given back.
#include <malloc.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::Guard;
using rubato::interpose::on_own_tls;

RUBATO_NEXT(malloc);
RUBATO_NEXT(calloc);
RUBATO_NEXT(realloc);
RUBATO_NEXT(free);
RUBATO_NEXT(posix_memalign);
RUBATO_NEXT(aligned_alloc);
RUBATO_NEXT(memalign);
RUBATO_NEXT(malloc_trim);
RUBATO_NEXT(malloc_info);
RUBATO_NEXT(malloc_stats);
RUBATO_NEXT(mallopt);
RUBATO_NEXT(mallinfo2);
// Its declaration says that it is deprecated.
RUBATO_NEXT_OF(mallinfo, struct mallinfo());

// Set while the thread is in find() of Next.
__attribute__((tls_model("initial-exec"))) thread_local constinit bool t_finding = false;

constexpr size_t kAlignment = alignof(max_align_t);
constexpr size_t kEarlyBytes = 16 * 1024;
alignas(max_align_t) std::array<char, kEarlyBytes> g_early;
std::atomic<size_t> g_early_used{0};

// Returns zeroed memory, with its size stored in front.
[[gnu::noinline]] void* allocate_early(size_t bytes) {
  const size_t room = kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t at = g_early_used.fetch_add(room, std::memory_order_relaxed);
  if (bytes > kEarlyBytes || at + room > kEarlyBytes) return nullptr;
  std::memcpy(&g_early[at], &bytes, sizeof(bytes));
  return &g_early[at + kAlignment];
}

[[gnu::always_inline]] inline bool is_early(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(g_early.data()) <
         kEarlyBytes;
}

size_t early_size(const void* memory) {
  size_t bytes = 0;
  std::memcpy(&bytes, static_cast<const char*>(memory) - kAlignment, sizeof(bytes));
  return bytes;
}

// Null: this very thread is looking for it.
RUBATO_NEVER_LEFT void* find(const char* name) {
  if (t_finding) return nullptr;
  t_finding = true;
  void* found = rubato::interpose::find_next(name);
  t_finding = false;
  return found;
}

template <class Function>
[[gnu::always_inline]] inline Function* ready(rubato::interpose::Next<Function>& next) {
  return next.get_by(find);
}

// Calls libc's function, in a region where it might be interrupted.
template <class Function, class... Arguments>
[[gnu::always_inline]] inline auto in_region(Function* next, const void* caller,
                                             Arguments... arguments) {
  if (!on_own_tls()) return next(arguments...);
  const Guard guard(caller);
  return next(arguments...);
}

}  // namespace

RUBATO_INTERPOSED void* malloc(size_t bytes) noexcept {
  auto* next = ready(next_malloc);
  if (__builtin_expect(next == nullptr, 0)) return allocate_early(bytes);
  return in_region(next, RUBATO_CALLER, bytes);
}

RUBATO_INTERPOSED void* calloc(size_t count, size_t bytes) noexcept {
  auto* next = ready(next_calloc);
  if (__builtin_expect(next == nullptr, 0)) {
    size_t all = 0;
    return __builtin_mul_overflow(count, bytes, &all) ? nullptr : allocate_early(all);
  }
  return in_region(next, RUBATO_CALLER, count, bytes);
}

RUBATO_INTERPOSED void free(void* memory) noexcept {
  if (__builtin_expect(is_early(memory), 0)) return;
  auto* next = ready(next_free);
  if (next == nullptr) return;
  in_region(next, RUBATO_CALLER, memory);
}

RUBATO_INTERPOSED void* realloc(void* memory, size_t bytes) noexcept {
  auto* next = ready(next_realloc);
  if (__builtin_expect(is_early(memory) || next == nullptr, 0)) {
    void* moved = malloc(bytes);
    if (moved == nullptr || memory == nullptr) return moved;
    const size_t old_bytes = is_early(memory) ? early_size(memory) : 0;
    return std::memcpy(moved, memory, old_bytes < bytes ? old_bytes : bytes);
  }
  return in_region(next, RUBATO_CALLER, memory, bytes);
}

RUBATO_INTERPOSED int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  auto* next = ready(next_posix_memalign);
  if (next == nullptr) return ENOMEM;
  return in_region(next, RUBATO_CALLER, memory, alignment, bytes);
}

RUBATO_INTERPOSED void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  auto* next = ready(next_aligned_alloc);
  if (next == nullptr) return nullptr;
  return in_region(next, RUBATO_CALLER, alignment, bytes);
}

RUBATO_INTERPOSED void* memalign(size_t alignment, size_t bytes) noexcept {
  auto* next = ready(next_memalign);
  if (next == nullptr) return nullptr;
  return in_region(next, RUBATO_CALLER, alignment, bytes);
}

// These hold the locks of all threads' lists while they make system calls.
RUBATO_INTERPOSED int malloc_trim(size_t pad_bytes) noexcept {
  return in_region(next_malloc_trim.get(), RUBATO_CALLER, pad_bytes);
}

RUBATO_INTERPOSED int malloc_info(int options, FILE* to) noexcept {
  return in_region(next_malloc_info.get(), RUBATO_CALLER, options, to);
}

RUBATO_INTERPOSED void malloc_stats() noexcept {
  in_region(next_malloc_stats.get(), RUBATO_CALLER);
}

RUBATO_INTERPOSED int mallopt(int option, int value) noexcept {
  return in_region(next_mallopt.get(), RUBATO_CALLER, option, value);
}

RUBATO_INTERPOSED struct mallinfo mallinfo() noexcept {
  return in_region(next_mallinfo.get(), RUBATO_CALLER);
}

RUBATO_INTERPOSED struct mallinfo2 mallinfo2() noexcept {
  return in_region(next_mallinfo2.get(), RUBATO_CALLER);
}
