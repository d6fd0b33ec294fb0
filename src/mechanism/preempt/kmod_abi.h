// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// The interface between the kernel module rubato_ipi (native/kmod) and its caller (kmod.h). Plain
// C, read by both. The device is /dev/rubato_ipi; a registration belongs to the open file through
// which it was made and to the process that opened that file; no other process may use the file
// (EPERM).
//
// How an interrupt arrives: at any instruction of the registered thread in 64-bit user mode, or on
// its return there, the module makes room below the red zone and goes to the handler:
//
//   rsp      cookie, as registered
//   rsp + 8  the instruction to go on at
//   rsp + 16 the red zone, 128 bytes, then what the thread had there
//
// All other registers, flags included, are the thread's; the handler restores them all and leaves
// by dropping the cookie and `ret $128`. Interrupts of one thread that have not arrived yet merge;
// further ones may hit the handler itself.
#pragma once

#include <linux/ioctl.h>
#include <linux/types.h>

#define RUBATO_IPI_DEVICE "/dev/rubato_ipi"
#define RUBATO_IPI_ABI_VERSION 1
#define RUBATO_IPI_RED_ZONE_BYTES 128
#define RUBATO_IPI_TARGETS_MAX 4096 /* of one open file */

struct rubato_ipi_target {
  __u64 handler;
  __u64 cookie;
};

// Numbers 1 and 2 are taken by the kernel for every file, so ours start higher.
//
// The version that the module speaks.
#define RUBATO_IPI_VERSION _IO('R', 0x50)
// The calling thread becomes a target; gives its handle, which is not given again for long.
#define RUBATO_IPI_REGISTER _IOW('R', 0x51, struct rubato_ipi_target)
// The argument is the handle itself: interrupts that thread. ESRCH: it has ended or is no target.
#define RUBATO_IPI_SEND _IO('R', 0x52)
// The argument is the handle itself. When the target itself calls it, no interrupt arrives after
// it.
#define RUBATO_IPI_UNREGISTER _IO('R', 0x53)
