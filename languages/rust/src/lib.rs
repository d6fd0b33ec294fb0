// SPDX-License-Identifier: Apache-2.0
//! Rubato for Rust: [`Executor`] runs closures as tasks by a scheduling policy, so that a long one
//! never blocks a short one; [`rpc::Client`] is a client of Rubato RPC.
//!
//! Install librubato (Debian: `librubato-dev` of `make deb`), then `cargo add --path` this folder.
//! Elsewhere than in /usr, RUBATO_LIB_DIR is its folder as this is built; Cargo hands no run path on to
//! the programs that depend on it, so these take it in a `build.rs`:
//!
//! ```no_run
//! if let Ok(folder) = std::env::var("DEP_RUBATO_LIB_DIR") {
//!     println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
//! }
//! ```
//!
//! Without the feature `executor` only the client is left, which links nothing.
//!
//! A task may switch to another at [`checkpoint`] and go on in another thread, which is why that is
//! `unsafe`. Without checkpoints tasks run to their end. Panics end in the task's [`Handle`].
#[cfg(feature = "executor")]
mod executor;
#[cfg(feature = "executor")]
mod ffi;
pub mod rpc;

#[cfg(feature = "executor")]
pub use executor::{
    checkpoint, task_trace, Attributes, Cancellation, CreateError, Ended, Executor, Group,
    GroupStats, Handle, Loop, LoopState, Options, Outcome, TaskError,
};
