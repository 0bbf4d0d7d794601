//! Lists in requests. What is in memory of one is what may be in it: of a list that is longer than any rule allows, no
//! more is kept than it takes to refuse it. A megabyte of text would be a hundred of entries.

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// Entries that are kept; every rule allows fewer.
pub const KEPT: usize = 1024;

/// For `deserialize_with`: a list, or nothing.
pub fn kept<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Option::<Kept<T>>::deserialize(deserializer)?.map(|kept| kept.0))
}

/// For `deserialize_with`: a list.
pub fn kept_or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Kept::deserialize(deserializer)?.0)
}

struct Kept<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Kept<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kept<T>, D::Error> {
        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

struct Entries<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = Kept<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kept<T>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < KEPT {
            match list.next_element()? {
                Some(entry) => kept.push(entry),
                None => return Ok(Kept(kept)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Kept(kept))
    }
}

#[cfg(test)]
mod tests {
    use crate::task::{CreateBatch, CreateBody};
    use crate::work::{ClaimBody, SubmitBatch, SubmitBody};

    fn list(entry: &str, count: usize) -> String {
        vec![entry; count].join(",")
    }

    /// One body of 96 MB took a gigabyte and more.
    #[test]
    fn of_a_list_that_is_too_long_only_so_much_is_kept() {
        let text = format!("{{\"results\":[{}]}}", list("0", 100_000));
        let batch: SubmitBatch<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(batch.results.unwrap().len(), super::KEPT);
        let text = format!("{{\"tasks\":[{}]}}", list("{}", 100_000));
        let batch: CreateBatch<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(batch.tasks.unwrap().len(), super::KEPT);
        let text = format!("{{\"artifacts\":[{}]}}", list("{}", 100_000));
        let body: SubmitBody<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(body.artifacts.unwrap().len(), super::KEPT);
        let text = format!("{{\"commands\":[{}]}}", list("\"\"", 100_000));
        let body: ClaimBody<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(body.commands.unwrap().len(), super::KEPT);
        let (tags, after) = (list("\"t\"", 5000), list("\"a\"", 5000));
        let text = format!("{{\"command\":\"c\",\"payload\":1,\"tags\":[{tags}],\"after\":[{after}]}}");
        let body: CreateBody<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!((body.tags.unwrap().len(), body.after.unwrap().len()), (super::KEPT, super::KEPT));
    }

    #[test]
    fn shorter_ones_are_whole_and_what_is_left_out_or_null_is_none() {
        let read = |text: &str| serde_json::from_str::<ClaimBody<'_>>(text).map(|body| body.commands);
        assert_eq!(read("{\"commands\":[\"a\",\"b\"]}").unwrap(), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((read("{}").unwrap(), read("{\"commands\":null}").unwrap()), (None, None));
        assert_eq!(read("{\"commands\":[]}").unwrap(), Some(Vec::new()));
        for bad in ["{\"commands\":\"a\"}", "{\"commands\":[1]}", "{\"commands\":{}}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
