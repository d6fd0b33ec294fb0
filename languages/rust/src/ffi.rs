// SPDX-License-Identifier: Apache-2.0
//! The part of <rubato/executor.h> that is used, and the options. Structs begin with their size, by which the library
//! knows how much of them a caller was compiled with; a test compares it with the library's.
use std::os::raw::{c_char, c_int, c_void};

#[repr(C)]
pub struct Error {
    pub text: [c_char; 256],
}

#[repr(C)]
pub struct SchedulerOptions {
    // generated: rust-options
    pub struct_size: usize,
    pub policy: *const c_char,
    pub set: *const *const c_char,
    pub set_count: usize,
    pub workers: u32,
    pub classify: u32,
    pub preemption_clock: u32,
    pub idle: u32,
    pub idle_spin_ns: i64,
    pub pin: u32,
    pub pin_first: u32,
    pub stack_bytes: usize,
    pub max_fibers: u32,
    pub transport: u32,
    pub bind: *const c_char,
    pub port: u32,
    pub max_connections: u32,
    pub idle_timeout_ns: i64,
    pub max_request_bytes: usize,
    pub max_reply_bytes: usize,
    pub drain_limit_ns: i64,
    pub metrics_bind: *const c_char,
    pub metrics_port: i32,
    pub handle_signals: u32,
    pub preempt: u32,
    pub rpc_target_delay_ns: i64,
    pub overload: u32,
    pub guaranteed_cores: u32,
    pub target_delay_ns: i64,
    pub target_delay_long_ns: i64,
    pub cores: *const c_char,
    pub cores_set: *const *const c_char,
    pub cores_set_count: usize,
    pub agent_bind: *const c_char,
    pub agent_port: i32,
    pub sessions_per_address: u32,
    pub inbox_capacity: u32,
    pub shared_capacity: u32,
    pub overload_patience_ns: i64,
    pub overload_calm_ns: i64,
    pub overload_calm_idle_ns: i64,
    pub overload_budget: f64,
    pub credits_set: *const *const c_char,
    pub credits_set_count: usize,
    pub half_closed_limit_ns: i64,
    pub foreign_runtime: u32,
    pub overload_set: *const *const c_char,
    pub overload_set_count: usize,
    pub trace_file: *const c_char,
    pub trace_events: u32,
    pub record_file: *const c_char,
    pub record_limit_bytes: usize,
    pub profile_file: *const c_char,
    pub profile_for_ns: i64,
    // end of rust-options
}

#[repr(C)]
pub struct ExecutorOptions {
    pub struct_size: usize,
    pub scheduler: *const SchedulerOptions,
    pub max_tasks: u32,
    pub type_names: *const *const c_char,
    pub type_names_count: usize,
    pub in_loop: u32,
    pub groups: *const Group,
    pub groups_count: usize,
    pub weight: u32,
}

#[repr(C)]
pub struct Group {
    pub struct_size: usize,
    pub name: *const c_char,
    pub weight: u32,
    pub max_tasks: u32,
}

#[repr(C)]
pub struct GroupStats {
    pub struct_size: usize,
    pub requests: u64,
    pub refused: u64,
    pub unfinished: u64,
    pub service_ns: i64,
    pub waited_ns: i64,
}

#[repr(C)]
pub struct TaskAttributes {
    pub struct_size: usize,
    pub kind: u32,
    pub is_long: u32,
    pub priority: u32,
    pub is_control: u32,
    pub deadline_ns: i64,
    pub expected_ns: i64,
    pub trace: u64,
    pub cancellation: *mut c_void,
    pub detached: u32,
    pub is_continuation: u32,
    pub group: u32,
}

pub type Run = unsafe extern "C" fn(*mut c_void) -> c_int;
pub type Done = unsafe extern "C" fn(*mut c_void, c_int, i64);

extern "C" {
    pub fn rubato_options_init(options: *mut SchedulerOptions, size: usize);
    pub fn rubato_executor_options_init(options: *mut ExecutorOptions, size: usize);
    pub fn rubato_executor_create(options: *const ExecutorOptions, error: *mut Error) -> *mut c_void;
    pub fn rubato_executor_stop(executor: *mut c_void);
    pub fn rubato_executor_destroy(executor: *mut c_void);
    pub fn rubato_executor_run(executor: *mut c_void, budget_ns: i64) -> c_int;
    pub fn rubato_executor_fd(executor: *mut c_void) -> c_int;
    pub fn rubato_executor_submit(
        executor: *mut c_void,
        attributes: *const TaskAttributes,
        run: Run,
        done: Option<Done>,
        user: *mut c_void,
    ) -> c_int;
    pub fn rubato_executor_unfinished(executor: *const c_void) -> u64;
    pub fn rubato_executor_group_stats(
        executor: *const c_void,
        group: u32,
        stats: *mut GroupStats,
        size: usize,
    );
    pub fn rubato_executor_trace(executor: *mut c_void, wanted: c_int, error: *mut Error) -> c_int;
    pub fn rubato_executor_record(executor: *mut c_void, wanted: c_int, error: *mut Error) -> c_int;
    pub fn rubato_executor_write_profile(executor: *mut c_void, error: *mut Error) -> c_int;
    pub fn rubato_cancellation_create() -> *mut c_void;
    pub fn rubato_cancellation_cancel(cancellation: *mut c_void);
    pub fn rubato_cancellation_release(cancellation: *mut c_void);
    pub fn rubato_checkpoint() -> c_int;
    pub fn rubato_task_trace() -> u64;
}
