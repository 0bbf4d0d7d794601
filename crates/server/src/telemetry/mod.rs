//! What the process tells about itself.

pub mod logs;
pub mod told;
pub mod traces;
