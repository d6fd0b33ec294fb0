// SPDX-License-Identifier: Apache-2.0
#include <bzlib.h>

#include <string>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t bzip2_blocks(uint64_t seed) {
  std::string text = text_of(seed, 10'000);
  std::string packed(12'000, '\0');
  auto bytes = static_cast<unsigned>(packed.size());
  Sum sum;
  sum.add(static_cast<uint64_t>(BZ2_bzBuffToBuffCompress(
      packed.data(), &bytes, text.data(), static_cast<unsigned>(text.size()), 1, 0, 0)));
  std::string back(text.size(), '\0');
  auto got = static_cast<unsigned>(back.size());
  sum.add(static_cast<uint64_t>(
      BZ2_bzBuffToBuffDecompress(back.data(), &got, packed.data(), bytes, 0, 0)));
  sum.add(back == text ? bytes : 0);
  return sum.value();
}

const Registered kBzip2Blocks{"bzip2", bzip2_blocks};

}  // namespace
}  // namespace torture
