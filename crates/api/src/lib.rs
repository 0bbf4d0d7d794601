//! The wire: JSON bodies and error codes, as clients see them.
//!
//! Plain data, the same types for server and client. What a field means and when it is refused is the
//! business of the rules; here is only how it is spelled. [`json`] holds the strictness that every request
//! body meets.

#![warn(missing_docs)]

pub mod admin;
pub mod batch;
pub mod error;
pub mod events;
pub mod explain;
pub mod grpc;
pub mod history;
pub mod json;
pub mod list;
mod object;
pub mod operation;
pub mod policy;
pub mod schedule;
pub mod subscription;
pub mod task;
pub mod work;

/// The published description of the HTTP API.
pub const OPENAPI: &str = include_str!("../openapi.json");

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}
