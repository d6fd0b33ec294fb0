// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/memory/bucket_array.h"

#include <sys/mman.h>

#include <cstdlib>

namespace rubato::kv {

namespace {
constexpr size_t kMapBytes = size_t{64} << 10;  // from here on pages come from the kernel
}

BucketArray::~BucketArray() {
  if (buckets_ == nullptr) return;
  if (cost_bytes() >= kMapBytes) {
    munmap(buckets_, cost_bytes());
  } else {
    std::free(buckets_);
  }
}

BucketArray BucketArray::make(uint32_t bits) {
  BucketArray array;
  const size_t bytes = (size_t{1} << bits) * sizeof(Entry*);
  void* memory = nullptr;
  if (bytes >= kMapBytes) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) memory = nullptr;
  } else {
    memory = std::calloc(bytes, 1);
  }
  if (memory == nullptr) return array;
  array.buckets_ = static_cast<Entry**>(memory);
  array.bits_ = bits;
  return array;
}

}  // namespace rubato::kv
