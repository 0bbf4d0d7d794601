//! The offline check of a data directory.

use super::open::OpenError;

pub struct Verified;

pub fn verify(_path: &std::path::Path) -> Result<Verified, OpenError> {
    Ok(Verified)
}
