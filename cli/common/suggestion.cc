// SPDX-License-Identifier: Apache-2.0
#include "cli/common/suggestion.h"

#include <fmt/format.h>

#include <algorithm>

namespace rubato::cli {
namespace {

// Letters added, left out, changed, or swapped with their neighbour.
size_t slips_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> slips(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) slips[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) slips[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = slips[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
      }
    }
  }
  return slips[a.size()][b.size()];
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const size_t most = std::max<size_t>(1, word.size() / 3);
  const std::string* nearest = nullptr;
  size_t fewest = most + 1;
  for (const std::string& name : known) {
    const bool begun = word.size() > 1 && name.starts_with(word);
    const size_t slips = begun ? most : slips_between(word, name);
    if (slips < fewest) {
      nearest = &name;
      fewest = slips;
    }
  }
  return nearest != nullptr ? fmt::format("; did you mean {}?", *nearest) : "";
}

std::string any_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

}  // namespace rubato::cli
