// SPDX-License-Identifier: Apache-2.0
//
// rubato lab open: serves the page that simulates (site/) to a browser of this machine. The page is
// one file, and needs nothing of the server once it is loaded.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "cli/common/command_registry.h"
#include "cli/common/file_text.h"
#include "cli/common/interrupt.h"
#include "runtime/exporter.h"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookForInterrupt{100};

constexpr const char* kNotes =
    "\nThe page simulates in the browser, which may stay when this command has ended. Ctrl-C ends\n"
    "it. `make site` builds the page in a clone of the sources.\n"
    "Exit status: 0 done, 1 there is no page.\n";

// Beside the program: as `make site` leaves it in the folder build, or as it is installed. "" =
// neither.
std::string page_file() {
  std::error_code problem;
  const fs::path bin = fs::read_symlink("/proc/self/exe", problem).parent_path();
  for (const char* place : {"../../site/index.html", "../share/rubato/site/index.html"}) {
    const fs::path file = bin / place;
    if (fs::is_regular_file(file, problem)) return file.string();
  }
  return "";
}

int open_page(const std::string& chosen) {
  const std::string name = chosen.empty() ? page_file() : chosen;
  if (name.empty()) return fail("there is no page: `make site` builds it, --page FILE names one");
  const std::optional<std::string> page = file_text(name);
  if (!page) return fail(("cannot read '" + name + "'").c_str());

  auto server = Exporter::start("127.0.0.1", 0,
                                {[](OpenMetrics&) {}, [] { return true; },
                                 [] { return std::string(); }, {},
                                 [text = *page] { return text; }});
  if (!server.ok()) return fail(server.error().c_str());
  watch_interrupts();
  fmt::print("http://127.0.0.1:{}/\n", server.value()->port());
  std::fflush(stdout);
  while (!interrupted()) std::this_thread::sleep_for(kLookForInterrupt);
  return kDone;
}

void add_open(CommandLine& command) {
  auto page = std::make_shared<std::string>();
  command.add_text("--page", *page, "Another page than the one beside this program")
      .placeholder("FILE");
  command.footer(kNotes);
  command.action([page] { return open_page(*page); });
}

const Command kOpen({"lab", "open", "Simulate in the browser: serve the page on 127.0.0.1",
                     add_open});

}  // namespace
}  // namespace rubato::cli
