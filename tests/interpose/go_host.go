// SPDX-License-Identifier: Apache-2.0

// A server whose handler is Go, through cgo: go_host MECHANISM. Prints its port. A line is answered
// with a checksum of work that takes milliseconds, and the thread that did it, twice. Goroutines
// that call nothing run beside it, which Go must interrupt to collect garbage.
package main

/*
#include <rubato/rubato.h>
#include <stdlib.h>

int goHandle(void* user, rubato_request* request);

static rubato_server* make_server(uint32_t preempt, rubato_error* error) {
  static const char* const settings[] = {"fixed_quantum=200us"};
  rubato_options options;
  rubato_options_init(&options, sizeof options);
  options.workers = 2;
  options.preempt = preempt;
  options.foreign_runtime = 1;
  options.set = settings;
  options.set_count = 1;
  rubato_application application;
  rubato_application_init(&application, sizeof application);
  application.framing = RUBATO_FRAMING_LINES;
  application.handle = goHandle;
  return rubato_server_create(&options, &application, error);
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

var mechanisms = map[string]C.uint32_t{
	"signal": C.RUBATO_PREEMPT_SIGNAL,
	"timer":  C.RUBATO_PREEMPT_TIMER,
}

var handled atomic.Uint64

func checksum(number int) int {
	total := 0
	for i := 0; i < number; i++ {
		total = (total*31 + i) % 1_000_003
	}
	return total
}

// deep grows the goroutine's stack, which Go moves.
func deep(depth int, number int) int {
	var room [512]byte
	room[depth%len(room)] = byte(depth)
	if depth == 0 {
		return checksum(number)
	}
	return deep(depth-1, number) + int(room[depth%len(room)]) - depth%256
}

// fault dereferences what it is given; Go makes a panic of SIGSEGV.
func fault(p *int) (failed bool) {
	defer func() { failed = recover() != nil }()
	return *p == 0
}

//export goHandle
func goHandle(user unsafe.Pointer, request *C.rubato_request) C.int {
	var size C.size_t
	payload := C.rubato_request_payload(request, &size)
	number, problem := strconv.Atoi(C.GoStringN(payload, C.int(size)))
	if problem != nil {
		return -1
	}
	thread := syscall.Gettid()
	total := deep(100, number)
	if handled.Add(1)%8 == 0 {
		runtime.GC()
	}
	if !fault(nil) || syscall.Gettid() != thread {
		return -1
	}
	reply := fmt.Appendf(nil, "%d %d %d", total, thread, thread)
	return C.rubato_request_reply(request, unsafe.Pointer(&reply[0]), C.size_t(len(reply)))
}

func main() {
	mechanism, known := mechanisms[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "go_host signal|timer")
		os.Exit(2)
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM)
	failed := new(C.rubato_error)
	server := C.make_server(mechanism, failed)
	if server == nil {
		fmt.Fprintln(os.Stderr, C.GoString(&failed.text[0]))
		os.Exit(1)
	}
	var sum atomic.Int64
	for i := 0; i < 2; i++ {
		go func() {
			for {
				sum.Add(int64(checksum(10_000_000)))
			}
		}()
	}
	go func() {
		<-stopped
		C.rubato_server_stop(server)
	}()
	fmt.Println(C.rubato_server_port(server))
	os.Exit(int(C.rubato_server_run(server, failed)))
}
