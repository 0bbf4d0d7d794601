//! The value of every key, and which source it came from.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Mode;
use super::derive::DEV_ADDRESS;
use super::error::Fault;
use super::keys::{self, Default, KEYS, Key, PERSISTENCE};
use super::lines::Lines;
use super::values;

/// Where a value came from; later ones win.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Layer {
    Default,
    File,
    Environment,
    CodeqName,
    Flag,
}

/// What went wrong and what is merely odd, gathered over all sources.
#[derive(Default)]
pub(super) struct Findings {
    pub faults: Vec<Fault>,
    pub warnings: Vec<String>,
}

struct Entry {
    value: Value,
    layer: Layer,
    /// Written inside a map rather than under a name of its own.
    in_map: bool,
    /// The variable or the flag.
    name: Option<String>,
}

pub(super) struct Settings {
    mode: Mode,
    entries: BTreeMap<&'static str, Entry>,
    /// Features of other systems that were asked for: `raft`, `cluster`.
    pub unsupported: Vec<&'static str>,
    /// The file that was read, and where its keys stand.
    file: Option<(String, Lines)>,
}

const INVARIANT: &str = "every key of the table has a value of its kind";

impl Settings {
    pub fn defaults(mode: Mode) -> Settings {
        let mut settings = Settings { mode, entries: BTreeMap::new(), unsupported: Vec::new(), file: None };
        KEYS.iter().for_each(|key| settings.reset(key.path));
        settings
    }

    /// Takes the file, or the part of it under `prefix`.
    pub fn take_map(&mut self, map: Map<String, Value>, prefix: &str, layer: Layer, findings: &mut Findings) {
        for (name, value) in map {
            let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match keys::find(&path) {
                Some(key) => {
                    let read = values::from_value(key, value, &path);
                    self.take_result(key, read, layer, None, findings)
                }
                None => self.take_section(value, &path, layer, findings),
            }
        }
    }

    fn take_section(&mut self, value: Value, path: &str, layer: Layer, findings: &mut Findings) {
        if let Some(name) = ["raft", "cluster"].into_iter().find(|name| *name == path) {
            return self.note_unsupported(name, value.get("enabled") == Some(&Value::Bool(true)));
        }
        let inside = format!("{path}.");
        if !KEYS.iter().any(|key| key.path.starts_with(&inside)) {
            return self.refuse(vec![Fault::unknown(path)], layer, findings);
        }
        let value = if path == PERSISTENCE { values::decoded(value, path) } else { Ok(value) };
        match value {
            Ok(Value::Object(map)) => self.take_map(map, path, layer, findings),
            Ok(Value::Null) => {}
            Ok(_) => self.refuse(vec![Fault::of(path, format!("{path} must be a map"))], layer, findings),
            Err(faults) => self.refuse(faults, layer, findings),
        }
    }

    /// Takes the JSON text of a variable as the whole `persistenceConfig`.
    pub fn replace_persistence(&mut self, text: &str, name: &str, layer: Layer, findings: &mut Findings) {
        match values::json(text, name) {
            Ok(Value::Object(map)) => {
                KEYS.iter()
                    .filter(|key| keys::provider_of(key.path).is_some())
                    .for_each(|key| self.reset(key.path));
                self.take_map(map, PERSISTENCE, layer, findings);
            }
            Ok(_) => findings.faults.push(format!("{name} must be a JSON map").into()),
            Err(faults) => findings.faults.extend(faults),
        }
    }

    /// Takes the text of a variable or flag called `name`.
    pub fn take_text(
        &mut self,
        key: &'static Key,
        text: &str,
        name: &str,
        layer: Layer,
        findings: &mut Findings,
    ) {
        self.take_result(key, values::from_text(key, text, name), layer, Some(name), findings);
    }

    fn take_result(
        &mut self,
        key: &'static Key,
        read: Result<Option<Value>, Vec<Fault>>,
        layer: Layer,
        name: Option<&str>,
        findings: &mut Findings,
    ) {
        match read {
            Ok(Some(value)) => {
                let entry = Entry { value, layer, in_map: name.is_none(), name: name.map(str::to_owned) };
                self.entries.insert(key.path, entry);
            }
            Ok(None) => {}
            Err(faults) => self.refuse(faults, layer, findings),
        }
    }

    pub fn note_unsupported(&mut self, name: &'static str, enabled: bool) {
        if enabled && !self.unsupported.contains(&name) {
            self.unsupported.push(name);
        }
    }

    /// Back to the default, as if no source had named the key.
    pub fn reset(&mut self, path: &'static str) {
        let key = keys::find(path).expect("only keys of the table are reset");
        let value = default_of(key, self.mode);
        self.entries.insert(key.path, Entry { value, layer: Layer::Default, in_map: false, name: None });
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The file that the settings of its layer come from.
    pub fn note_file(&mut self, path: String, lines: Lines) {
        self.file = Some((path, lines));
    }

    /// The file and the line of a key, or the variable, that its value comes from.
    pub fn place(&self, path: &str) -> Option<String> {
        let outer = path.rmatch_indices('.').map(|(at, _)| &path[..at]);
        let entry = std::iter::once(path).chain(outer).find_map(|path| self.entries.get(path))?;
        match entry.layer {
            Layer::File => self.place_in_file(path),
            Layer::Environment | Layer::CodeqName => entry.name.clone(),
            Layer::Default | Layer::Flag => None,
        }
    }

    fn place_in_file(&self, path: &str) -> Option<String> {
        let (file, lines) = self.file.as_ref()?;
        Some(format!("{file}:{}", lines.of_key(path)?))
    }

    /// Faults of a source; those of the file with their lines.
    fn refuse(&self, faults: Vec<Fault>, layer: Layer, findings: &mut Findings) {
        findings.faults.extend(faults.into_iter().map(|mut fault| {
            if layer == Layer::File {
                fault.place = fault.key.as_deref().and_then(|key| self.place_in_file(key));
            }
            fault
        }));
    }

    /// Replaces a value by what follows from it or from others; its source stays.
    pub fn put(&mut self, path: &str, value: impl Into<Value>) {
        self.entries.get_mut(path).expect(INVARIANT).value = value.into();
    }

    fn entry(&self, path: &str) -> &Entry {
        self.entries.get(path).expect(INVARIANT)
    }

    pub fn layer(&self, path: &str) -> Layer {
        self.entry(path).layer
    }

    pub fn is_set(&self, path: &str) -> bool {
        self.layer(path) > Layer::Default
    }

    pub fn is_in_map(&self, path: &str) -> bool {
        self.entry(path).in_map
    }

    pub fn value(&self, path: &str) -> &Value {
        &self.entry(path).value
    }

    /// The text of a key; empty when it has none.
    pub fn text(&self, path: &str) -> &str {
        match self.value(path) {
            Value::Null => "",
            value => value.as_str().expect(INVARIANT),
        }
    }

    pub fn int(&self, path: &str) -> i64 {
        self.value(path).as_i64().expect(INVARIANT)
    }

    /// The truth of a key; false when it has none.
    pub fn is_true(&self, path: &str) -> bool {
        self.value(path).as_bool().unwrap_or(false)
    }

    pub fn map(&self, path: &str) -> &Map<String, Value> {
        self.value(path).as_object().expect(INVARIANT)
    }
}

fn default_of(key: &Key, mode: Mode) -> Value {
    match (mode, key.path) {
        (Mode::Dev, "env") => return Value::from("dev"),
        (Mode::Dev, "logFormat") => return Value::from("text"),
        (Mode::Dev, "bindAddress") => return Value::from(DEV_ADDRESS),
        _ => {}
    }
    plain_default(key)
}

/// The default of the table, whatever the mode.
pub(super) fn plain_default(key: &Key) -> Value {
    match key.default {
        Default::Unset => Value::Null,
        Default::True => Value::Bool(true),
        Default::False => Value::Bool(false),
        Default::Int(number) => Value::from(number),
        Default::Float(number) => Value::from(number),
        Default::Text(text) => Value::from(text),
        Default::Empty => Value::Object(Map::new()),
        Default::NoNames => Value::Array(Vec::new()),
    }
}
