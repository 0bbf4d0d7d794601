//! The tests of the stores, one binary: the exam and the model, against every store of this crate.

mod candidates;
mod exam;
mod model;
