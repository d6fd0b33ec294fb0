// SPDX-License-Identifier: Apache-2.0
#include "base/toml_guard.h"

#include <algorithm>
#include <string>

namespace rubato {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";
constexpr std::string_view kEndsValue = " \t\r\v\f,]}";  // and a comment
constexpr size_t kLongQuotes = 3;  // a text over several lines begins and ends with as many

bool is_beyond_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }

size_t leading(std::string_view text, char c) {
  return std::min(text.find_first_not_of(c), text.size());
}

// Follows keys, values, texts in quotes and comments from line to line, as toml++ does up to its
// first error, behind which it reads nothing.
class Walk {
 public:
  bool outside_of_texts() const { return quote_ == kNone; }

  // To the end of this line. False: there is a byte that toml++ must not be given.
  bool pass(std::string_view line) {
    while (!line.empty()) {
      const size_t passed = outside_of_texts() ? pass_outside(line)
                            : long_            ? pass_long(line)
                                               : pass_short(line);
      if (passed == kNotAllowed) return false;
      line.remove_prefix(passed);
    }
    end_line();
    return true;
  }

 private:
  static constexpr char kNone = 0;
  static constexpr size_t kNotAllowed = 0;

  void end_line() {
    in_bare_value_ = false;
    if (!long_) quote_ = kNone;  // an error: texts of one line end on it
    if (outside_of_texts() && open_.empty()) value_ = false;
    skips_blanks_ = skips_blanks_ || escaped_;
    escaped_ = false;
  }

  // This and its like take what is left of the line and return how many bytes of it are dealt with.
  size_t pass_outside(std::string_view rest) {
    const char c = rest.front();
    if (c == '#') return rest.size();
    if (is_beyond_ascii(c)) return kNotAllowed;
    // toml++ reads to the end of a number or a date before it looks what is in it.
    if (in_bare_value_ && kEndsValue.find(c) == std::string_view::npos) return 1;
    in_bare_value_ = false;
    if (c == '"' || c == '\'') return open_text(rest);
    return pass_structure(c) ? 1 : kNotAllowed;
  }

  bool pass_structure(char c) {
    if (kBlanks.find(c) != std::string_view::npos) return true;
    if (c == '}' && open_.ends_with('[')) return false;  // it would be taken for a value
    if (c == '=' && !value_) {
      value_ = true;
    } else if (c == ',') {
      value_ = open_.ends_with('[');
    } else if (c == ']' || c == '}') {
      if (!open_.empty()) open_.pop_back();
    } else if (value_ && (c == '[' || c == '{')) {
      open_ += c;
      value_ = c == '[';
    } else {
      in_bare_value_ = value_;
    }
    return true;
  }

  size_t open_text(std::string_view rest) {
    const size_t quotes = leading(rest, rest.front());
    if (quotes == 2) return 2;  // nothing between them
    quote_ = rest.front();
    long_ = quotes >= kLongQuotes;
    return long_ ? kLongQuotes : 1;
  }

  size_t pass_short(std::string_view rest) {
    const char c = rest.front();
    if (c == '\\' && quote_ == '"') return std::min<size_t>(2, rest.size());
    if (c == quote_) quote_ = kNone;
    return 1;
  }

  // Behind a backslash, and behind the blanks that follow one, toml++ looks whether a letter is a
  // blank, for which it has the same tables as outside.
  size_t pass_long(std::string_view rest) {
    const char c = rest.front();
    const bool blank = kBlanks.find(c) != std::string_view::npos;
    if ((escaped_ || skips_blanks_) && is_beyond_ascii(c)) return kNotAllowed;
    if (escaped_) {
      escaped_ = false;
      skips_blanks_ = blank;
      return 1;
    }
    skips_blanks_ = skips_blanks_ && blank;
    if (c == '\\') escaped_ = quote_ == '"';
    return c == quote_ ? pass_quotes(rest) : 1;
  }

  // Three end the text; up to two more in front of them are its own.
  size_t pass_quotes(std::string_view rest) {
    const size_t quotes = std::min(leading(rest, quote_), kLongQuotes + 2);
    if (quotes >= kLongQuotes) {
      quote_ = kNone;
      long_ = false;
    }
    return quotes;
  }

  std::string open_;            // the brackets of the value, of arrays and tables, outermost first
  bool value_ = false;          // what is next, or is being read, is one and no key
  bool in_bare_value_ = false;  // one without quotes
  char quote_ = kNone;          // of the text that it is in
  bool long_ = false;
  bool escaped_ = false;  // the next byte is
  bool skips_blanks_ = false;
};

// A line that begins with '[', perhaps two, after which there is neither a name nor a value. What
// is in quotes counts as either.
bool has_nameless_section(std::string_view line) {
  constexpr std::string_view kMayFollow =
      "]_-\"'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
      "abcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view kIndents = " \t";
  const size_t open = line.find_first_not_of(kIndents);
  if (open == std::string_view::npos || line[open] != '[') return false;
  size_t next = line.find_first_not_of(kIndents, open + 1);
  if (next != std::string_view::npos && line[next] == '[') {
    next = line.find_first_not_of(kIndents, next + 1);
  }
  return next == std::string_view::npos || kMayFollow.find(line[next]) == std::string_view::npos;
}

}  // namespace

size_t line_beyond_toml(std::string_view text) {
  Walk walk;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (walk.outside_of_texts() && has_nameless_section(line)) return number;
    if (!walk.pass(line)) return number;
  }
  return 0;
}

}  // namespace rubato
