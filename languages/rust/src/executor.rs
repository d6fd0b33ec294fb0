// SPDX-License-Identifier: Apache-2.0
//! The executor: closures in, handles out. The calls into the library are C.
use crate::ffi;
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::{c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsRawFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What an executor is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads; 0 = one for each CPU that the process may use.
    pub workers: u32,
    /// A scheduling policy, see `rubato policies`.
    pub policy: String,
    /// Tasks that were submitted and are not done, at most: 1 to 16777216.
    pub max_tasks: u32,
    /// Share the workers by weight, and have bounds of their own; at most 14. `max_tasks` bounds
    /// the tasks in none of them.
    pub groups: Vec<Group>,
    /// Of the tasks in no group: 1 to 10000.
    pub weight: u32,
    /// Of a trace of the tasks, for Perfetto.
    pub trace_file: Option<PathBuf>,
    /// Of every task, for `rubato sim`.
    pub record_file: Option<PathBuf>,
    /// Of a profile of the tasks, for `rubato sim`.
    pub profile_file: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: 0,
            policy: "synergy".into(),
            max_tasks: 65536,
            groups: Vec::new(),
            weight: 100,
            trace_file: None,
            record_file: None,
            profile_file: None,
        }
    }
}

/// Tasks with a share of the workers; docs/EXECUTOR.md says what that means.
#[derive(Clone, Debug)]
pub struct Group {
    /// In the metrics.
    pub name: String,
    /// 1 to 10000.
    pub weight: u32,
    /// Of the group, submitted and not done; 0 = as many as the executor's queues hold.
    pub max_tasks: u32,
}

impl Group {
    /// A group with that weight and the largest bound.
    pub fn new(name: &str, weight: u32) -> Self {
        Group { name: name.into(), weight, max_tasks: 0 }
    }
}

/// What a group has had since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Tasks that have finished.
    pub requests: u64,
    /// Tasks refused for overload, or because a queue was full, after they were submitted.
    pub refused: u64,
    /// Tasks that were submitted and are not done, now.
    pub unfinished: u64,
    /// Time on workers of those that finished, in all.
    pub service: Duration,
    /// Their time from submission to the first slice, in all.
    pub waited: Duration,
}

/// Why there is no executor: one line.
#[derive(Debug)]
pub struct CreateError(String);

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CreateError {}

/// How a task has ended that has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its closure panicked.
    Failed,
    /// Not started: too many tasks, too long a wait, or a stop.
    Refused,
    /// Its deadline passed: not started, or told to end.
    Expired,
    /// By its [`Cancellation`], or by a stop that gave it up.
    Cancelled,
}

/// A task without a value.
pub struct TaskError {
    pub outcome: Outcome,
    /// After an overload, the time before which a retry is useless; else zero.
    pub retry_after: Duration,
    /// What the closure panicked with.
    pub panic: Option<Box<dyn Any + Send>>,
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskError({:?}, retry after {:?})", self.outcome, self.retry_after)
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.outcome {
            Outcome::Failed => "the task panicked",
            Outcome::Refused => "the executor refused the task",
            Outcome::Expired => "the task's deadline has passed",
            Outcome::Cancelled => "the task was cancelled",
        })
    }
}

impl std::error::Error for TaskError {}

/// Ends tasks whose results are not wanted any more; clones are the same one.
#[derive(Clone)]
pub struct Cancellation(Arc<CancellationInner>);

struct CancellationInner(*mut c_void);

// SAFETY: the library allows every call with a cancellation on any thread.
unsafe impl Send for CancellationInner {}
unsafe impl Sync for CancellationInner {}

impl Drop for CancellationInner {
    fn drop(&mut self) {
        // SAFETY: this is the maker's share, given back once.
        unsafe { ffi::rubato_cancellation_release(self.0) }
    }
}

impl Default for Cancellation {
    fn default() -> Self {
        Cancellation::new()
    }
}

impl Cancellation {
    pub fn new() -> Self {
        // SAFETY: no arguments.
        let made = unsafe { ffi::rubato_cancellation_create() };
        assert!(!made.is_null(), "out of memory");
        Cancellation(Arc::new(CancellationInner(made)))
    }

    /// Tasks that have not started do not start; the others are told by their next [`checkpoint`].
    pub fn cancel(&self) {
        // SAFETY: the share is held.
        unsafe { ffi::rubato_cancellation_cancel(self.0 .0) }
    }
}

/// What a task carries; docs/EXECUTOR.md says what for.
#[derive(Clone, Default)]
pub struct Attributes {
    /// 0 to 255, chosen by the program; statistics are kept per type.
    pub kind: u32,
    pub is_long: bool,
    pub priority: u32,
    pub is_control: bool,
    /// From now; none = zero.
    pub deadline: Duration,
    pub expected: Duration,
    pub trace: u64,
    pub cancellation: Option<Cancellation>,
    pub detached: bool,
    /// 1 and up, in the order of [`Options::groups`]; 0 = none is given. One beyond is refused.
    pub group: u32,
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Attributes {
    fn to_c(&self) -> ffi::TaskAttributes {
        ffi::TaskAttributes {
            struct_size: std::mem::size_of::<ffi::TaskAttributes>(),
            kind: self.kind,
            is_long: self.is_long.into(),
            priority: self.priority,
            is_control: self.is_control.into(),
            deadline_ns: nanos(self.deadline),
            expected_ns: nanos(self.expected),
            trace: self.trace,
            cancellation: self.cancellation.as_ref().map_or(std::ptr::null_mut(), |c| c.0 .0),
            detached: self.detached.into(),
            is_continuation: 0,
            group: self.group,
        }
    }
}

struct State<T> {
    result: Option<Result<T, TaskError>>,
    is_taken: bool,
    waker: Option<Waker>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

impl<T> State<T> {
    fn take(&mut self) -> Option<Result<T, TaskError>> {
        let result = self.result.take();
        self.is_taken |= result.is_some();
        result
    }
}

impl<T> Shared<T> {
    // Without it the second of two would wait for ever.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        let state = self.state.lock().unwrap();
        if !state.is_taken {
            return state;
        }
        drop(state); // not to poison it
        panic!("an .await has taken the task's result already");
    }

    fn end(&self, result: Result<T, TaskError>) {
        let mut state = self.state.lock().unwrap();
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The value of a task, to come: wait for it with [`join`](Handle::join), or `.await` it. There is one
/// value: to await the handle again after it is a panic, and so is a `join` then.
pub struct Handle<T>(Arc<Shared<T>>);

impl<T> Handle<T> {
    /// Whether the task has ended, so that [`join`](Handle::join) does not block.
    pub fn is_ended(&self) -> bool {
        let state = self.0.state.lock().unwrap();
        state.is_taken || state.result.is_some()
    }

    /// Blocks the thread until the task has ended; in a task that blocks its worker.
    pub fn join(self) -> Result<T, TaskError> {
        let mut state = self.0.lock();
        loop {
            if let Some(result) = state.take() {
                return result;
            }
            state = self.0.ended.wait(state).unwrap();
        }
    }
}

impl<T> Future for Handle<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match state.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

thread_local! {
    // The executor whose task, or whose task's end, the thread runs; null = none.
    static RUNS: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

// Returns what it was. Not inlined, so that the variable's address is not kept across a switch, after
// which the thread may be another.
#[inline(never)]
fn set_runs(executor: *mut c_void) -> *mut c_void {
    RUNS.with(|runs| runs.replace(executor))
}

// Calls what may switch.
fn switching<T>(call: impl FnOnce() -> T) -> T {
    let task_of = set_runs(std::ptr::null_mut());
    let value = call();
    set_runs(task_of);
    value
}

// What the library holds for a task.
struct Job<F, T> {
    executor: *mut c_void,
    function: Option<F>,
    value: Option<std::thread::Result<T>>,
    shared: Arc<Shared<T>>,
}

impl<F: FnOnce() -> T, T> Job<F, T> {
    unsafe extern "C" fn run(job: *mut c_void) -> c_int {
        let job = &mut *job.cast::<Self>();
        let function = job.function.take().expect("a task runs once");
        set_runs(job.executor);
        let value = catch_unwind(AssertUnwindSafe(function));
        set_runs(std::ptr::null_mut());
        let status = if value.is_ok() { 0 } else { -1 };
        job.value = Some(value);
        status
    }

    unsafe extern "C" fn done(job: *mut c_void, outcome: c_int, retry_after_ns: i64) {
        let job = Box::from_raw(job.cast::<Self>());
        let task_of = set_runs(job.executor);
        // No panic may unwind into the library: of a waker, or of the drop of a closure that has not
        // run or of a value that nobody takes.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job.end(outcome, retry_after_ns))) {
            std::mem::forget(panic); // its drop may panic, too
        }
        set_runs(task_of);
    }

    fn end(self, outcome: c_int, retry_after_ns: i64) {
        let retry_after = Duration::from_nanos(retry_after_ns.max(0) as u64);
        let error = |outcome| TaskError { outcome, retry_after, panic: None };
        let result = match (self.value, outcome) {
            (Some(Ok(value)), _) => Ok(value),
            (Some(Err(panic)), _) => Err(TaskError { panic: Some(panic), ..error(Outcome::Failed) }),
            (None, 3) => Err(error(Outcome::Expired)),
            (None, 4) => Err(error(Outcome::Cancelled)),
            (None, _) => Err(error(Outcome::Refused)),
        };
        self.shared.end(result);
    }
}

// Empty = none.
fn c_path(option: &str, path: &Option<PathBuf>) -> Result<CString, CreateError> {
    let bytes = path.as_ref().map_or(&[][..], |path| path.as_os_str().as_bytes());
    CString::new(bytes).map_err(|_| CreateError(format!("{option}: a path without null characters")))
}

fn line_of(error: &ffi::Error) -> String {
    // SAFETY: the library ends the text.
    unsafe { CStr::from_ptr(error.text.as_ptr()) }.to_string_lossy().into_owned()
}

fn told(how: impl FnOnce(&mut ffi::Error) -> c_int) -> io::Result<()> {
    let mut error = ffi::Error { text: [0; 256] };
    match how(&mut error) {
        0 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::Other, line_of(&error))),
    }
}

/// Workers of its own, which run closures by a scheduling policy. To drop it blocks until the tasks
/// have ended (the drain limit at the longest). In one of its own tasks, which may have the last
/// `Arc` of it, it does not block: another thread finishes the tasks, for which the end of the process
/// does not wait.
pub struct Executor(*mut c_void);

// SAFETY: the library allows these calls on any thread.
unsafe impl Send for Executor {}
unsafe impl Sync for Executor {}

impl Drop for Executor {
    fn drop(&mut self) {
        if RUNS.with(Cell::get) != self.0 {
            // SAFETY: nobody else has the executor any more, and this is not a worker of it.
            return unsafe { ffi::rubato_executor_destroy(self.0) };
        }
        let address = self.0 as usize; // a pointer is not Send
        std::thread::Builder::new()
            .name("rubato-drop".into())
            // SAFETY: as above.
            .spawn(move || unsafe { ffi::rubato_executor_destroy(address as *mut c_void) })
            .expect("a thread that ends the executor");
    }
}

impl Executor {
    pub fn new(options: &Options) -> Result<Self, CreateError> {
        Executor::create(options, false)
    }

    fn create(options: &Options, in_loop: bool) -> Result<Self, CreateError> {
        let policy = CString::new(options.policy.as_str())
            .map_err(|_| CreateError("policy: a name without null characters".into()))?;
        let names = options.groups.iter().map(|group| CString::new(group.name.as_str()));
        let names = names
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| CreateError("groups: names without null characters".into()))?;
        let groups: Vec<_> = std::iter::zip(&options.groups, &names)
            .map(|(group, name)| ffi::Group {
                struct_size: std::mem::size_of::<ffi::Group>(),
                name: name.as_ptr(),
                weight: group.weight,
                max_tasks: group.max_tasks,
            })
            .collect();
        let trace_file = c_path("trace_file", &options.trace_file)?;
        let record_file = c_path("record_file", &options.record_file)?;
        let profile_file = c_path("profile_file", &options.profile_file)?;
        // SAFETY: all-zero is a value of these plain structs, and the library fills them.
        unsafe {
            let mut scheduler: ffi::SchedulerOptions = std::mem::zeroed();
            ffi::rubato_options_init(&mut scheduler, std::mem::size_of_val(&scheduler));
            scheduler.policy = policy.as_ptr();
            scheduler.workers = options.workers;
            scheduler.trace_file = trace_file.as_ptr();
            scheduler.record_file = record_file.as_ptr();
            scheduler.profile_file = profile_file.as_ptr();
            let mut c: ffi::ExecutorOptions = std::mem::zeroed();
            ffi::rubato_executor_options_init(&mut c, std::mem::size_of_val(&c));
            c.scheduler = &scheduler;
            c.max_tasks = options.max_tasks;
            c.in_loop = in_loop.into();
            c.groups = groups.as_ptr();
            c.groups_count = groups.len();
            c.weight = options.weight;
            let mut error: ffi::Error = std::mem::zeroed();
            let made = ffi::rubato_executor_create(&c, &mut error);
            if made.is_null() {
                return Err(CreateError(line_of(&error)));
            }
            Ok(Executor(made))
        }
    }

    /// Submits a closure; does not block. What cannot be submitted ends as `Refused` at once.
    pub fn spawn<F, T>(&self, attributes: &Attributes, function: F) -> Handle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let state = Mutex::new(State { result: None, is_taken: false, waker: None });
        let shared = Arc::new(Shared { state, ended: Condvar::new() });
        let handle = Handle(Arc::clone(&shared));
        let job = Job { executor: self.0, function: Some(function), value: None, shared };
        let job = Box::into_raw(Box::new(job));
        // SAFETY: `done` takes the job back, once; if the task is not submitted, that is done here.
        unsafe {
            let c = attributes.to_c();
            let (run, done) = (Job::<F, T>::run, Job::<F, T>::done);
            let submit = || ffi::rubato_executor_submit(self.0, &c, run, Some(done), job.cast());
            let status = switching(submit);
            if status != 0 {
                Job::<F, T>::done(job.cast(), 2, 0);
            }
        }
        handle
    }

    /// Takes no new tasks and finishes those it has. Does not block.
    pub fn stop(&self) {
        // SAFETY: any thread, any number of times.
        unsafe { ffi::rubato_executor_stop(self.0) }
    }

    /// Tasks that were submitted and are not done.
    pub fn unfinished(&self) -> u64 {
        // SAFETY: any thread.
        unsafe { ffi::rubato_executor_unfinished(self.0) }
    }

    /// Begins a trace in [`Options::trace_file`], or ends it. An error where the file cannot be
    /// written, or there is none.
    pub fn trace(&self, wanted: bool) -> io::Result<()> {
        // SAFETY: any thread; the error is a plain struct.
        told(|error| unsafe { ffi::rubato_executor_trace(self.0, wanted.into(), error) })
    }

    /// The same with a recording of the tasks in [`Options::record_file`].
    pub fn record(&self, wanted: bool) -> io::Result<()> {
        // SAFETY: as above.
        told(|error| unsafe { ffi::rubato_executor_record(self.0, wanted.into(), error) })
    }

    /// Writes [`Options::profile_file`] as it is now; else it is written every 10 s.
    pub fn write_profile(&self) -> io::Result<()> {
        // SAFETY: as above.
        told(|error| unsafe { ffi::rubato_executor_write_profile(self.0, error) })
    }

    /// Of a group by its number; 0 = of the tasks in none. All zero for a number beyond.
    pub fn group_stats(&self, group: u32) -> GroupStats {
        // SAFETY: all-zero is a value of this plain struct; any thread.
        let stats = unsafe {
            let mut stats: ffi::GroupStats = std::mem::zeroed();
            let size = std::mem::size_of_val(&stats);
            ffi::rubato_executor_group_stats(self.0, group, &mut stats, size);
            stats
        };
        let time = |ns: i64| Duration::from_nanos(ns.max(0) as u64);
        GroupStats {
            requests: stats.requests,
            refused: stats.refused,
            unfinished: stats.unfinished,
            service: time(stats.service_ns),
            waited: time(stats.waited_ns),
        }
    }
}

/// Why [`Loop::run`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopState {
    /// Nothing is to be done before the descriptor is readable.
    Idle,
    /// Its time is over.
    More,
    /// For good.
    Stopped,
}

/// An executor without threads, for a loop of the caller's, which watches the descriptor and calls
/// [`run`](Loop::run) when that is readable, or when the last call returned [`LoopState::More`]. Tasks
/// run there, on the thread that has made it; a long one gives that back at the end of its slice. They
/// may be submitted by any thread, through the [`Executor`] that this derefs to. To drop it runs the
/// tasks to their ends.
pub struct Loop {
    executor: Executor,
    only_its_thread: PhantomData<*const ()>,
}

impl Loop {
    /// Of [`Options::workers`] it has one.
    pub fn new(options: &Options) -> Result<Self, CreateError> {
        if options.workers > 1 {
            return Err(CreateError("workers: a Loop has 1".into()));
        }
        let executor = Executor::create(options, true)?;
        Ok(Loop { executor, only_its_thread: PhantomData })
    }

    /// Runs tasks for about the budget, and never blocks. (A [`Handle::join`] before the task has
    /// ended would wait for ever.)
    pub fn run(&mut self, budget: Duration) -> LoopState {
        // SAFETY: on its thread, and not in a task, whose closure cannot hold what is not Send.
        match unsafe { ffi::rubato_executor_run(self.executor.0, nanos(budget)) } {
            0 => LoopState::Idle,
            1 => LoopState::More,
            _ => LoopState::Stopped,
        }
    }
}

impl Deref for Loop {
    type Target = Executor;

    fn deref(&self) -> &Executor {
        &self.executor
    }
}

impl AsRawFd for Loop {
    /// Readable when there is something to run; not to be read or closed.
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: any thread.
        unsafe { ffi::rubato_executor_fd(self.executor.0) }
    }
}

/// The task was told to end: its cancellation, its deadline, or a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// Lets other tasks run here, if they should; `Err` = this one's result is not wanted any more.
/// Outside of tasks it does nothing. Costs some nanoseconds; call it every 100 us or more often.
///
/// # Safety
/// The code after it may run on another thread: the caller holds no lock guard, and no reference to
/// a thread-local value (of `LocalKey::with` or `std::thread::current`, say) across the call.
pub unsafe fn checkpoint() -> Result<(), Ended> {
    if std::thread::panicking() || switching(|| ffi::rubato_checkpoint()) == 0 {
        Ok(())
    } else {
        Err(Ended)
    }
}

/// The trace of the task that the caller runs in; elsewhere 0.
pub fn task_trace() -> u64 {
    // SAFETY: any thread.
    unsafe { ffi::rubato_task_trace() }
}
