//! What is kept where, and the text of records.

pub(in crate::kvrocks) mod asked;
pub(in crate::kvrocks) mod keys;
pub(in crate::kvrocks) mod outcome;
pub(in crate::kvrocks) mod record;
