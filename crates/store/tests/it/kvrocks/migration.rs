//! Data of the original server.
