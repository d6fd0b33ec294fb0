// SPDX-License-Identifier: Apache-2.0

package rubato

import (
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rubato/internal/tasks"
)

func make1(t *testing.T, options Options) *Executor {
	t.Helper()
	executor, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(executor.Close)
	return executor
}

// Freed after the executor that uses it was closed, which its maker has to be made before.
func newCounter(t *testing.T) tasks.Counter {
	counter := tasks.NewCounter()
	t.Cleanup(counter.Free)
	return counter
}

func expect(t *testing.T, ended <-chan Completion, outcome Outcome) {
	t.Helper()
	if end := <-ended; end.Outcome != outcome {
		t.Fatalf("ended as %d, not as %d", end.Outcome, outcome)
	}
}

func TestShortNativeTasksOvertakeALongOne(t *testing.T) {
	counter := newCounter(t)
	executor := make1(t, Options{Workers: 1})
	long := executor.Submit(Attributes{}, tasks.UntilHundred(), counter.C())
	for i := 0; i < 100; i++ {
		expect(t, executor.Submit(Attributes{}, tasks.AddOne(), counter.C()), Finished)
	}
	expect(t, long, Finished)
	if counter.Load() != 100 {
		t.Fatal(counter.Load())
	}
}

func TestManyGoroutinesAwaitTasks(t *testing.T) {
	counter := newCounter(t)
	executor := make1(t, Options{})
	const goroutines, each = 50, 200
	over := make(chan bool)
	for g := 0; g < goroutines; g++ {
		go func() {
			ok := true
			for i := 0; i < each; i++ {
				end := <-executor.Submit(Attributes{Type: 1}, tasks.AddOne(), counter.C())
				ok = ok && end.Outcome == Finished
			}
			over <- ok
		}()
	}
	for g := 0; g < goroutines; g++ {
		if !<-over {
			t.Fatal("a task did not finish")
		}
	}
	if counter.Load() != goroutines*each {
		t.Fatal(counter.Load())
	}
}

func TestADeadlineEndsATask(t *testing.T) {
	counter := newCounter(t)
	executor := make1(t, Options{Workers: 1})
	ended := executor.Submit(Attributes{Deadline: 1}, tasks.UntilHundred(), counter.C())
	expect(t, ended, Expired)
}

func TestFilesOfTheTasksAreWrittenWhenAskedFor(t *testing.T) {
	counter := newCounter(t)
	folder := t.TempDir()
	options := Options{Workers: 1, TraceFile: folder + "/trace", RecordFile: folder + "/record",
		ProfileFile: folder + "/profile"}
	executor := make1(t, options)
	for i := 0; i < 50; i++ {
		expect(t, executor.Submit(Attributes{}, tasks.AddOne(), counter.C()), Finished)
	}
	for _, err := range []error{executor.Trace(false), executor.Record(false)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// It has what came until 0.25 s ago.
	err := executor.WriteProfile()
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
		err = executor.WriteProfile()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{options.TraceFile, options.RecordFile, options.ProfileFile} {
		if written, err := os.Stat(file); err != nil || written.Size() == 0 {
			t.Fatal(file, err)
		}
	}
	err = make1(t, Options{Workers: 1}).Record(true)
	if err == nil || !strings.Contains(err.Error(), "record_file") {
		t.Fatal(err)
	}
}

func TestWhatIsTooMuchIsRefused(t *testing.T) {
	counter := newCounter(t)
	executor := make1(t, Options{Workers: 1, MaxTasks: 1})
	long := executor.Submit(Attributes{}, tasks.UntilHundred(), counter.C())
	expect(t, executor.Submit(Attributes{}, tasks.AddOne(), counter.C()), Refused)
	counter.Store(100)
	expect(t, long, Finished)
}

func TestFunctionsInGoTakeAForeignRuntime(t *testing.T) {
	executor := make1(t, Options{Workers: 2, ForeignRuntime: true})
	var sum int64
	var ends []<-chan Completion
	for i := 0; i < 500; i++ {
		i := i
		ends = append(ends, executor.Go(Attributes{}, func() {
			text := strings.Repeat("x", i) // allocates, so that the collector has work
			atomic.AddInt64(&sum, int64(len(text)))
		}))
	}
	for _, ended := range ends {
		expect(t, ended, Finished)
	}
	if sum != 500*499/2 {
		t.Fatal(sum)
	}
	if end := <-executor.Go(Attributes{}, func() { panic("oh") }); end.Outcome != Failed ||
		end.Panic != "oh" {
		t.Fatal(end)
	}
	native := make1(t, Options{})
	defer func() {
		if recover() == nil {
			t.Fatal("a function in Go was taken where it may be switched")
		}
	}()
	native.Go(Attributes{}, func() {})
}

func TestCallsAfterCloseSaySo(t *testing.T) {
	counter := newCounter(t)
	executor := make1(t, Options{Workers: 1, ForeignRuntime: true})
	executor.Close()
	executor.Close()
	expect(t, executor.Submit(Attributes{}, tasks.AddOne(), counter.C()), Refused)
	expect(t, executor.Go(Attributes{}, func() { t.Error("ran") }), Refused)
	for _, err := range []error{executor.Trace(true), executor.Record(true),
		executor.WriteProfile()} {
		if err == nil || err.Error() != "the executor is closed" {
			t.Fatal(err)
		}
	}
	if executor.GroupStats(0) != (GroupStats{}) || executor.Unfinished() != 0 {
		t.Fatal("figures of an executor that is closed")
	}
}

func TestCloseBesideCalls(t *testing.T) {
	counter := newCounter(t)
	for i := 0; i < 50; i++ {
		executor := make1(t, Options{Workers: 1})
		begun, over := make(chan bool, 1), make(chan bool)
		go func() {
			for outcome := Finished; outcome == Finished; {
				outcome = (<-executor.Submit(Attributes{}, tasks.AddOne(), counter.C())).Outcome
				executor.GroupStats(0)
				select {
				case begun <- true:
				default:
				}
			}
			over <- true
		}()
		<-begun
		go executor.Close()
		executor.Close()
		<-over
	}
}

func TestCloseInATaskPanics(t *testing.T) {
	executor := make1(t, Options{Workers: 1, ForeignRuntime: true})
	other := make1(t, Options{Workers: 1})
	end := <-executor.Go(Attributes{}, executor.Close)
	if end.Outcome != Failed || end.Panic != "rubato: Close in a task of the executor" {
		t.Fatal(end)
	}
	expect(t, executor.Go(Attributes{}, other.Close), Finished)
}

func TestUnfinishedTasksAreCounted(t *testing.T) {
	counter := newCounter(t)
	executor := make1(t, Options{Workers: 1})
	long := executor.Submit(Attributes{}, tasks.UntilHundred(), counter.C())
	if left := executor.Unfinished(); left != 1 {
		t.Fatal(left)
	}
	counter.Store(100)
	expect(t, long, Finished)
	for executor.Unfinished() > 0 { // its worker is through with it shortly after
		runtime.Gosched()
	}
}

func TestABadOptionIsOneLine(t *testing.T) {
	if _, err := New(Options{Policy: "nothing"}); err == nil ||
		!strings.Contains(err.Error(), "nothing") {
		t.Fatal(err)
	}
	for option, options := range map[string]Options{"policy": {Policy: "fcfs\x00"},
		"trace_file": {TraceFile: "\x00"}, "groups": {Groups: []Group{{Name: "a\x00b"}}}} {
		if _, err := New(options); err == nil || !strings.HasPrefix(err.Error(), option+": ") {
			t.Fatal(option, err)
		}
	}
}

func TestGroupsHaveBoundsAndFiguresOfTheirOwn(t *testing.T) {
	counter := newCounter(t)
	executor := make1(t, Options{Workers: 1,
		Groups: []Group{{Name: "tenant", Weight: 300}, {Name: "batch", Weight: 50, MaxTasks: 1}}})
	only := executor.Submit(Attributes{Group: 2}, tasks.UntilHundred(), counter.C())
	expect(t, executor.Submit(Attributes{Group: 2}, tasks.AddOne(), counter.C()), Refused)
	expect(t, executor.Submit(Attributes{Group: 3}, tasks.AddOne(), counter.C()), Refused)
	if left := executor.GroupStats(2).Unfinished; left != 1 {
		t.Fatal(left)
	}
	for i := 0; i < 100; i++ {
		expect(t, executor.Submit(Attributes{Group: 1}, tasks.AddOne(), counter.C()), Finished)
	}
	expect(t, only, Finished)
	for executor.GroupStats(1).Unfinished+executor.GroupStats(2).Unfinished > 0 {
		runtime.Gosched()
	}
	if got := executor.GroupStats(1).Requests; got != 100 {
		t.Fatal(got)
	}
	if got := executor.GroupStats(2); got.Requests != 1 || got.Service == 0 {
		t.Fatal(got)
	}
}

func TestAWeightOutOfRangeIsNamed(t *testing.T) {
	_, err := New(Options{Groups: []Group{{Name: "batch", Weight: 10001}}})
	if err == nil || !strings.Contains(err.Error(), "batch") {
		t.Fatal(err)
	}
}

func TestALoopOfTheCallersRunsTasks(t *testing.T) {
	counter := newCounter(t)
	loop, err := NewLoop(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	for loop.Run(time.Millisecond) != LoopIdle {
	}
	long := loop.Submit(Attributes{}, tasks.UntilHundred(), counter.C())
	if state := loop.Run(time.Millisecond); state != LoopMore {
		t.Fatal("the long task does not give the loop back: ", state)
	}
	short := make(chan bool)
	go func() {
		all := true
		for i := 0; i < 100; i++ {
			end := <-loop.Submit(Attributes{}, tasks.AddOne(), counter.C())
			all = all && end.Outcome == Finished
		}
		short <- all
	}()
	for counter.Load() < 100 {
		if err := loop.Wait(); err != nil {
			t.Fatal(err)
		}
		loop.Run(200 * time.Microsecond)
	}
	for loop.Run(time.Millisecond) == LoopMore {
	}
	if !<-short {
		t.Fatal("a short task did not finish")
	}
	expect(t, long, Finished)
}

func TestALoopFinishesItsTasksAsItIsClosed(t *testing.T) {
	counter := newCounter(t)
	loop, err := NewLoop(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := loop.Submit(Attributes{}, tasks.AddOne(), counter.C())
	loop.Close()
	expect(t, ended, Finished)
	loop.Close()
	if loop.Run(time.Millisecond) != LoopStopped || loop.Fd() != -1 || loop.Wait() == nil {
		t.Fatal("a loop runs after it was closed")
	}
}

func TestALoopRunsNoFunctionsInGo(t *testing.T) {
	if _, err := NewLoop(Options{ForeignRuntime: true}); err == nil {
		t.Fatal("a loop with a foreign runtime")
	}
}
