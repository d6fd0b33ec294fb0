// SPDX-License-Identifier: Apache-2.0
//
// LogOptions: what a server writes into its log (base/log.h), and where it is. A plain value.
#pragma once

#include <string>

#include "base/log.h"
#include "base/option_info.h"
#include "base/time.h"

namespace rubato {

struct LogOptions {
  static constexpr const char* kName = "the log";
  using Config = LogOptions;

  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string file;  // empty = standard error
  Nanos slow = Nanos::seconds(1);  // 0 = none

  // Nanos::max() = none.
  Nanos slow_threshold() const { return slow > Nanos() ? slow : Nanos::max(); }

  template <class V>
  static void visit(LogOptions& o, V&& v) {
    v(OptionInfo{"log_level", "", 0, 0, "least important lines that are written", kServe},
      o.level);
    v(OptionInfo{"log_format", "", 0, 0, "form of a line", kServe}, o.format);
    v(OptionInfo{"log_file", "", 0, 0,
                 "file that lines are added to, standard error without one; SIGHUP opens it anew",
                 kServe},
      o.file);
    v(OptionInfo{"log_slow", "ms", 0, 3.6e6,
                 "requests are logged whose wait + service is at least this; 0 = none", kServe},
      o.slow);
  }
};

}  // namespace rubato
