//! The tests of the stores, one binary: the exam and the model, against every store of this crate; and the
//! embedded store against its disk.

mod candidates;
mod directory;
mod exam;
mod forgetful;
mod model;
