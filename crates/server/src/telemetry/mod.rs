//! Logs and traces of the process.

pub mod logs;
pub mod seldom;
pub mod told;
pub mod traces;
