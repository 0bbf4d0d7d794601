//! The state in memory as rows of tables, and back: what is fed, folded, read and looked up.

mod batch;
pub(in crate::local) mod change;
pub(in crate::local) mod feed_queue;
pub(in crate::local) mod feeder;
pub(in crate::local) mod folding;
pub(in crate::local) mod library;
pub(in crate::local) mod readers;
