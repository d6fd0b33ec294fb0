// SPDX-License-Identifier: Apache-2.0
#include <lz4.h>

#include <string>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t lz4_blocks(uint64_t seed) {
  const std::string text = text_of(seed, 30'000);
  const int size = static_cast<int>(text.size());
  std::string packed(static_cast<size_t>(LZ4_compressBound(size)), '\0');
  const int bytes = LZ4_compress_default(text.data(), packed.data(), size,
                                         static_cast<int>(packed.size()));
  std::string back(text.size(), '\0');
  const int got = LZ4_decompress_safe(packed.data(), back.data(), bytes, size);
  return got == size && back == text ? static_cast<uint64_t>(bytes) : 0;
}

const Registered kLz4Blocks{"lz4", lz4_blocks};

}  // namespace
}  // namespace torture
