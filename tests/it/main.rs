//! The whole server on real ports, driven by real clients.

mod artifacts;
mod harness;
mod session;
