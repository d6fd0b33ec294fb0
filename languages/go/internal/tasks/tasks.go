// SPDX-License-Identifier: Apache-2.0

// Package tasks has native tasks for the tests and the example, on a counter that C may keep.
package tasks

/*
#include <rubato/executor.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef _Atomic uint64_t counter;

static int add_one(void* to) {
  atomic_fetch_add((counter*)to, 1);
  return RUBATO_OK;
}
static int until_hundred(void* seen) {
  while (atomic_load((counter*)seen) < 100) {
    if (rubato_checkpoint() != 0) return RUBATO_ERROR;
  }
  return RUBATO_OK;
}
static void* of_add_one(void) { return (void*)&add_one; }
static void* of_until_hundred(void) { return (void*)&until_hundred; }
static uint64_t load(void* from) { return atomic_load((counter*)from); }
static void store(void* to, uint64_t value) { atomic_store((counter*)to, value); }
*/
import "C"

import "unsafe"

// AddOne adds one to its Counter.
func AddOne() unsafe.Pointer { return C.of_add_one() }

// UntilHundred works until its Counter has the value 100, with checkpoints.
func UntilHundred() unsafe.Pointer { return C.of_until_hundred() }

// A Counter is what the tasks take; in C's memory, as a task keeps it.
type Counter struct{ c unsafe.Pointer }

// NewCounter is to be freed.
func NewCounter() Counter { return Counter{C.calloc(1, 8)} }

// C is what a task is given.
func (c Counter) C() unsafe.Pointer { return c.c }

// Load, Store and Free do what their names say.
func (c Counter) Load() uint64       { return uint64(C.load(c.c)) }
func (c Counter) Store(value uint64) { C.store(c.c, C.uint64_t(value)) }
func (c Counter) Free()              { C.free(c.c) }
