//! Reading request bodies, stricter than a JSON library is by itself.
//!
//! A body is UTF-8, holds exactly one value, nests at most [`DEPTH`] levels and names no key twice in one
//! object, the producer's payload included: two parsers must not see two different tasks in it.

use hashbrown::HashTable;
use serde::Deserialize;
use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use thiserror::Error;

/// Levels of arrays and objects.
pub const DEPTH: usize = 128;
/// Objects with more keys than this are checked with a hash set.
const FEW_KEYS: usize = 16;

/// Why a body is not one of ours. The text is for people.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Reads an object; an empty body is none.
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Malformed> {
    let text = std::str::from_utf8(body).map_err(|_| Malformed("not UTF-8".into()))?;
    check_shape(text)?;
    read_checked(text)
}

/// Reads an object out of a text whose shape has been checked as part of a larger one.
pub fn read_checked<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Malformed> {
    // Derived readers would take an array of the fields in order, too.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Malformed("not an object".into()));
    }
    serde_json::from_str(text).map_err(|error| Malformed(error.to_string()))
}

/// As [`read`], and an empty body, or `null`, means `{}`.
pub fn read_or_empty<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Malformed> {
    match body.trim_ascii() {
        b"" | b"null" => read(b"{}"),
        _ => read(body),
    }
}

/// Whether `text` is one JSON value within the bounds of a body.
pub fn check(text: &str) -> Result<(), Malformed> {
    check_shape(text)?;
    let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(text);
    parsed.map(|_| ()).map_err(|error| Malformed(error.to_string()))
}

/// An object that is open at the scanner's position. Arrays have no keys.
#[derive(Default)]
struct Level<'a> {
    is_object: bool,
    few: Vec<Cow<'a, str>>,
    /// Where the quotes around each key are: a body may be nothing but keys, and this is no larger than they.
    many: HashTable<(u32, u32)>,
}

impl<'a> Level<'a> {
    /// Whether the key between these quotes is new here.
    fn add(&mut self, text: &'a str, quotes: (u32, u32), hasher: &RandomState) -> bool {
        let key = key_at(text, quotes);
        if self.few.contains(&key) {
            return false;
        }
        if self.few.len() < FEW_KEYS {
            self.few.push(key);
            return true;
        }
        let hash = hasher.hash_one(&*key);
        let is_known = self.many.find(hash, |known| key_at(text, *known) == key).is_some();
        if !is_known {
            self.many.insert_unique(hash, quotes, |known| hasher.hash_one(&*key_at(text, *known)));
        }
        !is_known
    }
}

/// Depth and duplicate keys. Everything else that can be wrong with the text is found by the parser, so
/// this may read nonsense in any way it likes, as long as it ends.
fn check_shape(text: &str) -> Result<(), Malformed> {
    let bytes = text.as_bytes();
    if u32::try_from(bytes.len()).is_err() {
        return Err(Malformed("larger than 4 GiB".into()));
    }
    let hasher = RandomState::new();
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut expects_key = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            opening @ (b'{' | b'[') => {
                if levels.len() == DEPTH {
                    return Err(Malformed(format!("nested deeper than {DEPTH} levels")));
                }
                expects_key = opening == b'{';
                levels.push(Level { is_object: expects_key, ..Level::default() });
            }
            b'}' | b']' => {
                levels.pop();
                expects_key = false;
            }
            b',' => expects_key = levels.last().is_some_and(|level| level.is_object),
            b'"' => {
                let end = string_end(bytes, at + 1);
                if expects_key && let Some(level) = levels.last_mut() {
                    expects_key = false;
                    let quotes = (at as u32, end as u32);
                    if !level.add(text, quotes, &hasher) {
                        return Err(Malformed(format!("duplicate key {:?}", key_at(text, quotes))));
                    }
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Where the quote that closes the string is, or the end of the text.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// The key between two quotes, unescaped: `"a"` and `"\u0061"` are one key.
fn key_at(text: &str, (quote, end): (u32, u32)) -> Cow<'_, str> {
    let (quote, end) = (quote as usize, end as usize);
    let raw = text.get(quote + 1..end).unwrap_or_default();
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let unescaped = text.get(quote..=end).and_then(|quoted| serde_json::from_str::<String>(quoted).ok());
    unescaped.map_or(Cow::Borrowed(raw), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    fn parses(text: &str) -> bool {
        check(text).is_ok()
    }

    #[test]
    fn a_body_is_an_object() {
        for good in ["{}", " {\"a\":1}\n"] {
            assert!(read::<&RawValue>(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["", "[]", "[1]", "1", "null", "\"x\"", "{} {}", "{}x"] {
            assert!(read::<&RawValue>(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_value_and_nothing_after_it() {
        for good in ["1", " {\"a\":[1,{\"a\":2}]} \n", "\"x\"", "1e999", "\"\\ud800\"", "null"] {
            assert!(parses(good), "{good}");
        }
        for bad in ["", "{", "{}x", "{} {}", "{\"a\":}", "[1,]", "\"", "\"\\", "{a:1}", "\u{feff}{}", "01"] {
            assert!(!parses(bad), "{bad}");
        }
        assert_eq!(read::<Value>(b"\"\xff\"").unwrap_err().to_string(), "not UTF-8");
    }

    #[test]
    fn a_key_may_appear_once_in_an_object_however_it_is_spelled() {
        for good in ["{\"a\":1,\"b\":{\"a\":1}}", "[{\"a\":1},{\"a\":1}]", "{\"a\":\"a\",\"b\":\"a\"}"] {
            assert!(parses(good), "{good}");
        }
        for bad in ["{\"a\":1,\"a\":1}", "{\"p\":{\"a\":1,\"b\":2,\"a\":3}}", "{\"a\":1,\"\\u0061\":2}"] {
            assert!(!parses(bad), "{bad}");
        }
        let keys = |count: usize| (0..count).map(|i| format!("\"k{i}\":0,")).collect::<String>();
        assert!(parses(&format!("{{{}\"end\":0}}", keys(100_000))));
        for again in [0, 15, 16, 17, 99_999] {
            assert!(!parses(&format!("{{{}\"k{again}\":0}}", keys(100_000))), "{again}");
        }
    }

    #[test]
    fn nesting_is_bounded_at_exactly_128_levels() {
        let nested =
            |open: &str, close: &str, levels: usize| open.repeat(levels) + "1" + &close.repeat(levels);
        assert!(parses(&nested("[", "]", 128)));
        assert!(!parses(&nested("[", "]", 129)));
        assert!(parses(&nested("{\"a\":", "}", 128)));
        assert!(!parses(&nested("{\"a\":", "}", 129)));
        assert!(!parses(&nested("[", "]", 10_000)));
        assert!(!parses(&"[".repeat(1_000_000)));
    }

    #[test]
    fn an_empty_body_is_an_empty_object_where_it_may_be() {
        assert_eq!(read_or_empty::<Value>(b" \n").unwrap(), serde_json::json!({}));
        assert!(read::<Value>(b"").is_err());
    }
}
