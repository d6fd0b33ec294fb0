// SPDX-License-Identifier: Apache-2.0
#include <zstd.h>

#include <string>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t zstd_frames(uint64_t seed) {
  const std::string text = text_of(seed, 20'000);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(),
                              static_cast<int>(1 + seed % 5)));
  std::string back(text.size(), '\0');
  const size_t bytes = ZSTD_decompress(back.data(), back.size(), packed.data(), packed.size());
  return bytes == text.size() && back == text ? sum_of(packed) : 0;
}

const Registered kZstdFrames{"zstd", zstd_frames};

}  // namespace
}  // namespace torture
