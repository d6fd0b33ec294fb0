// SPDX-License-Identifier: Apache-2.0
//
// The features of this processor that Rubato can use. Read once; any thread. All false on
// processors other than x86-64.
#pragma once

#include <string>

namespace rubato {

struct CpuFeatures {
  std::string vendor;          // "GenuineIntel", "AuthenticAMD", ...; empty if unknown
  bool invariant_tsc = false;  // CPUID 0x80000007 EDX bit 8: constant rate in every state
  bool waitpkg = false;        // umwait, tpause: idle briefly without the kernel
  bool uintr = false;          // user interrupts: preempt without the kernel
  bool hypervisor = false;     // running in a virtual machine
};

// CPUID traps in virtual machines and can take 10 us there; the answer is kept.
const CpuFeatures& cpu_features();

}  // namespace rubato
