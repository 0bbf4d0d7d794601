//! What the process tells about itself.

pub mod logs;
pub mod seldom;
pub mod told;
pub mod traces;
