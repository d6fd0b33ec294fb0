// SPDX-License-Identifier: Apache-2.0

// Package rubato submits tasks to a Rubato executor and awaits them. Tasks are native functions, which
// a short task may overtake; functions in Go run only with Options.ForeignRuntime, each from its start
// to its end on its worker, since Go's runtime does not let its stacks be switched.
//
// It takes librubato (Debian: librubato-dev of `make deb`). Elsewhere than in /usr, set CGO_CFLAGS to
// -I and CGO_LDFLAGS to -L and -Wl,-rpath. Package rubato/rpc needs neither.
package rubato

/*
#cgo LDFLAGS: -lrubato
#include <rubato/completions.h>
#include <stdlib.h>

int rubatoRunGo(void* handle);

static int submit_go(rubato_completions* to, rubato_executor* executor,
                     const rubato_task_attributes* attributes, uintptr_t handle, uint64_t id) {
  return rubato_completions_submit(to, executor, attributes, &rubatoRunGo, (void*)handle, id);
}
static int submit_native(rubato_completions* to, rubato_executor* executor,
                         const rubato_task_attributes* attributes, void* run, void* user,
                         uint64_t id) {
  return rubato_completions_submit(to, executor, attributes, (rubato_task_run)run, user, id);
}
*/
import "C"

import (
	"errors"
	"os"
	"runtime/cgo"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Options of an executor; zero values are the defaults.
type Options struct {
	Workers  uint32 // 0 = one for each CPU that the process may use
	Policy   string // "" = synergy
	MaxTasks uint32 // submitted and not done; 0 = 65536
	// ForeignRuntime: tasks may be functions in Go, and nothing is ever preempted.
	ForeignRuntime bool
}

// Attributes of a task; docs/EXECUTOR.md says what for.
type Attributes struct {
	Type     uint32
	Long     bool
	Priority uint32
	Control  bool
	Deadline time.Duration
	Expected time.Duration
	Trace    uint64
}

// How a task has ended.
type Outcome int

const (
	Finished  Outcome = C.RUBATO_TASK_FINISHED
	Failed    Outcome = C.RUBATO_TASK_FAILED // it returned anything but 0, or panicked
	Refused   Outcome = C.RUBATO_TASK_REFUSED
	Expired   Outcome = C.RUBATO_TASK_EXPIRED
	Cancelled Outcome = C.RUBATO_TASK_CANCELLED
)

// A Completion is what a task's channel yields, once.
type Completion struct {
	Outcome    Outcome
	RetryAfter time.Duration // after an overload: a retry before is useless; else 0
}

// An Executor has workers of its own. Its methods may be called by any goroutine.
type Executor struct {
	c       *C.rubato_executor
	ends    *C.rubato_completions
	file    *os.File
	foreign bool
	over    chan struct{}

	mutex   sync.Mutex
	waiting map[uint64]chan Completion // guarded by mutex
	last    uint64                     // guarded by mutex
}

// New starts the workers.
func New(options Options) (*Executor, error) {
	var scheduler C.rubato_options
	C.rubato_options_init(&scheduler, C.sizeof_rubato_options)
	scheduler.workers = C.uint32_t(options.Workers)
	if options.Policy != "" {
		scheduler.policy = C.CString(options.Policy)
		defer C.free(unsafe.Pointer(scheduler.policy))
	}
	if options.ForeignRuntime {
		scheduler.foreign_runtime = 1
	}
	// The library keeps none of this; C memory, as Go's may not point to Go's.
	c := (*C.rubato_executor_options)(C.malloc(C.sizeof_rubato_executor_options))
	defer C.free(unsafe.Pointer(c))
	held := (*C.rubato_options)(C.malloc(C.sizeof_rubato_options))
	defer C.free(unsafe.Pointer(held))
	*held = scheduler
	C.rubato_executor_options_init(c, C.sizeof_rubato_executor_options)
	c.scheduler = held
	if options.MaxTasks != 0 {
		c.max_tasks = C.uint32_t(options.MaxTasks)
	}
	var trouble C.rubato_error
	executor := C.rubato_executor_create(c, &trouble)
	if executor == nil {
		return nil, errors.New(C.GoString(&trouble.text[0]))
	}
	ends := C.rubato_completions_create()
	var fd int
	err := error(syscall.ENOMEM)
	if ends != nil {
		fd, err = syscall.Dup(int(C.rubato_completions_fd(ends)))
	}
	if err != nil {
		C.rubato_executor_destroy(executor)
		C.rubato_completions_destroy(ends)
		return nil, err
	}
	e := &Executor{c: executor, ends: ends, file: os.NewFile(uintptr(fd), "rubato"),
		foreign: options.ForeignRuntime, over: make(chan struct{}),
		waiting: make(map[uint64]chan Completion)}
	go e.await()
	return e, nil
}

// Submit runs run(user), both native: `int run(void*)` in C. It may switch at rubato_checkpoint.
func (e *Executor) Submit(attributes Attributes, run, user unsafe.Pointer) <-chan Completion {
	return e.submit(attributes, func(c *C.rubato_task_attributes, id C.uint64_t) bool {
		return C.submit_native(e.ends, e.c, c, run, user, id) == C.RUBATO_OK
	})
}

// Go runs a function in Go, which takes an executor with ForeignRuntime. A panic ends the task as
// Failed.
func (e *Executor) Go(attributes Attributes, function func()) <-chan Completion {
	if !e.foreign {
		panic("rubato: functions in Go take Options.ForeignRuntime")
	}
	handle := cgo.NewHandle(function)
	ended := e.submit(attributes, func(c *C.rubato_task_attributes, id C.uint64_t) bool {
		return C.submit_go(e.ends, e.c, c, C.uintptr_t(handle), id) == C.RUBATO_OK
	})
	freed := make(chan Completion, 1)
	go func() {
		completion := <-ended
		handle.Delete()
		freed <- completion
	}()
	return freed
}

// Close finishes the tasks, for as long as the drain limit, and frees the executor.
func (e *Executor) Close() {
	C.rubato_executor_destroy(e.c)
	for e.take() {
	}
	e.file.Close()
	<-e.over
	C.rubato_completions_destroy(e.ends)
}

func (e *Executor) submit(a Attributes,
	how func(*C.rubato_task_attributes, C.uint64_t) bool) <-chan Completion {
	var c C.rubato_task_attributes
	C.rubato_task_attributes_init(&c, C.sizeof_rubato_task_attributes)
	c._type = C.uint32_t(a.Type)
	c.is_long, c.is_control = flag(a.Long), flag(a.Control)
	c.priority = C.uint32_t(a.Priority)
	c.deadline_ns, c.expected_ns = C.int64_t(a.Deadline), C.int64_t(a.Expected)
	c.trace = C.uint64_t(a.Trace)
	ended := make(chan Completion, 1)
	e.mutex.Lock()
	e.last++
	id := e.last
	e.waiting[id] = ended
	e.mutex.Unlock()
	if !how(&c, C.uint64_t(id)) {
		e.tell(id, Completion{Outcome: Refused})
	}
	return ended
}

func flag(is bool) C.uint32_t {
	if is {
		return 1
	}
	return 0
}

func (e *Executor) tell(id uint64, completion Completion) {
	e.mutex.Lock()
	ended := e.waiting[id]
	delete(e.waiting, id)
	e.mutex.Unlock()
	ended <- completion
}

// take tells the ends that are there; false: there were none.
func (e *Executor) take() bool {
	var ends [64]C.rubato_completion
	count := int(C.rubato_completions_next(e.ends, &ends[0], C.size_t(len(ends))))
	for _, end := range ends[:count] {
		e.tell(uint64(end.id), Completion{Outcome(end.outcome), time.Duration(end.retry_after_ns)})
	}
	return count > 0
}

// await tells the ends of tasks until the file is closed; Go's poller watches the descriptor.
func (e *Executor) await() {
	defer close(e.over)
	raw, err := e.file.SyscallConn()
	if err != nil {
		panic(err) // a file that was just made has one
	}
	raw.Read(func(uintptr) bool {
		for e.take() {
		}
		return false
	})
}
