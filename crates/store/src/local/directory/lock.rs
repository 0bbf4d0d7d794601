//! The lock of a data directory: one process at a time.

use crate::local::directory::open::{OpenError, at};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

pub const NAME: &str = "LOCK";
/// How long another process may go on holding it.
const WAIT: Duration = Duration::from_millis(400);

/// Takes the lock of a data directory. A process that is just ending, or a child that it is just starting, may hold it for
/// a moment longer.
pub fn take(path: &Path) -> Result<File, OpenError> {
    let file = path.join(NAME);
    let handle = File::options().create(true).truncate(false).write(true).open(&file).map_err(at(&file))?;
    let begun = Instant::now();
    loop {
        match handle.try_lock() {
            Ok(()) => return Ok(handle),
            Err(std::fs::TryLockError::WouldBlock) if begun.elapsed() < WAIT => {
                std::thread::sleep(WAIT / 20);
            }
            Err(std::fs::TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_path_buf())),
            Err(std::fs::TryLockError::Error(source)) => return Err(OpenError::Io { file, source }),
        }
    }
}
