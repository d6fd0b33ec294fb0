// SPDX-License-Identifier: Apache-2.0
#include "cli/common/token_file.h"

#include <optional>

#include "cli/common/file_text.h"

namespace rubato::cli {

Result<std::string> read_token(const std::string& path) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::optional<std::string> text = file_text(path);
  if (!text) return Error{"cannot read '" + path + "'"};
  const size_t begin = text->find_first_not_of(kBlanks);
  if (begin == std::string::npos) return Error{"'" + path + "' is empty"};
  std::string token = text->substr(begin, text->find_last_not_of(kBlanks) + 1 - begin);
  if (token.size() < kLeastToken) {
    return Error{"needs a token of " + std::to_string(kLeastToken) + " bytes or more"};
  }
  if (token.find_first_of("\r\n") != std::string::npos) return Error{"needs a token in one line"};
  return token;
}

}  // namespace rubato::cli
