// SPDX-License-Identifier: Apache-2.0
//
// OptionInfo: one tunable as `--set name=value` sees it. Whatever has tunables (a policy, an
// allocator of cores) lists them in `visit`, each with the field it sets (bool, uint32_t, double or
// Nanos; base/option_text.h reads and checks them):
//   template <class V>
//   static void visit(Config& c, V&& v) {
//     v(OptionInfo{"quantum", "us", 0.1, 1e6, "time before a request is cut"}, c.quantum);
//   }
// A plain value.
#pragma once

namespace rubato {

struct OptionInfo {
  const char* name;
  const char* unit;  // of bare numbers and of the range: "" or, for a Nanos, "ns", "us", "ms", "s"
  double low;        // least and
  double high;       // greatest value that is accepted
  const char* help;
};

}  // namespace rubato
