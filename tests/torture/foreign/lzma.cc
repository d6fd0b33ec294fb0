// SPDX-License-Identifier: Apache-2.0
#include <lzma.h>

#include <string>
#include <vector>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t lzma_streams(uint64_t seed) {
  const std::string text = text_of(seed, 5'000);
  std::vector<uint8_t> packed(lzma_stream_buffer_bound(text.size()));
  size_t bytes = 0;
  const auto* in = reinterpret_cast<const uint8_t*>(text.data());
  Sum sum;
  sum.add(static_cast<uint64_t>(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr, in,
                                                        text.size(), packed.data(), &bytes,
                                                        packed.size())));
  std::string back(text.size(), '\0');
  uint64_t limit = UINT64_MAX;
  size_t in_at = 0;
  size_t out_at = 0;
  sum.add(static_cast<uint64_t>(
      lzma_stream_buffer_decode(&limit, 0, nullptr, packed.data(), &in_at, bytes,
                                reinterpret_cast<uint8_t*>(back.data()), &out_at, back.size())));
  sum.add(back == text ? bytes : 0);
  return sum.value();
}

const Registered kLzmaStreams{"lzma", lzma_streams};

}  // namespace
}  // namespace torture
