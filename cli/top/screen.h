// SPDX-License-Identifier: Apache-2.0
//
// Screen: a grid of characters with their ink, which becomes plain text or what a terminal takes.
// Everything outside of the grid is cut off; bytes that are not printable ASCII become '?', so that
// no name from a server reaches the terminal as a command. Plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rubato::cli {

enum class Ink : uint8_t { kPlain, kBold, kDim, kReverse, kGood, kWarn, kBad };

class Screen {
 public:
  Screen(int columns, int rows);

  int columns() const { return columns_; }
  int rows() const { return rows_; }

  // Writes the text from that cell on. Returns the column behind it.
  int put(int row, int column, std::string_view text, Ink ink = Ink::kPlain);
  // The same so that it ends before `end`.
  void put_right(int row, int end, std::string_view text, Ink ink = Ink::kPlain);

  // Lines without the blanks at their ends and the empty lines at the end.
  std::string plain() const;
  // For a terminal: from its upper left corner, all of it. Without colours, bold and reverse stay.
  std::string ansi(bool colour) const;

 private:
  struct Cell {
    char letter = ' ';
    Ink ink = Ink::kPlain;
  };

  std::string line(int row) const;

  int columns_, rows_;
  std::vector<Cell> cells_;
};

}  // namespace rubato::cli
