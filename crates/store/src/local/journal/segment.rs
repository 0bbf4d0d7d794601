//! One segment file: its name, its header, its making.
//!
//! A segment is zero-filled once and then recycled for ever, so that appending never grows a file. Its
//! first 4096 bytes are the header, which is written and synced before any frame goes in. The header's
//! fields lie within one disk sector, so a crash leaves the old header or the new one, never a mixture.
//!
//! Besides its place in the order (`sequence`) and the opening that wrote it (`epoch`) a header draws two
//! lines that tell living frames from stale ones:
//! - `floor`: frames in this file at or below it are left over from the file's earlier use;
//! - `base`: where this epoch took over; frames of *earlier epochs* above it were cut off as a torn tail.

use std::io;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::frame::{u32_at, u64_at};
use crate::local::directory::files::File;

/// Bytes in front of the first frame.
pub const SEGMENT_HEADER: usize = 4096;

const MAGIC: u64 = 0x3130_4c4e_524a_5143;
const VERSION: u32 = 1;
const HASHED: usize = 48;
const FILL_PIECE: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub sequence: u64,
    pub epoch: u32,
    pub floor: u64,
    pub base: u64,
}

/// What the first bytes of a file turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderState {
    Valid(Header),
    /// The hash is right, but a later version of the program wrote it.
    Unknown(u32),
    /// Says that it is a header, but its hash is wrong.
    Broken,
    /// Never was one, as in a file whose making was cut short.
    Absent,
}

impl Header {
    pub fn encode(&self, key: u64) -> Vec<u8> {
        let mut bytes = vec![0; SEGMENT_HEADER];
        bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.floor.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.base.to_le_bytes());
        let hash = xxh3_64_with_seed(&bytes[..HASHED], key);
        bytes[HASHED..HASHED + 8].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8], key: u64) -> HeaderState {
        if bytes.len() < SEGMENT_HEADER || bytes[..HASHED + 8].iter().all(|byte| *byte == 0) {
            return HeaderState::Absent;
        }
        if xxh3_64_with_seed(&bytes[..HASHED], key) != u64_at(bytes, HASHED) {
            return HeaderState::Broken;
        }
        if u64_at(bytes, 0) != MAGIC || u32_at(bytes, 8) != VERSION {
            return HeaderState::Unknown(u32_at(bytes, 8));
        }
        HeaderState::Valid(Header {
            sequence: u64_at(bytes, 16),
            epoch: u32_at(bytes, 12),
            floor: u64_at(bytes, 24),
            base: u64_at(bytes, 32),
        })
    }
}

pub fn name_of(number: u64) -> String {
    format!("journal-{number:06}.seg")
}

/// The number in a segment's name; nothing for files that are not the journal's.
pub fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("journal-")?.strip_suffix(".seg")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Writes zeroes over the whole file, so that later writes find their blocks allocated.
pub fn fill(file: &dyn File, bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; FILL_PIECE.min(bytes as usize)];
    let mut offset = 0;
    while offset < bytes {
        let piece = (bytes - offset).min(zeroes.len() as u64);
        file.write_at(&zeroes[..piece as usize], offset)?;
        offset += piece;
    }
    Ok(())
}

/// Reads up to `buffer.len()` bytes from `offset`; fewer only at the end of the file.
pub fn read_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Reads the whole file into `buffer`, replacing what was there.
pub fn load(file: &dyn File, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(file.len()? as usize, 0);
    let count = read_full(file, buffer, 0)?;
    buffer.truncate(count);
    Ok(())
}
