//! The whole server on real ports, driven by real clients.

mod harness;
mod session;
