//! Ids that know their place.
//!
//! A task has a sequence number inside and a UUIDv4 outside. The UUID is a keyed permutation of the number
//! (64 bits) and 58 random bits under the version marks, so the number is found by decoding, without an
//! index, and the record is then compared with the whole id. History is therefore stored under sequential
//! keys, which costs half of what random keys cost (docs/decisions/ids.md).
//!
//! Not promised: secrecy of the number against someone who has the key. The 58 random bits are what makes
//! an id unguessable.

use codeq_queue::TaskId;

pub const TAIL_BITS: u32 = 58;
const TAIL_MASK: u64 = (1 << TAIL_BITS) - 1;
/// How many numbers there are for an id. What is above the random bits of a tail tells which of them it is.
pub const PLACES: u32 = 1 << (u64::BITS - TAIL_BITS);
/// Numbers below this may be given out one day; those above are of imported tasks.
pub const OWN_NUMBERS_END: u64 = 1 << 44;

/// The permutation of one data directory.
#[derive(Clone, Copy)]
pub struct IdKey([u64; 4]);

impl IdKey {
    pub fn new(secret: u64) -> IdKey {
        let mut state = secret;
        IdKey(std::array::from_fn(|_| {
            state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            state
        }))
    }

    /// The id of task `no` with the given tail: its random bits and, above them, its place.
    pub fn encode(&self, no: u64, tail: u64) -> TaskId {
        let p = u128::from(self.permute(no ^ distance(place_of(tail))));
        let bits = ((p >> 16) << 80) | (((p >> 4) & 0xfff) << 64) | ((p & 0xf) << TAIL_BITS);
        TaskId::from_bits(bits | u128::from(tail & TAIL_MASK))
    }

    /// The number and the random bits that would give `id`. An id that this store never gave out decodes
    /// too; only a record with the same tail makes it real.
    pub fn decode(&self, id: &TaskId) -> (u64, u64) {
        let bits = u128::from_be_bytes(*id.as_bytes());
        let p = ((bits >> 80) << 16) | (((bits >> 64) & 0xfff) << 4) | ((bits >> TAIL_BITS) & 0xf);
        (self.restore(p as u64), bits as u64 & TAIL_MASK)
    }

    /// The number and the tail that `id` has at a place. At the first it is what it decodes to; a task from
    /// elsewhere whose number there is another's lies at a later one.
    pub fn at(&self, id: &TaskId, place: u32) -> (u64, u64) {
        let (no, tail) = self.decode(id);
        (no ^ distance(place), tail | (u64::from(place) << TAIL_BITS))
    }

    fn permute(&self, no: u64) -> u64 {
        let (mut left, mut right) = ((no >> 32) as u32, no as u32);
        for key in self.0 {
            (left, right) = (right, left ^ round(right, key));
        }
        (u64::from(left) << 32) | u64::from(right)
    }

    fn restore(&self, permuted: u64) -> u64 {
        let (mut left, mut right) = ((permuted >> 32) as u32, permuted as u32);
        for key in self.0.into_iter().rev() {
            (left, right) = (right ^ round(left, key), left);
        }
        (u64::from(left) << 32) | u64::from(right)
    }
}

/// From the first place to this one. From a number that a shard may give out itself it leads to one that no shard
/// does.
fn distance(place: u32) -> u64 {
    match place {
        0 => 0,
        _ => mix(u64::from(place).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    }
}

/// Which place a tail belongs to.
pub fn place_of(tail: u64) -> u32 {
    (tail >> TAIL_BITS) as u32
}

fn round(half: u32, key: u64) -> u32 {
    (mix(u64::from(half) ^ key) >> 32) as u32
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_decode_to_what_made_them() {
        let key = IdKey::new(7);
        for no in [0, 1, 2, 1 << 31, 1 << 32, u64::MAX] {
            for tail in [0, 1, TAIL_MASK] {
                let id = key.encode(no, tail);
                assert_eq!(key.decode(&id), (no, tail));
                let text = id.to_string();
                assert_eq!(&text[14..15], "4");
                assert!("89ab".contains(&text[19..20]), "{text}");
            }
        }
    }

    #[test]
    fn every_place_gives_the_id_back_and_none_of_them_is_another() {
        let key = IdKey::new(7);
        let id = key.encode(5, 9);
        let mut numbers = std::collections::HashSet::new();
        for place in 0..PLACES {
            let (no, tail) = key.at(&id, place);
            assert_eq!((key.encode(no, tail), place_of(tail)), (id, place));
            assert!(numbers.insert(no));
            assert!(place == 0 || no >= OWN_NUMBERS_END, "place {place} is a number of this shard's own");
        }
        // Where tasks lie is stored, so the distances never change.
        assert_eq!((distance(1), distance(63)), (0xe220_a839_7b1d_cdaf, 0x3e00_a349_29a8_8f1d));
    }

    #[test]
    fn neighbours_share_nothing_visible_and_keys_differ() {
        let (a, b) = (IdKey::new(1), IdKey::new(2));
        assert_ne!(a.encode(1, 0).as_bytes()[..4], a.encode(2, 0).as_bytes()[..4]);
        assert_ne!(a.encode(1, 0), b.encode(1, 0));
    }
}
