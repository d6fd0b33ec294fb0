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

int rubatoRunGo(uintptr_t handle);

// A task in Go; it never leaves its thread.
typedef struct go_task {
  uintptr_t handle;
  rubato_executor* executor;
} go_task;
static _Thread_local rubato_executor* runs_task_of;

static int run_go(void* given) {
  const go_task* task = (const go_task*)given;
  runs_task_of = task->executor;
  const int status = rubatoRunGo(task->handle);
  runs_task_of = NULL;
  return status;
}
static int in_task_of(const rubato_executor* executor) { return runs_task_of == executor; }
static int submit_go(rubato_completions* to, rubato_executor* executor,
                     const rubato_task_attributes* attributes, go_task* task, uint64_t id) {
  task->executor = executor;
  return rubato_completions_submit(to, executor, attributes, &run_go, task, id);
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
	"strings"
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
	// Groups share the workers by weight and have bounds of their own; at most 14. MaxTasks bounds
	// the tasks in none of them.
	Groups []Group
	Weight uint32 // of the tasks in no group: 1 to 10000; 0 = 100
	// Files of the tasks: a trace for Perfetto, every task and a profile for rubato sim; "" = none.
	TraceFile, RecordFile, ProfileFile string
}

// A Group of tasks; docs/EXECUTOR.md says what a weight means.
type Group struct {
	Name     string // in the metrics
	Weight   uint32 // 1 to 10000; 0 = 100
	MaxTasks uint32 // submitted and not done; 0 = as many as the executor's queues hold
}

// GroupStats is what a group has had since the start.
type GroupStats struct {
	Requests   uint64        // finished
	Refused    uint64        // for overload, or because a queue was full, after they were submitted
	Unfinished uint64        // submitted and not done, now
	Service    time.Duration // on workers, of those that finished, in all
	Waited     time.Duration // from submission to the first slice, in all
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
	Group    uint32 // 1 and up, in the order of Options.Groups; 0 = none is given; one beyond is refused
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
	Panic      any           // what a function in Go panicked with; else nil
}

// An Executor has workers of its own. Its methods may be called by any goroutine, beside and after
// Close too: then tasks are Refused, figures are 0 and what returns an error returns one.
type Executor struct {
	ends    *C.rubato_completions
	file    *os.File
	foreign bool
	over    chan struct{}
	once    sync.Once

	calls  sync.RWMutex // held by the calls that Close waits for
	c      *C.rubato_executor
	closed bool

	mutex   sync.Mutex
	waiting map[uint64]chan Completion // guarded by mutex
	last    uint64                     // guarded by mutex
}

// New starts the workers.
func New(options Options) (*Executor, error) { return create(options, false) }

func create(options Options, inLoop bool) (*Executor, error) {
	var scheduler C.rubato_options
	C.rubato_options_init(&scheduler, C.sizeof_rubato_options)
	scheduler.workers = C.uint32_t(options.Workers)
	for _, text := range []struct {
		name, value string
		to          **C.char
	}{
		{"policy", options.Policy, &scheduler.policy},
		{"trace_file", options.TraceFile, &scheduler.trace_file},
		{"record_file", options.RecordFile, &scheduler.record_file},
		{"profile_file", options.ProfileFile, &scheduler.profile_file},
	} {
		if err := fitsC(text.name, text.value); err != nil {
			return nil, err
		}
		if text.value != "" {
			*text.to = C.CString(text.value)
			defer C.free(unsafe.Pointer(*text.to))
		}
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
	c.scheduler, c.in_loop = held, flag(inLoop)
	if options.MaxTasks != 0 {
		c.max_tasks = C.uint32_t(options.MaxTasks)
	}
	for _, group := range options.Groups {
		if err := fitsC("groups", group.Name); err != nil {
			return nil, err
		}
	}
	groups := groupsInC(options.Groups)
	defer C.free(unsafe.Pointer(groups))
	c.groups, c.groups_count = groups, C.size_t(len(options.Groups))
	if options.Weight != 0 {
		c.weight = C.uint32_t(options.Weight)
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

// fitsC returns an error for a text that C would cut at a null character.
func fitsC(name, text string) error {
	if strings.IndexByte(text, 0) >= 0 {
		return errors.New(name + ": takes a text without null characters")
	}
	return nil
}

// groupsInC makes an array, with the names behind it.
func groupsInC(groups []Group) *C.rubato_group {
	size := len(groups) * C.sizeof_rubato_group
	names := size
	for _, group := range groups {
		size += len(group.Name) + 1
	}
	memory := C.calloc(1, C.size_t(size+1))
	bytes := unsafe.Slice((*byte)(memory), size+1)
	made := unsafe.Slice((*C.rubato_group)(memory), len(groups))
	for i, group := range groups {
		name := (*C.char)(unsafe.Pointer(&bytes[names]))
		names += copy(bytes[names:], group.Name) + 1
		if group.Weight == 0 {
			group.Weight = 100
		}
		made[i] = C.rubato_group{struct_size: C.sizeof_rubato_group, name: name,
			weight: C.uint32_t(group.Weight), max_tasks: C.uint32_t(group.MaxTasks)}
	}
	return (*C.rubato_group)(memory)
}

// GroupStats has the figures of a group by its number; 0 = of the tasks in none. All zero for a
// number beyond.
func (e *Executor) GroupStats(group uint32) GroupStats {
	var stats C.rubato_group_stats
	e.call(func() {
		C.rubato_executor_group_stats(e.c, C.uint32_t(group), &stats, C.sizeof_rubato_group_stats)
	})
	return GroupStats{uint64(stats.requests), uint64(stats.refused), uint64(stats.unfinished),
		time.Duration(stats.service_ns), time.Duration(stats.waited_ns)}
}

// Unfinished has how many tasks were submitted and are not done.
func (e *Executor) Unfinished() (tasks uint64) {
	e.call(func() { tasks = uint64(C.rubato_executor_unfinished(e.c)) })
	return tasks
}

// Trace begins or ends a trace in Options.TraceFile. It returns an error where the file cannot be
// written, or there is none.
func (e *Executor) Trace(wanted bool) error {
	return e.ask(func(trouble *C.rubato_error) C.int {
		return C.rubato_executor_trace(e.c, C.int(flag(wanted)), trouble)
	})
}

// Record does the same with a recording of the tasks in Options.RecordFile.
func (e *Executor) Record(wanted bool) error {
	return e.ask(func(trouble *C.rubato_error) C.int {
		return C.rubato_executor_record(e.c, C.int(flag(wanted)), trouble)
	})
}

// WriteProfile writes Options.ProfileFile as it is now; else it is written every 10 s.
func (e *Executor) WriteProfile() error {
	return e.ask(func(trouble *C.rubato_error) C.int {
		return C.rubato_executor_write_profile(e.c, trouble)
	})
}

func (e *Executor) ask(how func(*C.rubato_error) C.int) (err error) {
	open := e.call(func() {
		var trouble C.rubato_error
		if how(&trouble) != C.RUBATO_OK {
			err = errors.New(C.GoString(&trouble.text[0]))
		}
	})
	if !open {
		return errClosed
	}
	return err
}

var errClosed = errors.New("the executor is closed")

// call is false, and calls nothing, once the executor is being closed.
func (e *Executor) call(how func()) bool {
	e.calls.RLock()
	defer e.calls.RUnlock()
	if e.closed {
		return false
	}
	how()
	return true
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
	task := &goTask{function: function}
	handle := cgo.NewHandle(task)
	held := (*C.go_task)(C.malloc(C.sizeof_go_task))
	held.handle = C.uintptr_t(handle)
	ended := e.submit(attributes, func(c *C.rubato_task_attributes, id C.uint64_t) bool {
		return C.submit_go(e.ends, e.c, c, held, id) == C.RUBATO_OK
	})
	freed := make(chan Completion, 1)
	go func() {
		completion := <-ended
		handle.Delete()
		C.free(unsafe.Pointer(held))
		completion.Panic = task.panicked
		freed <- completion
	}()
	return freed
}

// Close finishes the tasks, for as long as the drain limit, and frees the executor. Called again, it
// does nothing but wait for that. In a task of this executor in Go it panics, as it would wait for
// ever; a native task must not cause it either.
func (e *Executor) Close() { e.close() }

// close is true for the call that did it.
func (e *Executor) close() (did bool) {
	e.calls.RLock()
	inTask := e.c != nil && C.in_task_of(e.c) != 0
	e.calls.RUnlock()
	if inTask {
		panic("rubato: Close in a task of the executor")
	}
	e.once.Do(func() {
		did = true
		e.calls.Lock()
		e.closed = true
		e.calls.Unlock()
		C.rubato_executor_destroy(e.c)
		e.calls.Lock()
		e.c = nil
		e.calls.Unlock()
		for e.take() {
		}
		e.file.Close()
		<-e.over
		C.rubato_completions_destroy(e.ends)
	})
	return did
}

func (e *Executor) submit(a Attributes,
	how func(*C.rubato_task_attributes, C.uint64_t) bool) <-chan Completion {
	var c C.rubato_task_attributes
	C.rubato_task_attributes_init(&c, C.sizeof_rubato_task_attributes)
	c._type = C.uint32_t(a.Type)
	c.is_long, c.is_control = flag(a.Long), flag(a.Control)
	c.priority = C.uint32_t(a.Priority)
	c.deadline_ns, c.expected_ns = C.int64_t(a.Deadline), C.int64_t(a.Expected)
	c.trace, c.group = C.uint64_t(a.Trace), C.uint32_t(a.Group)
	ended := make(chan Completion, 1)
	e.mutex.Lock()
	e.last++
	id := e.last
	e.waiting[id] = ended
	e.mutex.Unlock()
	taken := false
	e.call(func() { taken = how(&c, C.uint64_t(id)) })
	if !taken {
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
		e.tell(uint64(end.id), Completion{
			Outcome: Outcome(end.outcome), RetryAfter: time.Duration(end.retry_after_ns)})
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
