// SPDX-License-Identifier: Apache-2.0
//
// For the tests of what is kept on disk. Every database is opened in a child process, because a
// process with RocksDB's threads cannot be forked, and so that it can be killed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kv_server/engine/engine_fixture.h"

namespace rubato::kv::testing {

inline EngineOptions options_in(const std::string& dir, Durability durability) {
  EngineOptions options;
  options.dir = dir;
  options.durability = durability;
  return options;
}

inline std::unique_ptr<Engine> open_in(const std::string& dir, Durability durability) {
  auto opened = open_rocksdb_engine(options_in(dir, durability));
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.error().c_str());
    _exit(3);
  }
  return std::move(opened.value());
}

// Runs `body` in a child; its result is the exit status, -signal if it was killed.
inline pid_t start(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}
inline int finish(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
inline int in_child(const std::function<int()>& body) { return finish(start(body)); }

// The logs in a folder, oldest first.
inline std::vector<std::string> logs_in(const std::string& dir) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".log") found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Empty = it opens.
inline std::string refusal_of(const EngineOptions& options) {
  auto opened = open_rocksdb_engine(options);
  return opened.ok() ? "" : opened.error();
}

}  // namespace rubato::kv::testing
