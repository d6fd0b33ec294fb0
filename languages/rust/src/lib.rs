// SPDX-License-Identifier: Apache-2.0
//! Rubato for Rust: [`Executor`] runs closures as tasks by a scheduling policy, so that a long one
//! never blocks a short one; [`rpc::Client`] is a client of Rubato RPC.
//!
//! Install librubato (Debian: `librubato-dev` of `make deb`), then `cargo add --path` this folder.
//! Without the feature `executor` only the client is left, which links nothing.
//!
//! A task may switch to another at [`checkpoint`], and go on in another thread. So nothing that
//! belongs to a thread lives across one: no `MutexGuard`, no `thread_local` borrow, no `RefMut` of
//! something shared. Closures are `Send`, and what they hold moves with them. With a mechanism that
//! preempts anywhere (`preempt = "signal"`), no panic may cross a task; here none does.
#[cfg(feature = "executor")]
mod executor;
#[cfg(feature = "executor")]
mod ffi;
pub mod rpc;

#[cfg(feature = "executor")]
pub use executor::{
    checkpoint, checkpoint_or_unwind, task_trace, Attributes, Cancellation, CreateError, Executor, Handle,
    Options, Outcome, TaskError,
};
