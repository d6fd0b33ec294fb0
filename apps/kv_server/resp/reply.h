// SPDX-License-Identifier: Apache-2.0
//
// Reply: writes RESP2 or RESP3 values into a ReplyBuffer. A thin value made per request, used by
// the worker that runs it. Aggregates are written header first: array(n) and then n values. For
// one whose length shows only at the end, see list_builder.h.
//
// Types that RESP2 lacks are written as Redis does: a map as a flat array, a set or a push as an
// array, a double as a bulk string, a boolean as 0 or 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "datapath/reply_buffer.h"

namespace rubato::kv {

enum class RespVersion : uint8_t { k2 = 2, k3 = 3 };

class Reply {
 public:
  Reply(ReplyBuffer& out, RespVersion version) : out_(&out), version_(version) {}

  RespVersion version() const { return version_; }

  // Bytes that are RESP already.
  void raw(std::string_view bytes) { out_->append(bytes); }

  void ok() { raw("+OK\r\n"); }
  // `text` has no line end.
  void simple(std::string_view text) { line('+', text); }
  // `text` starts with its code ("ERR ..."); line ends in it become spaces, and those at
  // its end are left out.
  void error(std::string_view text);
  void integer(int64_t value) {
    if (value >= 0 && value <= 9) {
      const char bytes[] = {':', static_cast<char>('0' + value), '\r', '\n'};
      raw({bytes, sizeof bytes});
    } else {
      header(':', value);
    }
  }
  void bulk(std::string_view bytes);
  void bulk_integer(int64_t value);
  // The null of a missing value.
  void null() { raw(version_ == RespVersion::k3 ? "_\r\n" : "$-1\r\n"); }
  // The null that stands for a missing array.
  void null_array() { raw(version_ == RespVersion::k3 ? "_\r\n" : "*-1\r\n"); }
  void real(double value);
  void boolean(bool value);
  // A text of a kind of three letters ("txt", "mkd").
  void verbatim(std::string_view kind, std::string_view text);

  void array(size_t items) { header('*', static_cast<int64_t>(items)); }
  // `pairs` keys with values follow.
  void map(size_t pairs);
  void set(size_t items) { header(version_ == RespVersion::k3 ? '~' : '*', items); }
  // `pairs` keys with values follow, and then the reply that they tell of. RESP3 only.
  void attribute(size_t pairs) { header('|', pairs); }
  // Decimal digits of any number.
  void big_number(std::string_view digits);
  void push(size_t items) { header(version_ == RespVersion::k3 ? '>' : '*', items); }

 private:
  void line(char kind, std::string_view text);
  void header(char kind, int64_t number);
  void header(char kind, size_t number) { header(kind, static_cast<int64_t>(number)); }

  ReplyBuffer* out_;
  RespVersion version_;
};

}  // namespace rubato::kv
