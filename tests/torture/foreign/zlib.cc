// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <string>
#include <vector>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t zlib_streams(uint64_t seed) {
  const std::string text = text_of(seed, 20'000);
  std::vector<Bytef> packed(compressBound(text.size()));
  uLongf packed_bytes = packed.size();
  Sum sum;
  sum.add(static_cast<uint64_t>(compress2(packed.data(), &packed_bytes,
                                          reinterpret_cast<const Bytef*>(text.data()), text.size(),
                                          static_cast<int>(1 + seed % 9))));
  std::string back(text.size(), '\0');
  uLongf bytes = back.size();
  sum.add(static_cast<uint64_t>(
      uncompress(reinterpret_cast<Bytef*>(back.data()), &bytes, packed.data(), packed_bytes)));
  sum.add(back == text ? packed_bytes : 0);
  return sum.value();
}

const Registered kZlibStreams{"zlib", zlib_streams};

}  // namespace
}  // namespace torture
