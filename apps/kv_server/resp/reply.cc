// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/reply.h"

#include <cstring>

#include "kv_server/text/number.h"

namespace rubato::kv {
namespace {

constexpr size_t kLineEndBytes = 2;
constexpr size_t kMaxHeaderBytes = 1 + kMaxIntegerBytes + kLineEndBytes;
constexpr size_t kKindBytes = 4;  // of a verbatim text: three letters and a colon

char* put_line_end(char* to) {
  to[0] = '\r';
  to[1] = '\n';
  return to + kLineEndBytes;
}

// A kind byte, a number and a line end; returns the end.
char* put_header(char* to, char kind, int64_t number) {
  *to++ = kind;
  if (number >= 0 && number <= 9) {
    *to++ = static_cast<char>('0' + number);
  } else if (number >= 10 && number <= 99) {
    *to++ = static_cast<char>('0' + number / 10);
    *to++ = static_cast<char>('0' + number % 10);
  } else {
    to += write_integer(to, number);
  }
  return put_line_end(to);
}

}  // namespace

void Reply::header(char kind, int64_t number) {
  char* const to = out_->reserve(kMaxHeaderBytes);
  if (to == nullptr) return;
  out_->commit(static_cast<size_t>(put_header(to, kind, number) - to));
}

void Reply::line(char kind, std::string_view text) {
  char* const to = out_->reserve(1 + text.size() + kLineEndBytes);
  if (to == nullptr) return;
  *to = kind;
  std::memcpy(to + 1, text.data(), text.size());
  put_line_end(to + 1 + text.size());
  out_->commit(1 + text.size() + kLineEndBytes);
}

void Reply::error(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  char* const to = out_->reserve(1 + text.size() + kLineEndBytes);
  if (to == nullptr) return;
  *to = '-';
  for (size_t i = 0; i < text.size(); ++i) {
    to[1 + i] = text[i] == '\r' || text[i] == '\n' ? ' ' : text[i];
  }
  put_line_end(to + 1 + text.size());
  out_->commit(1 + text.size() + kLineEndBytes);
}

void Reply::bulk(std::string_view bytes) {
  char* const to = out_->reserve(kMaxHeaderBytes + bytes.size() + kLineEndBytes);
  if (to == nullptr) return;
  char* at = put_header(to, '$', static_cast<int64_t>(bytes.size()));
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  at = put_line_end(at + bytes.size());
  out_->commit(static_cast<size_t>(at - to));
}

void Reply::bulk_integer(int64_t value) {
  char digits[kMaxIntegerBytes];
  bulk({digits, write_integer(digits, value)});
}

void Reply::real(double value) {
  char digits[kMaxFloatBytes];
  const std::string_view text{digits, write_double(digits, value)};
  if (version_ == RespVersion::k3) {
    line(',', text);
  } else {
    bulk(text);
  }
}

void Reply::boolean(bool value) {
  if (version_ == RespVersion::k3) {
    raw(value ? "#t\r\n" : "#f\r\n");
  } else {
    integer(value ? 1 : 0);
  }
}

void Reply::big_number(std::string_view digits) {
  if (version_ == RespVersion::k3) {
    line('(', digits);
  } else {
    bulk(digits);
  }
}

void Reply::verbatim(std::string_view kind, std::string_view text) {
  if (version_ == RespVersion::k2) return bulk(text);
  header('=', text.size() + kKindBytes);
  raw(kind);
  raw(":");
  raw(text);
  raw("\r\n");
}

void Reply::map(size_t pairs) {
  if (version_ == RespVersion::k3) {
    header('%', pairs);
  } else {
    header('*', pairs * 2);
  }
}

}  // namespace rubato::kv
