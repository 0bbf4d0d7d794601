#![doc = include_str!("../../../docs/sdk.md")]

mod backoff;
mod connection;
mod error;
mod events;
mod http;
mod limits;
mod pipe;
mod producer;
mod refusal;
mod schedule;
mod stream;
mod task;
mod time;
mod token;
mod worker;

pub use connection::Connection;
pub use error::Error;
pub use events::{Event, Events, Happening};
pub use producer::Producer;
pub use schedule::{NewSchedule, Operation, Schedule};
pub use task::{Created, Finished, NewTask, Task};
pub use token::Token;
pub use worker::{IntoOutcome, Job, Outcome, Worker};
