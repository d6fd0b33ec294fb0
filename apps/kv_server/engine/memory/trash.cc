// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/memory/trash.h"

namespace rubato::kv {

void DeferredFree::empty() {
  while (entries_ != nullptr) Entry::drop(std::exchange(entries_, entries_->next));
  while (blobs_ != nullptr) Blob::drop(std::exchange(blobs_, blobs_->next));
}

}  // namespace rubato::kv
