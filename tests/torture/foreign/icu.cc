// SPDX-License-Identifier: Apache-2.0
#include <unicode/ucol.h>
#include <unicode/unorm2.h>

#include <array>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t icu_collation(uint64_t seed) {
  UErrorCode status = U_ZERO_ERROR;
  UCollator* collator = ucol_open("de", &status);
  Sum sum;
  Random random(seed);
  for (int i = 0; i < 30 && U_SUCCESS(status); ++i) {
    std::array<UChar, 2> a{static_cast<UChar>(0xc0 + random.below(64)), 0};
    std::array<UChar, 2> b{static_cast<UChar>(0xc0 + random.below(64)), 0};
    sum.add(static_cast<uint64_t>(ucol_strcoll(collator, a.data(), 1, b.data(), 1) + 1));
    std::array<UChar, 16> decomposed{};
    const UNormalizer2* form = unorm2_getNFDInstance(&status);
    sum.add(static_cast<uint64_t>(
        unorm2_normalize(form, a.data(), 1, decomposed.data(), 16, &status)));
    sum.add(decomposed[0]);
  }
  if (collator != nullptr) ucol_close(collator);
  sum.add(static_cast<uint64_t>(status <= U_ZERO_ERROR));
  return sum.value();
}

const Registered kIcuCollation{"ICU", icu_collation};

}  // namespace
}  // namespace torture
