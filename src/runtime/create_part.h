// SPDX-License-Identifier: Apache-2.0
//
// Runtime::create of the policies of one part (policy/part.h). Called by runtime/registry.cc only,
// with options whose bounds it has checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/runtime.h"

namespace rubato {

// Nothing = the policy is not of this part.
template <uint32_t kPart>
std::optional<Result<std::unique_ptr<Runtime>>> create_part(const RuntimeOptions& options,
                                                            Datapath& datapath,
                                                            Application& application);

}  // namespace rubato
