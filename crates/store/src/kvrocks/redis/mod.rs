//! Servers: connections, masters, scripts, and the writer that shares one EXEC among all that wait.

pub(in crate::kvrocks) mod bare;
pub(in crate::kvrocks) mod batch;
pub(in crate::kvrocks) mod cluster;
pub(in crate::kvrocks) mod connection;
pub(in crate::kvrocks) mod gate;
pub(in crate::kvrocks) mod inspect;
pub(in crate::kvrocks) mod master;
pub(in crate::kvrocks) mod meters;
pub(in crate::kvrocks) mod patience;
pub(in crate::kvrocks) mod reach;
pub(in crate::kvrocks) mod replication;
pub(in crate::kvrocks) mod reply;
pub(in crate::kvrocks) mod script;
pub(in crate::kvrocks) mod writer;
