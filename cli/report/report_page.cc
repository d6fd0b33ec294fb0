// SPDX-License-Identifier: Apache-2.0
//
// rubato report FILE...: one page of runs, made by the lab's Python (lab/rubato_lab/report).
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/common/command_registry.h"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "python3";
// The import is apart, so that a lab that is not there is one line.
constexpr const char* kCall =
    "import sys\n"
    "if sys.path[0] == '': del sys.path[0]\n"  // nothing in the current directory is a module
    "try:\n"
    "    from rubato_lab.report.main import main\n"
    "except ImportError as error:\n"
    "    sys.exit('rubato: a page takes Python 3.11 with the lab, rubato_lab: ' + str(error)\n"
    "             + '; install the wheel of `make wheel`')\n"
    "sys.exit(main())\n";

constexpr const char* kNotes =
    "\n`rubato report FILE...` is short for it. FILEs are reports of `rubato sim` or\n"
    "`rubato load` with --json (runs, sweeps, comparisons). The page needs no network:\n"
    "figures to zoom and read, latencies with 95 % intervals, noise, settings, commands\n"
    "that repeat the runs. It is made by the lab, which takes Python 3.11 and\n"
    "libjs-dygraphs, or the wheel of `make wheel`.\n"
    "Exit status: 0 done, 1 it could not be written, 2 bad arguments.\n";

struct PageOptions {
  std::vector<std::string> files;
  std::string output = "report.html";
};

// The lab of the sources that this program was built from comes first, if they are there.
void find_lab() {
  std::error_code problem;
  const fs::path bin = fs::read_symlink("/proc/self/exe", problem).parent_path();
  const fs::path lab = fs::weakly_canonical(bin / "../../../lab", problem);
  if (!fs::is_regular_file(lab / "rubato_lab/report/main.py", problem)) return;
  const char* const before = std::getenv("PYTHONPATH");
  const std::string rest = before == nullptr || *before == '\0' ? "" : ":" + std::string(before);
  ::setenv("PYTHONPATH", (lab.string() + rest).c_str(), 1);
}

int make_page(PageOptions& o) {
  find_lab();
  std::vector<std::string> words = {kPython, "-c", kCall, "--output=" + o.output, "--"};
  words.insert(words.end(), o.files.begin(), o.files.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(kPython, argv.data());
  return fail(fmt::format("a page takes Python: cannot start {}: {}", kPython,
                          std::strerror(errno))
                  .c_str());
}

void add_page(CommandLine& command) {
  auto options = std::make_shared<PageOptions>();
  command.footer(kNotes);
  command.add_texts("FILE", options->files, "Reports").required();
  command.add_output("--output", options->output, "Where the page goes; - is stdout");
  command.action([options] { return make_page(*options); });
}

const Command kPage({"report", "page", "Show runs on a page that needs no network", add_page});

}  // namespace
}  // namespace rubato::cli
