// SPDX-License-Identifier: Apache-2.0

package rubato

/*
#include <poll.h>
#include <rubato/executor.h>

static int readable(int fd) {
  struct pollfd watched = {fd, POLLIN, 0};
  return poll(&watched, 1, 0) > 0;
}
*/
import "C"

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
)

// LoopState is why Loop.Run has returned.
type LoopState int

const (
	LoopIdle    LoopState = C.RUBATO_LOOP_IDLE    // nothing is to be done before the descriptor is readable
	LoopMore    LoopState = C.RUBATO_LOOP_MORE    // its time is over
	LoopStopped LoopState = C.RUBATO_LOOP_STOPPED // for good
)

// A Loop is an executor without threads: native tasks run in Run, on the thread of the goroutine that
// has made it. A long task gives that back at the end of its slice. Run, Wait and Close are for that
// goroutine, the other methods for any.
type Loop struct {
	*Executor
	ready *os.File
}

// NewLoop locks the calling goroutine to its thread (runtime.LockOSThread), until Close. It has one
// worker, and none of the tasks may be a function in Go.
func NewLoop(options Options) (*Loop, error) {
	if options.ForeignRuntime {
		return nil, errors.New("foreign runtime: a loop runs native tasks only")
	}
	if options.Workers > 1 {
		return nil, errors.New("workers: a loop has 1")
	}
	runtime.LockOSThread()
	executor, err := create(options, true)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	l := &Loop{Executor: executor}
	fd, err := syscall.Dup(l.Fd())
	if err == nil {
		err = syscall.SetNonblock(fd, true) // or os.NewFile takes it for one that cannot be polled
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	l.ready = os.NewFile(uintptr(fd), "rubato loop")
	return l, nil
}

// Fd is readable when there is something to run; not to be read or closed. After Close: -1.
func (l *Loop) Fd() int {
	fd := -1
	l.call(func() { fd = int(C.rubato_executor_fd(l.c)) })
	return fd
}

// Run runs tasks for about the budget, and never blocks. After Close: LoopStopped.
func (l *Loop) Run(budget time.Duration) LoopState {
	// Not in a call, which a task might wait for; Close is this goroutine's.
	if l.c == nil {
		return LoopStopped
	}
	return LoopState(C.rubato_executor_run(l.c, C.int64_t(budget)))
}

// Wait blocks the goroutine until there is something to run; Go's poller watches the descriptor.
func (l *Loop) Wait() error {
	raw, err := l.ready.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return C.readable(C.int(fd)) != 0 })
}

// Close finishes the tasks, which run meanwhile, frees the executor and unlocks the goroutine. Called
// again, it does nothing.
func (l *Loop) Close() {
	if !l.close() {
		return
	}
	if l.ready != nil {
		l.ready.Close()
	}
	runtime.UnlockOSThread()
}
