#![doc = include_str!("../../../docs/sdk.md")]
#![warn(missing_docs)]

mod backoff;
mod batch;
mod connection;
mod error;
mod events;
mod http;
mod limits;
#[cfg(feature = "otel")]
pub mod otel;
mod pipe;
mod producer;
mod refusal;
mod schedule;
mod signals;
mod stream;
mod task;
pub mod testing;
mod time;
mod token;
mod unique;
mod worker;

pub use batch::{Batch, BatchCounts, NewBatch};
pub use connection::Connection;
pub use error::Error;
pub use events::{Event, Events, Happening};
pub use producer::Producer;
pub use schedule::{NewSchedule, Operation, Schedule};
pub use task::{Created, Finished, NewTask, Task};
pub use token::Token;
pub use unique::Unique;
pub use worker::{Hold, IntoOutcome, Job, Outcome, Stop, Worker};

/// The program of the guide is compiled with the tests; `scripts/sdks.sh` runs it as pasted.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/rust-worker.md")]
struct Guide;
