// SPDX-License-Identifier: Apache-2.0
//
// RocksDB behind lines "SET key value", "GET key" and "COUNT text", which scans all values and
// blocks no GET, since its iterator has a checkpoint at every step.
#include <rocksdb/db.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <rubato/rubato.hpp>
#include <rubato/store_iterator.hpp>

namespace {

// Cuts the first word off.
std::string next_word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string word(line.substr(0, end));
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

size_t count(rocksdb::DB& db, std::string_view text) {
  size_t found = 0;
  rubato::StoreIterator it(db.NewIterator(rocksdb::ReadOptions()));
  for (it.SeekToFirst(); it.Valid(); it.Next()) {
    if (it.value().ToStringView().find(text) != std::string_view::npos) ++found;
  }
  return found;
}

void handle(rocksdb::DB& db, rubato::Request& request) {
  std::string_view rest = request.payload();
  const std::string verb = next_word(rest);
  if (verb == "COUNT") {
    request.reply(std::to_string(count(db, rest)));
    return;
  }
  const std::string key = next_word(rest);
  std::string value;
  if (verb == "SET") {
    const rocksdb::Status status = db.Put(rocksdb::WriteOptions(), key, std::string(rest));
    request.reply(status.ToString());
  } else {
    const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), key, &value);
    request.reply(status.ok() ? value : status.ToString());
  }
}

}  // namespace

int main(int argc, char** argv) {
  rocksdb::Options store;
  store.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(store, argc > 2 ? argv[2] : "rocksdb_scans.db", &opened);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  const std::unique_ptr<rocksdb::DB> db(opened);

  rubato::Options options;
  options.port = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 0;
  options.handle_signals = true;
  rubato::Application app;
  app.framing = rubato::Framing::kLines;
  app.handle = [&db](rubato::Request& request) { handle(*db, request); };
  auto server = rubato::Server::create(options, std::move(app));
  if (!server) return std::fprintf(stderr, "%s\n", server.error().c_str()), 1;
  std::printf("listening on %u\n", server->port());
  std::fflush(stdout);
  return server->run() ? 0 : 1;
}
