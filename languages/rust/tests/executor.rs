// SPDX-License-Identifier: Apache-2.0
#![cfg(feature = "executor")]
use rubato::{
    checkpoint, Attributes, Cancellation, Ended, Executor, Group, Loop, LoopState, Options, Outcome,
};
use std::future::Future;
use std::os::unix::io::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn one_worker() -> Executor {
    Executor::new(&Options { workers: 1, ..Options::default() }).unwrap()
}

#[test]
fn a_value_comes_back() {
    let text = String::from("forty ");
    let handle = one_worker().spawn(&Attributes::default(), move || text + "two");
    assert_eq!(handle.join().unwrap(), "forty two");
}

#[test]
fn a_long_task_blocks_no_short_one() {
    let executor = one_worker();
    let ran = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&ran);
    let long = executor.spawn(&Attributes::default(), move || {
        while seen.load(Ordering::Relaxed) < 50 {
            // SAFETY: no guard, no thread-local.
            unsafe { checkpoint() }.unwrap();
        }
    });
    for _ in 0..50 {
        let ran = Arc::clone(&ran);
        let add = move || ran.fetch_add(1, Ordering::Relaxed);
        executor.spawn(&Attributes::default(), add).join().unwrap();
    }
    long.join().unwrap();
}

#[test]
fn files_of_the_tasks_are_written_when_asked_for() {
    let folder = std::env::temp_dir().join(format!("rubato-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| Some(folder.join(name));
    let options = Options {
        workers: 1,
        trace_file: file("trace"),
        record_file: file("record"),
        profile_file: file("profile"),
        ..Options::default()
    };
    let executor = Executor::new(&options).unwrap();
    for _ in 0..50 {
        executor.spawn(&Attributes::default(), || ()).join().unwrap();
    }
    executor.trace(false).unwrap();
    executor.record(false).unwrap();
    // It has what came until 0.25 s ago.
    let written = (0..1000).any(|_| {
        executor.write_profile().is_ok() || {
            std::thread::sleep(Duration::from_millis(50));
            false
        }
    });
    assert!(written);
    for path in [options.trace_file, options.record_file, options.profile_file] {
        assert!(std::fs::metadata(path.unwrap()).unwrap().len() > 0);
    }
    drop(executor);
    std::fs::remove_dir_all(folder).unwrap();
    let none = one_worker().record(true).unwrap_err();
    assert!(none.to_string().contains("record_file"));
}

#[test]
fn a_panic_is_an_error_with_its_payload() {
    let handle = one_worker().spawn(&Attributes::default(), || panic!("oh"));
    let error = handle.join().map(|()| ()).unwrap_err();
    assert_eq!(error.outcome, Outcome::Failed);
    assert_eq!(*error.panic.unwrap().downcast::<&str>().unwrap(), "oh");
}

#[test]
fn a_cancelled_task_is_told_and_one_that_waits_does_not_start() {
    let executor = one_worker();
    let cancellation = Cancellation::new();
    let attributes = Attributes { cancellation: Some(cancellation.clone()), ..Default::default() };
    let started = Arc::new(AtomicBool::new(false));
    let is_started = Arc::clone(&started);
    let running = executor.spawn(&attributes, move || loop {
        is_started.store(true, Ordering::Relaxed);
        // SAFETY: no guard, no thread-local.
        if unsafe { checkpoint() } == Err(Ended) {
            return "told";
        }
    });
    while !started.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    cancellation.cancel();
    let late = executor.spawn(&attributes, || "ran");
    assert_eq!(running.join().unwrap(), "told");
    assert_eq!(late.join().unwrap_err().outcome, Outcome::Cancelled);
}

#[test]
fn what_is_too_much_is_refused_and_its_closure_dropped() {
    let executor = Executor::new(&Options { workers: 1, max_tasks: 1, ..Options::default() }).unwrap();
    let goes_on = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&goes_on);
    let first = executor.spawn(&Attributes::default(), move || {
        while seen.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let held = Arc::new(());
    let also = Arc::clone(&held);
    let second = executor.spawn(&Attributes::default(), move || drop(also));
    assert_eq!(second.join().unwrap_err().outcome, Outcome::Refused);
    assert_eq!(Arc::strong_count(&held), 1);
    goes_on.store(false, Ordering::Relaxed);
    first.join().unwrap();
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_panic_of_a_drop_ends_nothing_else() {
    let executor = one_worker();
    let goes_on = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&goes_on);
    drop(executor.spawn(&Attributes::default(), move || {
        while !seen.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        PanicsWhenDropped
    }));
    goes_on.store(true, Ordering::Relaxed);
    executor.spawn(&Attributes::default(), || ()).join().unwrap();
    let cancellation = Cancellation::new();
    cancellation.cancel();
    let attributes = Attributes { cancellation: Some(cancellation), ..Default::default() };
    let bomb = PanicsWhenDropped;
    let cancelled = executor.spawn(&attributes, move || drop(bomb));
    assert_eq!(cancelled.join().unwrap_err().outcome, Outcome::Cancelled);
    executor.spawn(&Attributes::default(), || ()).join().unwrap();
}

// Each waits behind a task that waits for the caller, who then drops his reference.
fn drop_behind_a_task(last: impl FnOnce(&Executor, Arc<Executor>)) {
    let executor = Arc::new(one_worker());
    let goes_on = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&goes_on);
    let first = executor.spawn(&Attributes::default(), move || {
        while !seen.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    });
    last(&executor, Arc::clone(&executor));
    let behind = executor.spawn(&Attributes::default(), || "ran");
    drop(executor);
    goes_on.store(true, Ordering::Relaxed);
    first.join().unwrap();
    assert_eq!(behind.join().unwrap(), "ran");
}

#[test]
fn the_last_reference_may_go_in_a_task() {
    drop_behind_a_task(|executor, last| {
        executor.spawn(&Attributes::default(), move || {
            // SAFETY: no guard, no thread-local.
            let _ = unsafe { checkpoint() };
            drop(last);
        });
    });
}

#[test]
fn the_last_reference_may_go_with_a_task_that_does_not_start() {
    drop_behind_a_task(|executor, last| {
        let cancellation = Cancellation::new();
        let attributes =
            Attributes { cancellation: Some(cancellation.clone()), ..Default::default() };
        executor.spawn(&attributes, move || drop(last));
        cancellation.cancel();
    });
}

#[test]
fn the_last_reference_may_be_a_value_that_nobody_takes() {
    drop_behind_a_task(|executor, last| drop(executor.spawn(&Attributes::default(), || last)));
}

#[test]
fn a_bad_option_is_one_line() {
    let error = Executor::new(&Options { policy: "nothing".into(), ..Options::default() });
    assert!(error.err().unwrap().to_string().contains("nothing"));
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_handle_can_be_awaited() {
    let executor = one_worker();
    let attributes = Attributes { trace: 9, deadline: Duration::from_secs(60), ..Default::default() };
    for i in 0..200 {
        let handle = executor.spawn(&attributes, move || (i, rubato::task_trace()));
        assert_eq!(block_on(handle).unwrap(), (i, 9));
    }
}

#[test]
#[should_panic(expected = "an .await has taken the task's result already")]
fn a_result_that_was_awaited_is_not_joined() {
    let executor = one_worker();
    let mut handle = executor.spawn(&Attributes::default(), || 1);
    assert_eq!(block_on(&mut handle).unwrap(), 1);
    assert!(handle.is_ended());
    let _ = handle.join();
}

fn with_groups(groups: Vec<Group>) -> Result<Executor, rubato::CreateError> {
    Executor::new(&Options { workers: 1, groups, ..Options::default() })
}

#[test]
fn groups_have_bounds_and_figures_of_their_own() {
    let batch = Group { max_tasks: 1, ..Group::new("batch", 50) };
    let executor = with_groups(vec![Group::new("tenant", 300), batch]).unwrap();
    let goes_on = Arc::new(AtomicBool::new(true));
    let waits = Arc::clone(&goes_on);
    let in_group = |group| Attributes { group, ..Attributes::default() };
    let only = executor.spawn(&in_group(2), move || {
        while waits.load(Ordering::Relaxed) {
            // SAFETY: no guard, no thread-local.
            unsafe { checkpoint() }.unwrap();
        }
    });
    let refused = executor.spawn(&in_group(2), || ()).join().unwrap_err();
    assert_eq!(refused.outcome, Outcome::Refused);
    assert_eq!(executor.spawn(&in_group(3), || ()).join().unwrap_err().outcome, Outcome::Refused);
    for _ in 0..20 {
        executor.spawn(&in_group(1), || ()).join().unwrap();
    }
    assert_eq!(executor.group_stats(2).unfinished, 1);
    goes_on.store(false, Ordering::Relaxed);
    only.join().unwrap();
    executor.stop();
    while executor.unfinished() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(executor.group_stats(1).requests, 20);
    assert_eq!(executor.group_stats(2).requests, 1);
    assert!(executor.group_stats(2).service > Duration::ZERO);
    assert_eq!(executor.group_stats(0).requests, 0);
}

#[test]
fn a_weight_out_of_range_is_named() {
    let error = with_groups(vec![Group::new("batch", 0)]).err().unwrap().to_string();
    assert!(error.contains("batch") && error.contains("weight"), "{error}");
}

#[test]
fn a_loop_of_the_callers_runs_tasks() {
    let mut looped = Loop::new(&Options::default()).unwrap();
    let budget = Duration::from_micros(200);
    while looped.run(budget) != LoopState::Idle {}
    assert!(!readable(looped.as_raw_fd()));
    let goes_on = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&goes_on);
    let long = looped.spawn(&Attributes::default(), move || {
        while seen.load(Ordering::Relaxed) {
            // SAFETY: no guard, no thread-local.
            unsafe { checkpoint() }.unwrap();
        }
    });
    assert!(readable(looped.as_raw_fd()));
    assert_eq!(looped.run(budget), LoopState::More);
    let executor: &Executor = &looped;
    let short = std::thread::scope(|scope| {
        scope.spawn(|| executor.spawn(&Attributes::default(), || 42)).join().unwrap()
    });
    while !short.is_ended() {
        looped.run(budget);
    }
    assert_eq!(short.join().unwrap(), 42);
    assert!(!long.is_ended());
    goes_on.store(false, Ordering::Relaxed);
    drop(looped); // runs what is left
    long.join().unwrap();
}

fn readable(fd: RawFd) -> bool {
    let mut watched = PollFd { fd, events: 1, revents: 0 };
    // SAFETY: one entry, which poll writes to.
    unsafe { poll(&mut watched, 1, 0) == 1 }
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

extern "C" {
    fn poll(fds: *mut PollFd, count: std::os::raw::c_ulong, timeout_ms: i32) -> i32;
}
