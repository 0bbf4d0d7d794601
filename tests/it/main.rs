//! The whole server on real ports, driven by real clients.

mod artifacts;
mod contract;
mod harness;
mod session;
