//! The tests of the stores, one binary: the exam and the model, against every store of this crate; and the
//! embedded store against its disk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod bars;
mod candidates;
mod crowds;
mod directory;
mod events;
mod exam;
mod fixture;
mod flow_fixture;
mod forgetful;
mod imports;
mod instant;
mod kvrocks;
mod members;
mod model;
mod moves;
mod states;
mod verify;
