//! The whole server on real ports, driven by real clients.

mod abuse;
mod artifacts;
mod contract;
mod harness;
mod observability;
mod session;
mod streams;
mod webhooks;
