// SPDX-License-Identifier: Apache-2.0
//
// HttpTemplate: an HTTP/1.1 request in a mix, such as `get/items/{key}` or `post/items`. Immutable
// once parsed; safe on every thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/verbs.h"

namespace rubato::load {

class HttpTemplate {
 public:
  // A method and a path, which is sent as it stands but for each {key}: a key that is drawn as for
  // GET of a key-value server. `host` becomes the header. Fails with what is wrong, as the rest of
  // a sentence that begins with the text.
  static Result<HttpTemplate> parse(std::string_view text, std::string_view host);

  // Appends one request; put and post have the context's value as their body.
  void append(const VerbContext& context) const;

 private:
  std::vector<std::string> path_;  // the texts around keys
  std::string_view method_;
  std::string head_;  // behind the path
  bool body_ = false;
};

}  // namespace rubato::load
