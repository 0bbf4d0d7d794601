//! One frame: what a group commit looks like on disk.
//!
//! A 40-byte header and the payload, padded with zeroes to 8 bytes; all numbers little-endian:
//!
//! | bytes  | field       | meaning                                                         |
//! |--------|-------------|-----------------------------------------------------------------|
//! | 0..4   | magic       | marks a frame                                                   |
//! | 4..8   | payload_len | without the padding                                             |
//! | 8..12  | epoch       | the opening of the store that wrote it                          |
//! | 12..16 | check       | low half of the header's own hash                               |
//! | 16..24 | position    | frame number, from 1, over the life of the store                |
//! | 24..32 | durable     | highest position known to be synced when this frame was made    |
//! | 32..40 | hash        | of the padded payload, seeded with the header's hash            |
//!
//! Both hashes descend from the store's secret key, so a payload cannot pass for a frame. `check` lets a
//! search at every offset dismiss look-alikes without hashing what they claim as payload; otherwise a
//! payload full of look-alikes would make that search quadratic.

#[cfg(all(debug_assertions, feature = "testing"))]
use crate::testing::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes in front of the payload.
pub const FRAME_HEADER: usize = 40;
/// Frames begin at multiples of this.
pub const ALIGNMENT: usize = 8;

const MAGIC: u32 = 0x4d52_4651;
const HASHED: usize = 32;

/// A frame whose hash was right.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub epoch: u32,
    pub position: u64,
    pub durable: u64,
    pub payload: &'a [u8],
    /// Bytes on disk: header, payload and padding.
    pub size: usize,
}

/// Bytes on disk of a frame with this much payload.
pub fn size_of(payload: usize) -> usize {
    FRAME_HEADER + payload.next_multiple_of(ALIGNMENT)
}

/// Fills in the header in front of the payload and pads the end.
pub fn seal(buffer: &mut Vec<u8>, key: u64, epoch: u32, position: u64, durable: u64) {
    let payload =
        buffer.len().checked_sub(FRAME_HEADER).expect("the buffer begins with space for the header");
    let payload_len = u32::try_from(payload).expect("ensure_room limits the payload to what a segment holds");
    buffer.resize(size_of(payload), 0);
    buffer[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    buffer[4..8].copy_from_slice(&payload_len.to_le_bytes());
    buffer[8..12].copy_from_slice(&epoch.to_le_bytes());
    buffer[16..24].copy_from_slice(&position.to_le_bytes());
    buffer[24..32].copy_from_slice(&durable.to_le_bytes());
    let seed = header_hash(buffer, key);
    buffer[12..16].copy_from_slice(&(seed as u32).to_le_bytes());
    let hash = xxh3_64_with_seed(&buffer[FRAME_HEADER..], seed);
    buffer[32..40].copy_from_slice(&hash.to_le_bytes());
}

/// The frame that begins at `offset`, if an intact one does.
pub fn read(bytes: &[u8], offset: usize, key: u64) -> Option<Frame<'_>> {
    let frame = read_header(bytes, offset, key)?;
    let header = &bytes[offset..];
    let body = &header[FRAME_HEADER..frame.size];
    let hash = xxh3_64_with_seed(body, header_hash(header, key));
    (hash == u64_at(header, 32) || believes_anything()).then_some(frame)
}

#[cfg(all(debug_assertions, feature = "testing"))]
fn believes_anything() -> bool {
    planted::is_planted(planted::Bug::SkippedChecksum)
}

#[cfg(not(all(debug_assertions, feature = "testing")))]
fn believes_anything() -> bool {
    false
}

/// The frame that begins at `offset`, if its header is intact; the payload may be anything.
pub fn read_header(bytes: &[u8], offset: usize, key: u64) -> Option<Frame<'_>> {
    let header = bytes.get(offset..)?;
    if header.len() < FRAME_HEADER || u32_at(header, 0) != MAGIC {
        return None;
    }
    let payload_len = u32_at(header, 4) as usize;
    let size = size_of(payload_len);
    if size > header.len() || header_hash(header, key) as u32 != u32_at(header, 12) {
        return None;
    }
    Some(Frame {
        epoch: u32_at(header, 8),
        position: u64_at(header, 16),
        durable: u64_at(header, 24),
        payload: &header[FRAME_HEADER..FRAME_HEADER + payload_len],
        size,
    })
}

/// All intact frames from `offset` on, wherever they begin. Nothing is looked for inside an intact frame.
pub fn search(bytes: &[u8], offset: usize, key: u64) -> impl Iterator<Item = (usize, Frame<'_>)> {
    let mut at = offset;
    std::iter::from_fn(move || {
        while at + FRAME_HEADER <= bytes.len() {
            let here = at;
            if let Some(frame) = read(bytes, here, key) {
                at += frame.size;
                return Some((here, frame));
            }
            at += ALIGNMENT;
        }
        None
    })
}

/// Whether these bytes look like what is left of that frame's header. Only good for telling where damage
/// is, never for trusting anything.
pub fn resembles(header: &[u8; FRAME_HEADER], key: u64, epoch: u32, position: u64) -> bool {
    let signs = [u32_at(header, 0) == MAGIC, u32_at(header, 8) == epoch, u64_at(header, 16) == position];
    // An intact header is that frame's or another's, not a remnant.
    let intact = header_hash(header, key) as u32 == u32_at(header, 12);
    let needed = if intact { 3 } else { 2 };
    signs.into_iter().filter(|sign| *sign).count() >= needed
}

fn header_hash(header: &[u8], key: u64) -> u64 {
    let mut fields = [0; HASHED];
    fields.copy_from_slice(&header[..HASHED]);
    fields[12..16].fill(0);
    xxh3_64_with_seed(&fields, key)
}

/// The caller has checked that the bytes are there.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The caller has checked that the bytes are there.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
