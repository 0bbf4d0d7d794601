//! What references of a schema mean: parts with an id of their own, anchors, and pointers.

use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::collections::HashMap;
use url::Url;

/// Parts of one schema with an id of their own.
const PARTS: usize = 100;

/// Keywords whose value is a schema, a list of schemas, or an object of schemas.
const ONE: [&str; 11] = [
    "additionalProperties",
    "propertyNames",
    "items",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAP: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// A place by its address: the document does not move while it is read.
pub(super) type Address = *const Value;

/// A part of the document with an id of its own; the first is the document.
pub(super) struct Part<'a> {
    url: Url,
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    pub dynamic: HashMap<&'a str, &'a Value>,
}

pub(super) struct Parts<'a> {
    pub list: Vec<Part<'a>>,
    /// The part to which each schema belongs.
    homes: HashMap<Address, usize>,
}

/// Where a reference leads.
pub(super) struct Target<'a> {
    pub value: &'a Value,
    pub part: usize,
    /// The name, if it is a dynamic anchor.
    pub dynamic: Option<&'a str>,
}

impl<'a> Parts<'a> {
    pub fn of(document: &'a Value) -> Result<Parts<'a>, String> {
        let url = Url::parse("schema:///").map_err(|error| error.to_string())?;
        let whole = Part { url, root: document, anchors: HashMap::new(), dynamic: HashMap::new() };
        let mut parts = Parts { list: vec![whole], homes: HashMap::new() };
        parts.scan(document, 0)?;
        Ok(parts)
    }

    /// The part of a schema that is found inside one of that part.
    pub fn home(&self, value: &'a Value, otherwise: usize) -> usize {
        self.homes.get(&std::ptr::from_ref(value)).copied().unwrap_or(otherwise)
    }

    fn scan(&mut self, value: &'a Value, part: usize) -> Result<(), String> {
        let Some(fields) = value.as_object() else { return Ok(()) };
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let part = match text("$id") {
            Some(id) => self.open_part(id, value, part)?,
            None => part,
        };
        self.homes.insert(std::ptr::from_ref(value), part);
        if let Some(name) = text("$anchor") {
            self.list[part].anchors.insert(name, value);
        }
        if let Some(name) = text("$dynamicAnchor") {
            self.list[part].anchors.insert(name, value);
            self.list[part].dynamic.insert(name, value);
        }
        for (name, value) in fields {
            let name = name.as_str();
            match value {
                _ if ONE.contains(&name) => self.scan(value, part)?,
                Value::Array(list) if LIST.contains(&name) => {
                    list.iter().try_for_each(|value| self.scan(value, part))?;
                }
                Value::Object(map) if MAP.contains(&name) => {
                    map.values().try_for_each(|value| self.scan(value, part))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn open_part(&mut self, id: &str, value: &'a Value, inside: usize) -> Result<usize, String> {
        let url =
            self.list[inside].url.join(id).ok().filter(|url| url.fragment().unwrap_or_default().is_empty());
        let mut url = url.ok_or_else(|| format!("$id: {id:?} is no address without a fragment"))?;
        url.set_fragment(None);
        if std::ptr::eq(value, self.list[0].root) {
            self.list[0].url = url;
            return Ok(0);
        }
        if self.list.len() > PARTS {
            return Err(format!("has more than {PARTS} schemas with an $id"));
        }
        self.list.push(Part { url, root: value, anchors: HashMap::new(), dynamic: HashMap::new() });
        Ok(self.list.len() - 1)
    }

    /// What a reference inside a part names, if it is in the document.
    pub fn resolve(&self, reference: &str, inside: usize) -> Result<Target<'a>, String> {
        let missing = || format!("refers to {reference:?}, which is not in this schema");
        let mut url = self.list[inside].url.join(reference).map_err(|_| missing())?;
        let fragment = url.fragment().unwrap_or_default().to_owned();
        url.set_fragment(None);
        let part = self.list.iter().position(|part| part.url == url).ok_or_else(missing)?;
        let found = &self.list[part];
        let name = percent_decode_str(&fragment).decode_utf8().map_err(|_| missing())?;
        if name.is_empty() {
            return Ok(Target { value: found.root, part, dynamic: None });
        }
        if let Some(pointer) = name.strip_prefix('/') {
            return self.walk(pointer, part).ok_or_else(missing);
        }
        let (_, value) = found.anchors.get_key_value(&*name).ok_or_else(missing)?;
        let dynamic = found.dynamic.get_key_value(&*name).map(|(name, _)| *name);
        Ok(Target { value, part, dynamic })
    }

    fn walk(&self, pointer: &str, part: usize) -> Option<Target<'a>> {
        let mut target = Target { value: self.list[part].root, part, dynamic: None };
        for segment in pointer.split('/') {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            target.value = match target.value {
                Value::Object(fields) => fields.get(&segment)?,
                Value::Array(items) => items.get(segment.parse::<usize>().ok()?)?,
                _ => return None,
            };
            target.part = self.home(target.value, target.part);
        }
        Some(target)
    }
}
