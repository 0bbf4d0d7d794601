//! The reserve: a file that only holds on to some room.
//!
//! On a disk that is full to the last byte not even the catalog could be replaced, so history whose time is over could
//! not give its room back. Then the reserve is given up first; it is made again when there is room.

use crate::local::directory::files::Files;
use std::io;

const NAME: &str = "reserve";
/// Far more than a catalog and a manifest take.
const BYTES: usize = 256 << 10;
/// Below this much free space it is not made.
const FREE_BYTES_MIN: u64 = 16 << 20;

/// Makes the reserve if it is not there and there is room for it. That it could not be made is no failure: it is tried
/// again with the next catalog.
pub fn keep(files: &dyn Files) {
    let is_whole = |files: &dyn Files| files.open(NAME)?.len().map(|length| length == BYTES as u64);
    let free = files.free_bytes().unwrap_or(0);
    // Memory has no such limit.
    if free == u64::MAX || is_whole(files).unwrap_or(false) || free < FREE_BYTES_MIN {
        return;
    }
    let made = files.create(NAME).and_then(|file| {
        file.write_at(&vec![0; BYTES], 0)?;
        file.sync_data()
    });
    if made.is_err() {
        let _ = files.remove(NAME);
    }
}

/// Does what needs a little room. On a full disk it is done once more, with the room of the reserve among `files`.
pub fn with_reserve<E>(
    files: &dyn Files,
    is_full: impl Fn(&E) -> bool,
    act: impl Fn() -> Result<(), E>,
) -> Result<(), E> {
    match act() {
        Err(error) if is_full(&error) && files.remove(NAME).is_ok() => act(),
        done => done,
    }
}

pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
