//! Task ids: lower-case UUIDv4 on the wire, 16 bytes inside.

use std::fmt;

/// The text form is 36 bytes: `8-4-4-4-12` lower-case hex digits.
pub const TEXT_BYTES: usize = 36;

/// The name of a task, a batch, or anything else that has the form of a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId([u8; 16]);

impl TaskId {
    /// Puts the version and variant marks of a v4 UUID over 128 given bits.
    pub fn from_bits(bits: u128) -> TaskId {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        TaskId(bytes)
    }

    /// The id with exactly these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> TaskId {
        TaskId(bytes)
    }

    /// Its bytes, the first ones first.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Accepts exactly the form that `Display` gives. Everything else names no task.
    pub fn parse(text: &str) -> Option<TaskId> {
        let text = text.as_bytes();
        if text.len() != TEXT_BYTES {
            return None;
        }
        let mut bytes = [0u8; 16];
        let mut digits = 0;
        for (at, &c) in text.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if c != b'-' {
                    return None;
                }
                continue;
            }
            let value = match c {
                b'0'..=b'9' => c - b'0',
                b'a'..=b'f' => c - b'a' + 10,
                _ => return None,
            };
            bytes[digits / 2] = (bytes[digits / 2] << 4) | value;
            digits += 1;
        }
        Some(TaskId(bytes))
    }

    /// The UUID as text, without an allocation.
    pub fn text(&self) -> [u8; TEXT_BYTES] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut out = [b'-'; TEXT_BYTES];
        let mut at = 0;
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                at += 1;
            }
            out[at] = HEX[usize::from(byte >> 4)];
            out[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        out
    }

    /// The storage partition of this id among `shards`.
    pub fn shard(&self, shards: u32) -> u32 {
        shard_of(&self.text(), shards)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).expect("hex digits and dashes are UTF-8"))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// FNV-1a, 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(14_695_981_039_346_656_037, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
    })
}

/// The partition that `bytes` hash to.
pub fn shard_of(bytes: &[u8], shards: u32) -> u32 {
    if shards <= 1 {
        return 0;
    }
    u32::try_from(fnv1a(bytes) % u64::from(shards)).expect("a remainder is below its divisor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_shard_function() {
        let id = TaskId::parse("5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11").unwrap();
        assert_eq!(fnv1a(&id.text()), 7_879_448_087_624_111_623);
        assert_eq!(id.shard(4), 3);
        let zero = TaskId::parse("00000000-0000-4000-8000-000000000000").unwrap();
        assert_eq!(fnv1a(&zero.text()), 15_638_560_574_947_252_309);
        assert_eq!(zero.shard(4), 1);
        assert_eq!(zero.shard(1), 0);
    }

    #[test]
    fn text_round_trips_and_other_forms_name_nothing() {
        let id = TaskId::from_bits(0x5f0c_1a52_6b1e_fc0e_ffff_2f6f_0e9b_7a11);
        assert_eq!(TaskId::parse(&id.to_string()), Some(id));
        assert_eq!(&id.to_string()[14..15], "4");
        for bad in [
            "",
            "x",
            "5F0C1A52-6B1E-4C0E-9D3A-2F6F0E9B7A11",
            "5f0c1a526b1e4c0e9d3a2f6f0e9b7a11",
            "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a1",
            "5f0c1a52-6b1e-4c0e-9d3a_2f6f0e9b7a11",
            "{5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a1}",
            "5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a1é",
        ] {
            assert_eq!(TaskId::parse(bad), None, "{bad}");
        }
    }
}
