//! Blocks: sorted rows, compressed and checksummed as one.
//!
//! On disk: length of what follows, length once unpacked, checksum, then the rows, packed by lz4 where that saves
//! room. The checksum is seeded with the store, the table and the offset, so that a block which lies somewhere
//! else than it was written is not believed.

use crate::local::format::codec::{Corrupt, Reader, Writer};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const HEADER_BYTES: usize = 16;
/// No block is believed to be larger: a row is far below this.
const UNPACKED_BYTES_MAX: usize = 256 << 20;

/// Rows on their way into a block, in ascending order of their keys.
#[derive(Default)]
pub struct BlockBuilder {
    raw: Vec<u8>,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let shared = self.last_key.iter().zip(key).take_while(|(a, b)| a == b).count();
        let w = &mut Writer(&mut self.raw);
        w.number(shared as u64);
        w.number((key.len() - shared) as u64);
        w.number(value.map_or(0, |value| value.len() as u64 + 1));
        self.raw.extend_from_slice(&key[shared..]);
        self.raw.extend_from_slice(value.unwrap_or_default());
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    pub fn bytes(&self) -> usize {
        self.raw.len()
    }

    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Appends the block as it lies on disk, to be written at `offset`, and begins another one.
    pub fn seal(&mut self, seed: u64, offset: u64, out: &mut Vec<u8>) {
        pack(&self.raw, seed, offset, out);
        self.raw.clear();
        self.last_key.clear();
    }
}

fn pack(raw: &[u8], seed: u64, offset: u64, out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + HEADER_BYTES + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
    let packed = lz4_flex::block::compress_into(raw, &mut out[begin + HEADER_BYTES..]);
    let length = match packed {
        Ok(length) if length < raw.len() => length,
        _ => {
            out[begin + HEADER_BYTES..][..raw.len()].copy_from_slice(raw);
            raw.len()
        }
    };
    out.truncate(begin + HEADER_BYTES + length);
    let length = u32::try_from(length).expect("a block is far below four gigabytes");
    let unpacked = u32::try_from(raw.len()).expect("a block is far below four gigabytes");
    out[begin..][..4].copy_from_slice(&length.to_le_bytes());
    out[begin + 4..][..4].copy_from_slice(&unpacked.to_le_bytes());
    let hash = hash(&out[begin..], seed, offset);
    out[begin + 8..][..8].copy_from_slice(&hash.to_le_bytes());
}

/// Over the lengths and the content.
fn hash(stored: &[u8], seed: u64, offset: u64) -> u64 {
    let lengths = u64::from_le_bytes(stored[..8].try_into().expect("eight bytes"));
    let seed = seed ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ lengths.rotate_left(17);
    xxh3_64_with_seed(&stored[HEADER_BYTES..], seed)
}

/// What a block holds, as [`BlockBuilder::seal`] made it.
pub fn unpack(stored: &[u8], seed: u64, offset: u64) -> Result<Vec<u8>, Corrupt> {
    if stored.len() < HEADER_BYTES {
        return Err(Corrupt("a block is cut short"));
    }
    let length = |at: usize| u32::from_le_bytes(stored[at..][..4].try_into().expect("four bytes")) as usize;
    let (packed, unpacked) = (length(0), length(4));
    if packed != stored.len() - HEADER_BYTES || unpacked > UNPACKED_BYTES_MAX {
        return Err(Corrupt("a block has another length"));
    }
    if stored[8..HEADER_BYTES] != hash(stored, seed, offset).to_le_bytes() {
        return Err(Corrupt("the checksum of a block does not match"));
    }
    let content = &stored[HEADER_BYTES..];
    if packed == unpacked {
        return Ok(content.to_vec());
    }
    let mut raw = vec![0; unpacked];
    match lz4_flex::block::decompress_into(content, &mut raw) {
        Ok(length) if length == unpacked => Ok(raw),
        _ => Err(Corrupt("a block cannot be unpacked")),
    }
}

struct Row {
    key_end: u32,
    value_at: u32,
    /// One more than the length; 0 where the row says that the key is gone.
    value_length: u32,
}

/// The rows of a block, ready to be searched.
pub struct Block {
    raw: Vec<u8>,
    keys: Vec<u8>,
    rows: Vec<Row>,
}

impl Block {
    pub fn parse(raw: Vec<u8>) -> Result<Block, Corrupt> {
        let small = |value: usize| u32::try_from(value).map_err(|_| Corrupt("a block is too large"));
        let mut keys: Vec<u8> = Vec::new();
        let mut rows = Vec::new();
        let mut last = 0..0;
        let mut reader = Reader(&raw);
        while !reader.0.is_empty() {
            let shared = reader.small()? as usize;
            let added = reader.small()? as usize;
            let value_length = reader.small()?;
            if shared > last.len() {
                return Err(Corrupt("a key of a block does not follow the one before"));
            }
            let begin = keys.len();
            keys.extend_from_within(last.start..last.start + shared);
            keys.extend_from_slice(reader.take(added)?);
            last = begin..keys.len();
            let value_at = small(raw.len() - reader.0.len())?;
            reader.take(value_length.saturating_sub(1) as usize)?;
            rows.push(Row { key_end: small(keys.len())?, value_at, value_length });
        }
        Ok(Block { raw, keys, rows })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// About what it takes of memory.
    pub fn bytes(&self) -> usize {
        self.raw.len() + self.keys.len() + self.rows.len() * size_of::<Row>()
    }

    pub fn key(&self, index: usize) -> &[u8] {
        let begin = index.checked_sub(1).map_or(0, |before| self.rows[before].key_end);
        &self.keys[begin as usize..self.rows[index].key_end as usize]
    }

    pub fn value(&self, index: usize) -> Option<&[u8]> {
        let Row { value_at, value_length, .. } = self.rows[index];
        let length = value_length.checked_sub(1)?;
        Some(&self.raw[value_at as usize..][..length as usize])
    }

    /// The first row whose key is not before this one.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.rows.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The row with this key; its value is `None` where it says that the key is gone.
    pub fn find(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let index = self.lower_bound(key);
        (index < self.len() && self.key(index) == key).then(|| self.value(index))
    }
}
