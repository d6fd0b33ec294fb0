// SPDX-License-Identifier: Apache-2.0
//
// A library that a test loads while it runs.
extern "C" int rubato_late_object_answer() { return 42; }
