// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// The device file of a kernel module whose descriptors belong to the process that opened them, for
// rubato_ipi and rubato_uintr. A module includes it once, keeps a DeviceOwner in the data of each
// descriptor, defines device_open, device_release and device_ioctl, and then invokes RUBATO_DEVICE.
#pragma once

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

// The references keep the addresses from being reused by another process; they do not keep the
// memory in use.
struct DeviceOwner {
  struct mm_struct *mm;
  struct pid *thread_group;
};

// Called in a system call of a process with memory of its own (current->mm is not NULL).
static void owner_hold_current(struct DeviceOwner *owner) {
  mmgrab(current->mm);
  owner->mm = current->mm;
  owner->thread_group = get_pid(task_tgid(current));
}

static void owner_put(struct DeviceOwner *owner) {
  put_pid(owner->thread_group);
  mmdrop(owner->mm);
}

static bool owner_is_current(const struct DeviceOwner *owner) {
  return current->mm == owner->mm && task_tgid(current) == owner->thread_group;
}

// Defines `device`, for misc_register.
#define RUBATO_DEVICE(file_name, file_mode)           \
  static const struct file_operations operations = {  \
      .owner = THIS_MODULE,                           \
      .open = device_open,                            \
      .release = device_release,                      \
      .unlocked_ioctl = device_ioctl,                 \
  };                                                  \
  static struct miscdevice device = {                 \
      .minor = MISC_DYNAMIC_MINOR,                    \
      .name = file_name,                              \
      .mode = file_mode,                              \
      .fops = &operations,                            \
  }
