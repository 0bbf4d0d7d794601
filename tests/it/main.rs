//! The whole server on real ports, driven by real clients.

mod abuse;
mod artifacts;
mod cli;
mod clock;
mod contract;
mod events;
mod harness;
mod kvrocks;
mod observability;
mod operator;
mod session;
mod streams;
mod tls;
mod webhooks;
