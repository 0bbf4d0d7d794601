//! On which line of a file each setting stands.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The lines of the keys of a file, by their paths.
#[derive(Default, Debug)]
pub(super) struct Lines(BTreeMap<String, u64>);

impl Lines {
    /// Of a document that could be read before.
    pub fn of(text: &str, options: serde_saphyr::Options) -> Lines {
        let mut lines = BTreeMap::new();
        if let Ok(root) = serde_saphyr::from_str_with_options::<Node>(text, options) {
            root.tell("", &mut lines);
        }
        Lines(lines)
    }

    /// The line of the key, or of the innermost map around it that has one.
    pub fn of_key(&self, path: &str) -> Option<u64> {
        let outer = path.rmatch_indices('.').map(|(at, _)| &path[..at]);
        std::iter::once(path).chain(outer).find_map(|path| self.0.get(path)).copied()
    }
}

/// A value of which only its keys and their lines matter.
struct Node(Vec<(Spanned<String>, Node)>);

impl Node {
    fn tell(self, prefix: &str, lines: &mut BTreeMap<String, u64>) {
        for (name, inner) in self.0 {
            let path = if prefix.is_empty() { name.value } else { format!("{prefix}.{}", name.value) };
            lines.insert(path.clone(), name.referenced.line());
            inner.tell(&path, lines);
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry::<Spanned<String>, Node>()? {
            entries.push(entry);
        }
        Ok(Node(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node(Vec::new()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }
}
