// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <string>
#include <string_view>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t sqlite_queries(uint64_t seed) {
  sqlite3* database = nullptr;
  if (sqlite3_open(":memory:", &database) != SQLITE_OK) return 0;
  Sum sum;
  std::string setup = "create table t(a integer primary key, b text);";
  for (uint64_t i = 0; i < 40; ++i) {
    setup += "insert into t values(" + std::to_string(i) + ",'" + text_of(seed + i, 20) + "');";
  }
  sum.add(static_cast<uint64_t>(sqlite3_exec(database, setup.c_str(), nullptr, nullptr, nullptr)));
  const auto row = [](void* to, int columns, char** values, char**) {
    for (int i = 0; i < columns; ++i) static_cast<Sum*>(to)->add(std::string_view(values[i]));
    return 0;
  };
  const char* query = "select b, count(*), sum(a) from t group by substr(b, 6, 1) order by 3, 1";
  sum.add(static_cast<uint64_t>(sqlite3_exec(database, query, row, &sum, nullptr)));
  sum.add(static_cast<uint64_t>(sqlite3_close(database)));
  return sum.value();
}

const Registered kSqliteQueries{"sqlite", sqlite_queries};

}  // namespace
}  // namespace torture
