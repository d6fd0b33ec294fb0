// SPDX-License-Identifier: Apache-2.0
//
// LevelDB behind lines "SET key value", "GET key" and "COUNT text", which scans all values and
// blocks no GET: librubato-pass.so, with which this is to be compiled, puts a checkpoint into the
// loop.
#include <leveldb/db.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <rubato/rubato.hpp>

namespace {

// Cuts the first word off.
std::string next_word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string word(line.substr(0, end));
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

size_t count(leveldb::DB& db, std::string_view text) {
  size_t found = 0;
  const std::unique_ptr<leveldb::Iterator> it(db.NewIterator(leveldb::ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    if (it->value().ToString().find(text) != std::string::npos) ++found;
  }
  return found;
}

void handle(leveldb::DB& db, rubato::Request& request) {
  std::string_view rest = request.payload();
  const std::string verb = next_word(rest);
  if (verb == "COUNT") {
    request.reply(std::to_string(count(db, rest)));
    return;
  }
  const std::string key = next_word(rest);
  std::string value;
  if (verb == "SET") {
    const leveldb::Status status = db.Put(leveldb::WriteOptions(), key, std::string(rest));
    request.reply(status.ToString());
  } else {
    const leveldb::Status status = db.Get(leveldb::ReadOptions(), key, &value);
    request.reply(status.ok() ? value : status.ToString());
  }
}

}  // namespace

int main(int argc, char** argv) {
  leveldb::Options store;
  store.create_if_missing = true;
  leveldb::DB* opened = nullptr;
  const leveldb::Status status =
      leveldb::DB::Open(store, argc > 2 ? argv[2] : "leveldb_scans.db", &opened);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  const std::unique_ptr<leveldb::DB> db(opened);

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
