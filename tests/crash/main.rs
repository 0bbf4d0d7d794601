//! kill -9 under load: what was acknowledged is there, nothing is lent twice, nothing is stuck.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod embedded;
