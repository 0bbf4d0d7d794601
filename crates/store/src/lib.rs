//! Where codeQ keeps its tasks.
//!
//! [`local`] is the embedded store: one directory, one process, a journal that is the truth and
//! tables behind it. `memory` is the same owner without a journal. [`kvrocks`] keeps everything in a server that any
//! number of processes share. All keep the promises of [`codeq_queue::Store`], and `testing` holds the exam that proves it for any store.

pub mod clock;
pub mod kvrocks;
pub mod local;
pub mod memory;
pub mod rules;
pub mod supervisor;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use clock::{Clock, ManualClock, SlewedClock, SystemClock, TestClock};
pub use rules::Rules;
pub use supervisor::Supervisor;
