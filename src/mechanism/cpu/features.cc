// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rubato {
namespace {

#if defined(__x86_64__)
bool bit(unsigned value, unsigned index) { return ((value >> index) & 1u) != 0; }

void append(std::string& text, unsigned value) {
  for (unsigned i = 0; i < 4; ++i) text += static_cast<char>((value >> (8 * i)) & 0xffu);
}

CpuFeatures read_features() {
  CpuFeatures features;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) != 0) {
    append(features.vendor, b);
    append(features.vendor, d);
    append(features.vendor, c);
  }
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) features.hypervisor = bit(c, 31);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    features.waitpkg = bit(c, 5);
    features.uintr = bit(d, 5);
  }
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) != 0) features.invariant_tsc = bit(d, 8);
  return features;
}
#else
CpuFeatures read_features() { return {}; }
#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = read_features();
  return features;
}

}  // namespace rubato
