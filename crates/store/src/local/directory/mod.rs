//! A data directory: opening it, what it says of itself, copies of it, and looking at it offline.

pub(in crate::local) mod backup;
pub mod files;
pub(in crate::local) mod load;
pub(in crate::local) mod lock;
pub(in crate::local) mod manifest;
pub(in crate::local) mod open;
pub(in crate::local) mod options;
pub(in crate::local) mod upgrade;
pub(in crate::local) mod verify;
