// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/workload.h"

namespace torture {
namespace {

constexpr Workload kWorkloads[] = {
    {"exceptions", exceptions},
    {"functions", functions},
    {"regular_expressions", regular_expressions},
    {"streams", streams},
    {"formatting", formatting},
    {"containers", containers},
    {"allocation", allocation},
    {"sorting", sorting},
    {"floating_point", floating_point},
    {"vectors", vectors},
    {"nested_locks", nested_locks},
    {"conditions", conditions},
    {"once", once},
    {"rocksdb", rocksdb},
    {"leveldb", leveldb},
    {"thread_locals", thread_locals, true},
    {"error_numbers", error_numbers, true},
    {"locales", locales, true},
};

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

}  // namespace torture
