// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// rubato_ipi: interrupts a thread of one's own process, wherever it runs, and sends it to a handler
// in user mode (Synergy 5.2.3, kmod_ipi). kmod_abi.h describes the device.
//
// The work is the kernel's own: task_work with TWA_RESUME sends a reschedule IPI to the CPU that
// the thread runs on, by that CPU's number, if it runs in user mode, and calls this module in the
// thread's own context before the thread goes back there. A thread that sleeps, waits for a CPU or
// is in the kernel runs the task work on its way out. So no interrupt is lost, and accesses to user
// memory may fault.
//
// Permission: a file serves the process that opened it, that is its thread group and its memory.
// Another process that got the file by fork, exec or a socket is refused, and handles are looked up
// in the file only, so no process can even name a thread of another one.
//
// Ownership: the file owns a context; the context owns its targets, by handle; an interrupt that is
// on its way holds its target, and the target holds the context and the module. So the module
// leaves memory only after the last file is closed and the last interrupt has arrived.
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include <uapi/linux/rseq.h>

#include "mechanism/preempt/kmod_abi.h"

#include "../device_owner.h"

struct Context {
  struct kref refs;
  struct DeviceOwner owner;
  struct xarray targets;  // handle -> target
  struct mutex change;    // held while targets come and go
  u32 count;
  u32 last;
};

struct Target {
  struct kref refs;
  struct rcu_head rcu;
  struct Context *context;
  struct task_struct *task;
  unsigned long handler;
  u64 cookie;
  bool gone;         // no interrupt shall arrive any more
  atomic_t pending;  // `work` is queued at the thread
  struct callback_head work;
};

static void context_free(struct kref *refs) {
  struct Context *context = container_of(refs, struct Context, refs);
  xa_destroy(&context->targets);
  owner_put(&context->owner);
  kfree(context);
}

// The last holder may be an interrupt that has just arrived; see the end of the module.
static void target_free(struct kref *refs) {
  struct Target *target = container_of(refs, struct Target, refs);
  kref_put(&target->context->refs, context_free);
  put_task_struct(target->task);
  kfree_rcu(target, rcu);
  module_put(THIS_MODULE);
}

static void target_put(struct Target *target) { kref_put(&target->refs, target_free); }

// A system call that a signal was to interrupt asks to be called again, and the return to user mode
// decides. This code runs after that decision, and no signal was delivered: it repeats the call,
// and keeps the kernel from mistaking the handler for the system call later.
static void finish_system_call(struct pt_regs *regs) {
  if ((int)regs->orig_ax >= 0) {
    switch ((long)regs->ax) {
      case -ERESTARTNOHAND:
      case -ERESTARTSYS:
      case -ERESTARTNOINTR:
        regs->ax = regs->orig_ax;
        regs->ip -= 2;
        break;
      case -ERESTART_RESTARTBLOCK:
        regs->ax = -EINTR;
        break;
    }
  }
  regs->orig_ax = -1;
}

// In a restartable sequence (rseq) the thread must go on at its abort handler, as after a signal:
// the kernel will find the thread in our handler and cannot tell.
static bool leave_restartable_sequence(struct pt_regs *regs) {
  struct rseq_cs section;
  u64 address;
  u32 signature;
  if (current->rseq == NULL) return true;
  if (get_user(address, (u64 __user *)&current->rseq->rseq_cs)) return false;
  if (address == 0) return true;
  if (copy_from_user(&section, (void __user *)(unsigned long)address, sizeof(section))) {
    return false;
  }
  if (regs->ip - section.start_ip < section.post_commit_offset) {
    const void __user *before = (const void __user *)(unsigned long)(section.abort_ip - 4);
    if (section.abort_ip >= TASK_SIZE_MAX) return false;
    if (copy_from_user(&signature, before, sizeof(signature))) return false;
    if (signature != current->rseq_sig) return false;
    regs->ip = section.abort_ip;
  }
  return put_user(0ull, (u64 __user *)&current->rseq->rseq_cs) == 0;
}

// The frame that the handler finds on the stack.
struct Frame {
  u64 cookie;
  u64 instruction;
};

static bool enter_handler(const struct Target *target, struct pt_regs *regs) {
  struct Frame frame;
  const unsigned long place = regs->sp - RUBATO_IPI_RED_ZONE_BYTES - sizeof(frame);
  finish_system_call(regs);
  if (!leave_restartable_sequence(regs)) return false;
  frame.cookie = target->cookie;
  frame.instruction = regs->ip;
  if (copy_to_user((void __user *)place, &frame, sizeof(frame))) return false;
  regs->sp = place;
  regs->ip = target->handler;
  return true;
}

// Runs in the thread's own context, on its way to user mode or to its end.
static void arrive(struct callback_head *work) {
  struct Target *target = container_of(work, struct Target, work);
  struct pt_regs *regs = task_pt_regs(current);
  // A send from here on is a new interrupt: pairs with the exchange in send_to.
  atomic_set_release(&target->pending, 0);
  // After exec the memory is another program's. Code in 32-bit segments has no such frame.
  if (!(current->flags & PF_EXITING) && !READ_ONCE(target->gone) &&
      owner_is_current(&target->context->owner) &&
      user_64bit_mode(regs) && !enter_handler(target, regs)) {
    force_sig(SIGSEGV);  // as for a signal without room on the stack
  }
  target_put(target);
}

static struct Target *target_get(struct Context *context, unsigned long handle) {
  struct Target *target;
  rcu_read_lock();
  target = xa_load(&context->targets, handle);
  if (target != NULL && !kref_get_unless_zero(&target->refs)) target = NULL;
  rcu_read_unlock();
  return target;
}

static long send_to(struct Context *context, unsigned long handle) {
  struct Target *target = target_get(context, handle);
  if (target == NULL) return -ESRCH;
  if (READ_ONCE(target->task->flags) & PF_EXITING) {
    target_put(target);
    return -ESRCH;
  }
  if (atomic_xchg(&target->pending, 1) != 0) {
    target_put(target);
    return 0;  // merged with an interrupt that has not arrived
  }
  if (task_work_add(target->task, &target->work, TWA_RESUME) != 0) {
    atomic_set(&target->pending, 0);
    target_put(target);
    return -ESRCH;
  }
  return 0;  // arrive() puts the target
}

static long register_here(struct Context *context, const void __user *argument) {
  struct rubato_ipi_target asked;
  struct Target *target;
  u32 handle = 0;
  int status;
  if (copy_from_user(&asked, argument, sizeof(asked))) return -EFAULT;
  if (asked.handler == 0 || asked.handler >= TASK_SIZE_MAX) return -EINVAL;
  target = kzalloc(sizeof(*target), GFP_KERNEL_ACCOUNT);
  if (target == NULL) return -ENOMEM;
  kref_init(&target->refs);
  target->context = context;
  target->task = current;
  target->handler = asked.handler;
  target->cookie = asked.cookie;
  init_task_work(&target->work, arrive);
  mutex_lock(&context->change);
  status = context->count < RUBATO_IPI_TARGETS_MAX
               ? xa_alloc_cyclic(&context->targets, &handle, target, XA_LIMIT(1, INT_MAX),
                                 &context->last, GFP_KERNEL_ACCOUNT)
               : -ENOSPC;
  if (status >= 0) {
    ++context->count;
    kref_get(&context->refs);
    get_task_struct(current);
    __module_get(THIS_MODULE);
  }
  mutex_unlock(&context->change);
  if (status >= 0) return handle;
  kfree(target);
  return status;
}

// Requires `change`.
static void retire(struct Context *context, unsigned long handle, struct Target *target) {
  xa_erase(&context->targets, handle);
  --context->count;
  WRITE_ONCE(target->gone, true);
  target_put(target);
}

static long unregister(struct Context *context, unsigned long handle) {
  struct Target *target;
  mutex_lock(&context->change);
  target = xa_load(&context->targets, handle);
  if (target != NULL) retire(context, handle, target);
  mutex_unlock(&context->change);
  return target != NULL ? 0 : -ESRCH;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument) {
  struct Context *context = file->private_data;
  if (!owner_is_current(&context->owner)) return -EPERM;
  switch (command) {
    case RUBATO_IPI_SEND:
      return send_to(context, argument);
    case RUBATO_IPI_REGISTER:
      return register_here(context, (const void __user *)argument);
    case RUBATO_IPI_UNREGISTER:
      return unregister(context, argument);
    case RUBATO_IPI_VERSION:
      return RUBATO_IPI_ABI_VERSION;
    default:
      return -ENOTTY;
  }
}

static int device_open(struct inode *inode, struct file *file) {
  struct Context *context;
  if (current->mm == NULL) return -EINVAL;
  context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);
  if (context == NULL) return -ENOMEM;
  kref_init(&context->refs);
  xa_init_flags(&context->targets, XA_FLAGS_ALLOC1);
  mutex_init(&context->change);
  owner_hold_current(&context->owner);
  file->private_data = context;
  return 0;
}

// Called when the last descriptor is closed, or the process has ended.
static int device_release(struct inode *inode, struct file *file) {
  struct Context *context = file->private_data;
  struct Target *target;
  unsigned long handle;
  mutex_lock(&context->change);
  xa_for_each(&context->targets, handle, target) retire(context, handle, target);
  mutex_unlock(&context->change);
  kref_put(&context->refs, context_free);
  return 0;
}

// Every user may open it: a process interrupts its own threads only.
RUBATO_DEVICE("rubato_ipi", 0666);

static int __init start(void) { return misc_register(&device); }

// The interrupt that released the module last may still be running its last instructions.
static void __exit end(void) {
  misc_deregister(&device);
  synchronize_rcu_tasks();
}

module_init(start);
module_exit(end);
MODULE_DESCRIPTION("Interrupts to a handler in user mode, between threads of one process");
MODULE_LICENSE("GPL");
