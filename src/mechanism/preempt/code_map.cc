// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/code_map.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "mechanism/cpu/pause.h"
#include "mechanism/preempt/interpose/hooks.h"
#include "mechanism/preempt/never_left.h"
#include "mechanism/preempt/preempt_disable.h"

#pragma weak rubato_interpose_code

namespace rubato {
namespace {

constexpr uint32_t kRangesMax = 1024;

// By prefix of the file name, as versions follow it.
constexpr std::array kUnsafeObjects = std::to_array<std::string_view>({
    "libc.so", "libc-", "ld-linux", "ld-2", "ld-musl", "libpthread", "libdl.so", "librt.so",
    "linux-vdso", "linux-gate", "libresolv", "libnss_", "libnsl", "libanl",   // the C library's
    "libstdc++.so", "libc++.so", "libc++abi.so", "libgcc_s.so", "libunwind",  // C++
    "libjemalloc", "libtcmalloc", "libmimalloc", "libhoard",                  // allocators
    "libasan", "libtsan", "libubsan", "liblsan", "libclang_rt",               // sanitizers
    "librubato-interpose",
});

// The folder of the C library's character sets, which it loads and calls under a lock of its own.
constexpr std::string_view kConverters = "/gconv/";

struct Reading {
  std::array<CodeRange, kRangesMax> ranges;
  uint32_t count = 0;
  bool found_libc = false;
  unsigned long long loaded = 0;    // the loader's own counts: how often an object came,
  unsigned long long unloaded = 0;  // and went
  std::string_view also;
};

CodeRanges<kRangesMax> g_ranges;
// Admits one reader of the loader's list at a time. It is a flag and no mutex, because the reader
// may run inside an interposed function.
std::atomic_flag g_reading = ATOMIC_FLAG_INIT;
Reading g_reading_now;  // too large for a fiber's stack; guarded by g_reading

std::string_view file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool matches_one_of(std::string_view name, std::string_view prefixes) {
  while (!prefixes.empty()) {
    const size_t comma = prefixes.find(',');
    const std::string_view prefix = prefixes.substr(0, comma);
    if (!prefix.empty() && name.starts_with(prefix)) return true;
    prefixes = comma == std::string_view::npos ? "" : prefixes.substr(comma + 1);
  }
  return false;
}

int note_object(dl_phdr_info* object, size_t, void* argument) {
  auto& reading = *static_cast<Reading*>(argument);
  reading.loaded = object->dlpi_adds;
  reading.unloaded = object->dlpi_subs;
  const std::string_view path = object->dlpi_name != nullptr ? object->dlpi_name : "";
  const std::string_view name = file_name(path);
  reading.found_libc = reading.found_libc || name.starts_with("libc.so") ||
                       name.starts_with("libc-") || name.starts_with("ld-musl");
  const bool unsafe = is_unsafe_object(path, reading.also);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    if (reading.count == kRangesMax) return 1;
    const uint64_t low = object->dlpi_addr + segment.p_vaddr;
    reading.ranges[reading.count++] = {low, low + segment.p_memsz,
                                       unsafe ? CodeKind::kUnsafe : CodeKind::kSafe};
  }
  return 0;
}

// Marks `code` as unsafe; where there is no room for that, marks the whole range around it.
void note_never_left(Reading& reading, const CodeSpan& code) {
  for (uint32_t i = 0; i < reading.count; ++i) {
    CodeRange& around = reading.ranges[i];
    const bool inside = around.low <= code.low && code.low < around.high;
    if (!inside || around.kind != CodeKind::kSafe) continue;
    const CodeRange behind{code.high, around.high, around.kind};
    if (reading.count + 2 > kRangesMax) {
      around.kind = CodeKind::kUnsafe;
      return;
    }
    around.high = code.low;
    reading.ranges[reading.count++] = {code.low, code.high, CodeKind::kUnsafe};
    if (behind.low < behind.high) reading.ranges[reading.count++] = behind;
    return;
  }
}

void note_never_left(Reading& reading) {
  note_never_left(reading, never_left_code());
  if (rubato_interpose_code == nullptr) return;
  CodeSpan interposers;
  rubato_interpose_code(&interposers.low, &interposers.high);
  note_never_left(reading, interposers);
}

// True if an object has come or gone since `last`.
bool has_changed(const Reading& last) {
  dl_phdr_info first{};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* argument) {
        *static_cast<dl_phdr_info*>(argument) = *object;
        return 1;
      },
      &first);
  return first.dlpi_adds != last.loaded || first.dlpi_subs != last.unloaded;
}

// Requires g_reading.
void read_and_publish() {
  Reading& reading = g_reading_now;
  reading.count = 0;
  reading.found_libc = false;
  const char* also = std::getenv("RUBATO_UNSAFE_CODE");
  reading.also = also != nullptr ? also : "";
  dl_iterate_phdr(note_object, &reading);
  note_never_left(reading);
  std::sort(reading.ranges.begin(), reading.ranges.begin() + reading.count,
            [](const CodeRange& a, const CodeRange& b) {
              return a.low != b.low ? a.low < b.low : a.high < b.high;  // empty ranges first
            });
  g_ranges.publish({reading.ranges.data(), reading.count});
}

// A fiber that was switched away while it reads would keep other readers out: hence the region.
void release_reading() { g_reading.clear(std::memory_order_release); }
bool try_reading() { return !g_reading.test_and_set(std::memory_order_acquire); }

}  // namespace

bool is_unsafe_object(std::string_view path, std::string_view also) {
  const std::string_view name = file_name(path);
  if (path.find(kConverters) != std::string_view::npos) return true;
  return std::any_of(kUnsafeObjects.begin(), kUnsafeObjects.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); }) ||
         matches_one_of(name, also);
}

Status code_map_build() {
  const PreemptDisableGuard section;
  while (!try_reading()) cpu_pause();
  read_and_publish();
  const bool found_libc = g_reading_now.found_libc;
  release_reading();
  if (!found_libc) {
    return Error{"the C library is linked into the program, so its code cannot be told from the "
                 "program's; link it dynamically, or preempt at checkpoints"};
  }
  return Done{};
}

// Does not wait for a thread that is already reading: that thread may itself be waiting for a lock
// of the loader that the caller holds. Code that it misses is unknown, and is read when it is
// interrupted.
void code_map_refresh() {
  const PreemptDisableGuard section;
  if (!try_reading()) return;
  if (has_changed(g_reading_now)) read_and_publish();
  release_reading();
}

CodeKind code_kind(uintptr_t pc) { return g_ranges.find(pc); }

bool code_is_in_unsafe_object(uintptr_t pc) {
  const CodeKind kind = code_kind(pc);
  if (kind != CodeKind::kUnknown) return kind == CodeKind::kUnsafe;
  code_map_refresh();
  return code_kind(pc) != CodeKind::kSafe;
}

}  // namespace rubato
