// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/workload.h"

namespace torture {
namespace {

const Workload kWorkloads[] = {
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
    {"rocksdb", rocksdb},
    {"leveldb", leveldb},
    {"thread_locals", thread_locals, true},
    {"error_numbers", error_numbers, true},
    {"locales", locales, true},
    {"once", once, true},  // std::call_once passes its function on in a thread-local
};

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

}  // namespace torture
