// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// The interface between the kernel module rubato_uintr (native/uintr) and its caller. Plain C, read
// by both. An open file of the device belongs to the process that opened it; no other process may
// use it (EPERM). The senders of a file reach the receivers of that file only.
//
// A receiver's handler is entered as the processor does it, 128 bytes below its stack pointer, with
// the vector, the instruction, the flags and the stack pointer on the stack, and ends in UIRET. A
// new receiver takes interrupts after its own first STUI. Interrupts sent while it does not run
// are delivered when it does.
#pragma once

#include <linux/ioctl.h>
#include <linux/types.h>

#define RUBATO_UINTR_DEVICE "/dev/rubato_uintr"
#define RUBATO_UINTR_RECEIVERS_MAX 256 /* of one open file */

// The argument is the handler's address. The calling thread becomes a receiver; the result is the
// operand that SENDUIPI takes for it. Its vector is that number modulo 64.
#define RUBATO_UINTR_RECEIVE _IO('R', 0x60)
// The calling thread may use SENDUIPI, on the receivers of this file.
#define RUBATO_UINTR_SEND _IO('R', 0x61)
// The calling thread is neither any more. Interrupts sent to it later go nowhere.
#define RUBATO_UINTR_LEAVE _IO('R', 0x62)
