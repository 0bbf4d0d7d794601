//! The codeQ server: the process around a store.

pub mod auth;
pub mod config;
pub mod telemetry;
