//! The model: the semantics once more, so naive that it is obviously right, and a driver that compares a
//! store with it operation by operation.
//!
//! The model is a list of tasks, searched from end to end. It shares the data types of the rules and none of
//! their decisions: guards, backoff, order and retention are written again here. What the contract leaves to
//! chance (jitter, ties between queues) is taken from the store's answer after checking that it is allowed.
//!
//! Start with [`state`] (what there is), then `transitions` and `timers` (what happens), then [`driver`]
//! (who asks). [`as_store`] wraps the model as a store, so that exam and model can be held against each other.

pub mod as_store;
mod backoff;
mod choice;
mod compare;
pub mod driver;
mod limits;
mod listing;
mod operations;
mod operators;
mod outbox;
mod reports;
pub mod state;
mod timers;
mod transitions;

pub use driver::{rules_for, run, run_from_environment};
pub use state::Model;
