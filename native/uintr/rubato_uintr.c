// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// rubato_uintr: user interrupts (Intel SDM 3A chapter 8; Synergy 5.2.3, uintr) for kernels that
// know nothing of them. uintr_abi.h describes the device.
//
// The processor finds a thread's role in model-specific registers, so they are switched with the
// thread: preempt notifiers of the registered threads load and clear them, at no cost to other
// threads. While a receiver does not run, its descriptor (UPID) says so, and an interrupt sent then
// only leaves a bit there, which is taken over when the receiver runs again.
//
// Ownership: a file owns a context, which holds the table of targets (UITT) and all descriptors and
// stays as long as a registered thread is alive, because processors read both. A thread's record
// goes when the thread leaves, or after it was switched away from for the last time.
//
// The notification vector is KVM's for nested guests, the only one with a harmless handler that a
// module can have: a notification that arrives late, when its thread is gone, ends there.
#include <linux/cpuhotplug.h>
#include <linux/gfp.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/irq_vectors.h>
#include <asm/msr.h>
#include <asm/tlbflush.h>

#include "mechanism/preempt/uintr_abi.h"

#include "../device_owner.h"

enum {
  kReceivers = RUBATO_UINTR_RECEIVERS_MAX,
  kNotificationVector = POSTED_INTR_NESTED_VECTOR,
  kRedZoneBytes = 128,
  kCr4Uintr = 1 << 25,
  // Bit of Descriptor.status.
  kSuppressed = 1,
};

// Model-specific registers.
enum {
  kMsrRequests = 0x985,
  kMsrHandler = 0x986,
  kMsrStackAdjust = 0x987,
  kMsrMisc = 0x988,  // 0-31 the table's last index, 32-39 the notification vector
  kMsrDescriptor = 0x989,
  kMsrTable = 0x98a,
  kMsrX2apicId = 0x802,
};

// The layouts that the processor reads: user posted-interrupt descriptor, and entry of the target
// table.
struct Descriptor {
  unsigned long status;  // bits 16-23 notification vector, 32-63 destination
  u64 requests;
} __aligned(64);

struct Entry {
  u8 valid;
  u8 vector;
  u8 reserved[6];
  u64 descriptor;
} __aligned(16);

struct Tables {
  struct Descriptor descriptors[kReceivers];
  struct Entry entries[kReceivers];
};

struct Context {
  struct kref refs;
  struct DeviceOwner owner;
  struct mutex change;       // held while threads come and go
  struct list_head threads;  // Thread.member
  struct Tables *tables;
  unsigned long used[BITS_TO_LONGS(kReceivers)];
};

struct Thread {
  struct preempt_notifier notifier;
  struct llist_node dead;
  struct list_head member;
  struct Context *context;
  struct task_struct *task;  // compared only
  bool sends;
  int slot;  // of the thread's descriptor; -1 = receives nothing
  u64 handler;
  u64 recognised;  // interrupts recognised by the processor when the thread was switched out
  bool enabled;    // the user interrupt flag at that time
};

static DEFINE_PER_CPU(u32, destination);
static enum cpuhp_state hotplug_state;

static bool processor_has_uintr(void) {
  u32 a, b, c, d;
  cpuid_count(7, 0, &a, &b, &c, &d);
  return (d & (1u << 5)) != 0;
}

static struct Descriptor *descriptor_of(const struct Thread *thread) {
  return &thread->context->tables->descriptors[thread->slot];
}

// Called with interrupts off, on the thread's processor.
static void load(struct Thread *thread) {
  const u64 sends = thread->sends ? kReceivers - 1 : 0;
  if (thread->slot >= 0) {
    struct Descriptor *descriptor = descriptor_of(thread);
    const u64 place = (u64)this_cpu_read(destination) << 32;
    wrmsrl(kMsrHandler, thread->handler);
    wrmsrl(kMsrStackAdjust, kRedZoneBytes);
    wrmsrl(kMsrDescriptor, (u64)descriptor);
    wrmsrl(kMsrMisc, sends | (u64)kNotificationVector << 32);
    // From here on senders notify this processor; the bits that they left before are taken over, as
    // the processor would have done. Notifications wait until interrupts are on.
    xchg(&descriptor->status, place | kNotificationVector << 16);
    wrmsrl(kMsrRequests, thread->recognised | xchg(&descriptor->requests, 0));
    // Any program may leave the flag as it likes, so it is set either way.
    if (thread->enabled) {
      asm volatile("stui");
    } else {
      asm volatile("clui");
    }
  } else {
    wrmsrl(kMsrMisc, sends);
  }
  if (thread->sends) wrmsrl(kMsrTable, (u64)thread->context->tables->entries | 1);
}

// Likewise.
static void unload(struct Thread *thread) {
  if (thread->slot >= 0) {
    set_bit(kSuppressed, &descriptor_of(thread)->status);
    asm volatile("testui" : "=@ccc"(thread->enabled));
    asm volatile("clui");
    rdmsrl(kMsrRequests, thread->recognised);
    wrmsrl(kMsrRequests, 0);
    wrmsrl(kMsrDescriptor, 0);
  }
  wrmsrl(kMsrTable, 0);
  wrmsrl(kMsrMisc, 0);
}

static void context_free(struct kref *refs) {
  struct Context *context = container_of(refs, struct Context, refs);
  free_pages_exact(context->tables, sizeof(struct Tables));
  owner_put(&context->owner);
  kfree(context);
}

// The thread no longer runs with this record. The entry in the table stays valid, because SENDUIPI
// to an invalid entry is a fault of the sender; a sender then only leaves a bit in an unused
// descriptor.
static void thread_free(struct Thread *thread) {
  struct Context *context = thread->context;
  mutex_lock(&context->change);
  list_del(&thread->member);
  if (thread->slot >= 0) clear_bit(thread->slot, context->used);
  mutex_unlock(&context->change);
  kref_put(&context->refs, context_free);
  kfree(thread);
  module_put(THIS_MODULE);
}

// Threads that ended without leaving, found at their last switch, where nothing can be freed.
static LLIST_HEAD(g_dead);

static void free_dead(struct work_struct *work) {
  struct Thread *thread, *next;
  struct llist_node *dead = llist_del_all(&g_dead);
  synchronize_rcu();  // the notifier's caller has read its last
  llist_for_each_entry_safe(thread, next, dead, dead) thread_free(thread);
}
static DECLARE_WORK(g_free_dead, free_dead);

static void wake_free_dead(struct irq_work *work) { schedule_work(&g_free_dead); }
static DEFINE_IRQ_WORK(g_wake_free_dead, wake_free_dead);

static void on_switch_in(struct preempt_notifier *notifier, int cpu) {
  struct Thread *thread = container_of(notifier, struct Thread, notifier);
  unsigned long flags;
  // After exec the handler is an address in another program.
  if (!owner_is_current(&thread->context->owner)) return;
  local_irq_save(flags);
  load(thread);
  local_irq_restore(flags);
}

static void on_switch_out(struct preempt_notifier *notifier, struct task_struct *next) {
  struct Thread *thread = container_of(notifier, struct Thread, notifier);
  unload(thread);
  if (READ_ONCE(current->__state) == TASK_DEAD) {
    llist_add(&thread->dead, &g_dead);
    irq_work_queue(&g_wake_free_dead);
  }
}

static struct preempt_ops switches = {.sched_in = on_switch_in, .sched_out = on_switch_out};

// Requires `change`.
static struct Thread *find_current(const struct Context *context) {
  struct Thread *thread;
  list_for_each_entry(thread, &context->threads, member) {
    if (thread->task == current) return thread;
  }
  return NULL;
}

// Requires `change`. The caller loads the registers.
static struct Thread *make_current(struct Context *context) {
  struct Thread *thread = kzalloc(sizeof(*thread), GFP_KERNEL_ACCOUNT);
  if (thread == NULL) return NULL;
  thread->context = context;
  thread->task = current;
  thread->slot = -1;
  kref_get(&context->refs);
  __module_get(THIS_MODULE);
  list_add(&thread->member, &context->threads);
  preempt_notifier_init(&thread->notifier, &switches);
  preempt_notifier_register(&thread->notifier);
  return thread;
}

static void set_receiver(struct Thread *thread, int slot, u64 handler) {
  struct Entry *entry = &thread->context->tables->entries[slot];
  struct Descriptor *descriptor = &thread->context->tables->descriptors[slot];
  WRITE_ONCE(descriptor->status, BIT_ULL(kSuppressed));
  WRITE_ONCE(descriptor->requests, 0);
  entry->vector = slot % 64;
  entry->descriptor = (u64)descriptor;
  smp_store_release(&entry->valid, 1);
  thread->handler = handler;
  thread->slot = slot;
}

// Gives the calling thread either role; returns the slot of a receiver, 0 for a sender.
static long become(struct Context *context, bool receiver, u64 handler) {
  struct Thread *thread;
  long result = 0;
  if (receiver && (handler == 0 || handler >= TASK_SIZE_MAX)) return -EINVAL;
  mutex_lock(&context->change);
  thread = find_current(context);
  if (thread == NULL) thread = make_current(context);
  if (receiver) result = find_first_zero_bit(context->used, kReceivers);
  if (thread == NULL) {
    result = -ENOMEM;
  } else if (receiver && thread->slot >= 0) {
    result = -EBUSY;
  } else if (result == kReceivers) {
    result = -ENOSPC;
  } else {
    local_irq_disable();
    unload(thread);
    if (receiver) {
      set_bit(result, context->used);
      set_receiver(thread, result, handler);
    } else {
      thread->sends = true;
    }
    load(thread);
    local_irq_enable();
  }
  mutex_unlock(&context->change);
  return result;
}

static long leave(struct Context *context) {
  struct Thread *thread;
  mutex_lock(&context->change);
  thread = find_current(context);
  mutex_unlock(&context->change);
  if (thread == NULL) return -ESRCH;
  preempt_disable();
  preempt_notifier_unregister(&thread->notifier);
  local_irq_disable();
  unload(thread);
  local_irq_enable();
  preempt_enable();
  thread_free(thread);
  return 0;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument) {
  struct Context *context = file->private_data;
  if (!owner_is_current(&context->owner)) return -EPERM;
  switch (command) {
    case RUBATO_UINTR_RECEIVE:
      return become(context, true, argument);
    case RUBATO_UINTR_SEND:
      return become(context, false, 0);
    case RUBATO_UINTR_LEAVE:
      return leave(context);
    default:
      return -ENOTTY;
  }
}

static int device_open(struct inode *inode, struct file *file) {
  struct Context *context;
  if (current->mm == NULL) return -EINVAL;
  context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);
  if (context == NULL) return -ENOMEM;
  context->tables = alloc_pages_exact(sizeof(struct Tables), GFP_KERNEL | __GFP_ZERO);
  if (context->tables == NULL) {
    kfree(context);
    return -ENOMEM;
  }
  kref_init(&context->refs);
  mutex_init(&context->change);
  INIT_LIST_HEAD(&context->threads);
  owner_hold_current(&context->owner);
  file->private_data = context;
  return 0;
}

static int device_release(struct inode *inode, struct file *file) {
  struct Context *context = file->private_data;
  kref_put(&context->refs, context_free);
  return 0;
}

RUBATO_DEVICE("rubato_uintr", 0600);

// Called on each processor, now and when it is switched on.
static int processor_on(unsigned int cpu) {
  u64 base;
  u32 id = cpuid_ebx(1) >> 24 << 8;
  rdmsrl(MSR_IA32_APICBASE, base);
  if (base & X2APIC_ENABLE) rdmsr(kMsrX2apicId, id, base);
  this_cpu_write(destination, id);
  cr4_set_bits(kCr4Uintr);
  return 0;
}

static int processor_off(unsigned int cpu) {
  cr4_clear_bits(kCr4Uintr);
  return 0;
}

// The processor reads table and descriptors while user code runs: they must be mapped then, which
// page table isolation prevents. Processors with user interrupts do not need that isolation.
static int __init start(void) {
  int status;
  if (!processor_has_uintr()) return -ENODEV;
  if (boot_cpu_has(X86_FEATURE_PTI)) return -EOPNOTSUPP;
  status = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "rubato/uintr:online", processor_on,
                             processor_off);
  if (status < 0) return status;
  hotplug_state = status;
  preempt_notifier_inc();
  status = misc_register(&device);
  if (status == 0) return 0;
  preempt_notifier_dec();
  cpuhp_remove_state(hotplug_state);
  return status;
}

// No file is open and no registered thread alive; the work that released the module last may still
// be finishing.
static void __exit end(void) {
  misc_deregister(&device);
  irq_work_sync(&g_wake_free_dead);
  flush_work(&g_free_dead);
  preempt_notifier_dec();
  cpuhp_remove_state(hotplug_state);
}

module_init(start);
module_exit(end);
MODULE_DESCRIPTION("User interrupts between threads of one process");
MODULE_LICENSE("GPL");
