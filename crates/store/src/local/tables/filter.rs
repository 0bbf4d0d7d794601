//! Filters: which tables need not be looked into.
//!
//! A Bloom filter in pages. A key belongs to one page, so that asking for it reads one page at most, and pages
//! that nobody asks for take no memory.

use crate::local::format::codec::Corrupt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const BITS_PER_KEY: usize = 12;
pub const PROBES: u32 = 7;
/// In front of each page.
const HASH_BYTES: usize = 8;
const PAGE_BYTES: usize = 4096;

/// How a filter is laid out.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FilterShape {
    pub pages: u32,
    pub page_bytes: u32,
}

impl FilterShape {
    fn of(keys: usize) -> FilterShape {
        let bytes = (keys * BITS_PER_KEY).div_ceil(8);
        let room = PAGE_BYTES - HASH_BYTES;
        if bytes <= room {
            let page_bytes = HASH_BYTES + bytes.next_multiple_of(8).max(8);
            return FilterShape { pages: 1, page_bytes: page_bytes as u32 };
        }
        let pages = u32::try_from(bytes.div_ceil(room)).expect("a table has fewer keys");
        FilterShape { pages, page_bytes: PAGE_BYTES as u32 }
    }

    /// The page that a key belongs to.
    pub fn page_of(&self, hash: u64) -> u32 {
        (((hash >> 32) * u64::from(self.pages)) >> 32) as u32
    }
}

/// What stands for a key in a filter.
pub fn hash_of(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The pages for these keys, as they lie on disk.
pub fn build(hashes: &[u64], seed: u64) -> (FilterShape, Vec<u8>) {
    let shape = FilterShape::of(hashes.len());
    let page_bytes = shape.page_bytes as usize;
    let mut pages = vec![0; shape.pages as usize * page_bytes];
    for hash in hashes {
        let page = &mut pages[shape.page_of(*hash) as usize * page_bytes..][HASH_BYTES..page_bytes];
        for bit in bits(*hash, page.len() * 8) {
            page[bit / 8] |= 1 << (bit % 8);
        }
    }
    for (number, page) in pages.chunks_mut(page_bytes).enumerate() {
        let hash = xxh3_64_with_seed(&page[HASH_BYTES..], seed ^ number as u64);
        page[..HASH_BYTES].copy_from_slice(&hash.to_le_bytes());
    }
    (shape, pages)
}

pub fn check_page(page: &[u8], number: u32, seed: u64) -> Result<(), Corrupt> {
    let (hash, bits) =
        page.split_at_checked(HASH_BYTES).ok_or(Corrupt("a page of the filter is cut short"))?;
    if *hash != xxh3_64_with_seed(bits, seed ^ u64::from(number)).to_le_bytes() {
        return Err(Corrupt("the checksum of a page of the filter does not match"));
    }
    Ok(())
}

pub fn admits(page: &[u8], hash: u64) -> bool {
    let page = &page[HASH_BYTES..];
    bits(hash, page.len() * 8).all(|bit| page[bit / 8] & (1 << (bit % 8)) != 0)
}

fn bits(hash: u64, count: usize) -> impl Iterator<Item = usize> {
    let (first, step) = (hash as u32, (hash >> 17) as u32 | 1);
    (0..PROBES).map(move |probe| {
        let mixed = first.wrapping_add(probe.wrapping_mul(step));
        ((u64::from(mixed) * count as u64) >> 32) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_is_admitted_and_little_else() {
        for keys in [1u64, 7, 300, 3000, 100_000] {
            let hashes: Vec<u64> = (0..keys).map(|key| hash_of(&key.to_be_bytes())).collect();
            let (shape, pages) = build(&hashes, 5);
            let admits = |hash: u64| {
                let number = shape.page_of(hash);
                let page = &pages[(number * shape.page_bytes) as usize..][..shape.page_bytes as usize];
                check_page(page, number, 5).unwrap();
                admits(page, hash)
            };
            assert!(hashes.iter().all(|hash| admits(*hash)));
            let wrong = (keys..keys + 10_000).filter(|key| admits(hash_of(&key.to_be_bytes()))).count();
            assert!(wrong < 150, "{wrong} of 10000 other keys are admitted by a filter of {keys}");
        }
    }
}
