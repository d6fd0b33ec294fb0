// SPDX-License-Identifier: Apache-2.0
#include "load/http_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rubato::load {
namespace {

constexpr std::string_view kKey = "{key}";

struct Method {
  std::string_view name, sent;
  bool body;
};
constexpr Method kMethods[] = {{"get", "GET", false},
                               {"delete", "DELETE", false},
                               {"post", "POST", true},
                               {"put", "PUT", true}};

}  // namespace

Result<HttpTemplate> HttpTemplate::parse(std::string_view text, std::string_view host) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto method = std::find_if(
      std::begin(kMethods), std::end(kMethods),
      [name = text.substr(0, slash)](const Method& one) { return one.name == name; });
  if (method == std::end(kMethods) || slash == text.size()) {
    return Error{"is not get, delete, post or put with a path, such as get/index.html"};
  }
  std::string_view path = text.substr(slash);
  const bool sendable =
      std::all_of(path.begin(), path.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!sendable) return Error{"has a byte in its path that needs %XX"};
  HttpTemplate request;
  for (size_t at = path.find(kKey); at != std::string_view::npos; at = path.find(kKey)) {
    request.path_.emplace_back(path.substr(0, at));
    path.remove_prefix(at + kKey.size());
  }
  request.path_.emplace_back(path);
  request.method_ = method->sent;
  request.body_ = method->body;
  request.head_ = fmt::format(" HTTP/1.1\r\nHost: {}\r\nUser-Agent: rubato-load\r\n", host);
  return request;
}

void HttpTemplate::append(const VerbContext& context) const {
  context.out += method_;
  context.out += ' ';
  for (size_t i = 0; i < path_.size(); ++i) {
    if (i > 0) context.out += context.random_key();
    context.out += path_[i];
  }
  context.out += head_;
  if (body_) {
    fmt::format_to(std::back_inserter(context.out), "Content-Length: {}\r\n\r\n{}",
                   context.value.size(), context.value);
  } else {
    context.out += "\r\n";
  }
}

}  // namespace rubato::load
