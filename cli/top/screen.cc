// SPDX-License-Identifier: Apache-2.0
#include "cli/top/screen.h"

#include <algorithm>

namespace rubato::cli {
namespace {

// Select Graphic Rendition (ECMA-48, 8.3.117).
const char* code_of(Ink ink, bool colour) {
  switch (ink) {
    case Ink::kPlain: return "\033[0m";
    case Ink::kBold: return "\033[0;1m";
    case Ink::kDim: return colour ? "\033[0;2m" : "\033[0m";
    case Ink::kReverse: return "\033[0;7m";
    case Ink::kGood: return colour ? "\033[0;32m" : "\033[0m";
    case Ink::kWarn: return colour ? "\033[0;33m" : "\033[0m";
    case Ink::kBad: return colour ? "\033[0;1;31m" : "\033[0;1m";
  }
  return "";
}

// A byte of UTF-8 that is not the first of its character.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
char shown(char c) { return c >= ' ' && c <= '~' ? c : '?'; }

}  // namespace

Screen::Screen(int columns, int rows)
    : columns_(std::max(columns, 0)),
      rows_(std::max(rows, 0)),
      cells_(static_cast<size_t>(columns_) * static_cast<size_t>(rows_)) {}

int Screen::put(int row, int column, std::string_view text, Ink ink) {
  for (const char c : text) {
    if (continues(c)) continue;
    if (row >= 0 && row < rows_ && column >= 0 && column < columns_) {
      cells_[static_cast<size_t>(row * columns_ + column)] = {shown(c), ink};
    }
    ++column;
  }
  return column;
}

void Screen::put_right(int row, int end, std::string_view text, Ink ink) {
  const auto width = text.size() - static_cast<size_t>(
                                       std::count_if(text.begin(), text.end(), continues));
  put(row, end - static_cast<int>(width), text, ink);
}

std::string Screen::line(int row) const {
  std::string text;
  for (int column = 0; column < columns_; ++column) {
    text += cells_[static_cast<size_t>(row * columns_ + column)].letter;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string Screen::plain() const {
  std::string text;
  for (int row = 0; row < rows_; ++row) text += line(row) + "\n";
  const size_t last = text.find_last_not_of('\n');
  return last == std::string::npos ? "" : text.substr(0, last + 2);
}

std::string Screen::ansi(bool colour) const {
  std::string text = "\033[H";
  for (int row = 0; row < rows_; ++row) {
    Ink ink = Ink::kPlain;
    text += code_of(ink, colour);
    for (int column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[static_cast<size_t>(row * columns_ + column)];
      if (cell.ink != ink) text += code_of(ink = cell.ink, colour);
      text += cell.letter;
    }
    text += code_of(Ink::kPlain, colour);
    if (row + 1 < rows_) text += "\r\n";
  }
  return text;
}

}  // namespace rubato::cli
