//! From JSON to nodes: every place of a schema once, every fault told with its place.

use super::PayloadSchema;
use super::node::{Node, NodeId, NumberRule, Properties, Rule, Types};
use super::number::weight;
use super::pattern::Pattern;
use super::refer::{Address, Parts};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

/// Regular expressions of one schema, and what their automata may take together.
const PATTERNS: usize = 100;
const PATTERN_BYTES: usize = 512 * 1024;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

type Fields<'a> = Map<String, Value>;

/// Reads a whole schema. The message names the place, as a pointer into the schema.
pub(super) fn read(document: &Value) -> Result<PayloadSchema, String> {
    let mut reader = Reader {
        parts: Parts::of(document)?,
        nodes: Vec::new(),
        known: HashMap::new(),
        pending: Vec::new(),
        patterns: 0,
        pattern_bytes: 0,
    };
    let root = reader.place(document, 0)?;
    let mut anchors = Vec::new();
    for part in 0..reader.parts.list.len() {
        let named: Vec<_> = reader.parts.list[part].dynamic.iter().map(|(name, at)| (*name, *at)).collect();
        let placed = named.into_iter().map(|(name, at)| Ok((name.into(), reader.place(at, part)?)));
        anchors.push(placed.collect::<Result<HashMap<Box<str>, NodeId>, String>>()?);
    }
    while let Some((id, value, part)) = reader.pending.pop() {
        let located = |message: String| match pointer_to(document, value) {
            Some(pointer) if !pointer.is_empty() => format!("{pointer}: {message}"),
            _ => message,
        };
        reader.nodes[id] = reader.node(value, part).map_err(located)?;
    }
    let has_unevaluated = reader.nodes.iter().flat_map(|node| &node.rules).any(Rule::is_unevaluated);
    let schema = PayloadSchema { nodes: reader.nodes, root, anchors, has_unevaluated };
    match refers_to_itself(&schema) {
        true => Err("refers to itself without going deeper into the payload".into()),
        false => Ok(schema),
    }
}

/// Whether applying it to one value may never end: nodes are taken away that no other applies in place, until none is left.
fn refers_to_itself(schema: &PayloadSchema) -> bool {
    let next = |id: NodeId| -> Vec<NodeId> {
        let dynamic = |rule: &Rule| match rule {
            Rule::ReferDynamic(name, _) => {
                schema.anchors.iter().filter_map(|anchors| anchors.get(name).copied()).collect()
            }
            _ => Vec::new(),
        };
        let rules = &schema.nodes[id].rules;
        rules.iter().flat_map(|rule| rule.in_place().into_iter().chain(dynamic(rule))).collect()
    };
    let mut appliers = vec![0_usize; schema.nodes.len()];
    (0..schema.nodes.len()).flat_map(next).for_each(|id| appliers[id] += 1);
    let mut free: Vec<NodeId> = (0..appliers.len()).filter(|id| appliers[*id] == 0).collect();
    let mut left = appliers.len();
    while let Some(id) = free.pop() {
        left -= 1;
        for applied in next(id) {
            appliers[applied] -= 1;
            if appliers[applied] == 0 {
                free.push(applied);
            }
        }
    }
    left > 0
}

/// Where a place is in the document.
fn pointer_to(document: &Value, place: &Value) -> Option<String> {
    if std::ptr::eq(document, place) {
        return Some(String::new());
    }
    let inside = |name: &str, value: &Value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        pointer_to(value, place).map(|rest| format!("/{name}{rest}"))
    };
    match document {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| inside(name, value)),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, value)| inside(&index.to_string(), value))
        }
        _ => None,
    }
}

struct Reader<'a> {
    parts: Parts<'a>,
    nodes: Vec<Node>,
    known: HashMap<Address, NodeId>,
    /// Places that have a number and are not read yet.
    pending: Vec<(NodeId, &'a Value, usize)>,
    patterns: usize,
    pattern_bytes: usize,
}

impl<'a> Reader<'a> {
    fn place(&mut self, value: &'a Value, part: usize) -> Result<NodeId, String> {
        if !value.is_object() && !value.is_boolean() {
            return Err("a schema must be an object, true or false".into());
        }
        let address = std::ptr::from_ref(value);
        if let Some(id) = self.known.get(&address) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        self.nodes.push(Node::default());
        self.known.insert(address, id);
        self.pending.push((id, value, self.parts.home(value, part)));
        Ok(id)
    }

    fn node(&mut self, value: &'a Value, part: usize) -> Result<Node, String> {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Bool(true) => return Ok(Node { part, rules: Vec::new() }),
            _ => return Ok(Node { part, rules: vec![Rule::Never] }),
        };
        check_words(fields)?;
        let mut rules = Vec::new();
        values(fields, &mut rules)?;
        numbers(fields, &mut rules)?;
        rules.extend(range(fields, "minLength", "maxLength")?.map(|(min, max)| Rule::Length { min, max }));
        if let Some(pattern) = fields.get("pattern") {
            rules.push(Rule::Pattern(self.pattern(text("pattern", pattern)?)?));
        }
        self.arrays(fields, part, &mut rules)?;
        self.objects(fields, part, &mut rules)?;
        self.combined(fields, part, &mut rules)?;
        self.references(fields, part, &mut rules)?;
        rules.extend(self.one(fields, "unevaluatedItems", part)?.map(Rule::UnevaluatedItems));
        rules.extend(self.one(fields, "unevaluatedProperties", part)?.map(Rule::UnevaluatedProperties));
        // What nothing refers to is read as well, so that every fault is told at once.
        for name in ["$defs", "definitions", "contentSchema"] {
            match name {
                "contentSchema" => drop(self.one(fields, name, part)?),
                _ => drop(self.map(fields, name, part)?),
            }
        }
        Ok(Node { part, rules })
    }

    fn one(&mut self, fields: &'a Fields<'a>, name: &str, part: usize) -> Result<Option<NodeId>, String> {
        let placed = fields.get(name).map(|value| self.place(value, part)).transpose();
        placed.map_err(|message| format!("{name}: {message}"))
    }

    fn list(
        &mut self,
        fields: &'a Fields<'a>,
        name: &str,
        part: usize,
    ) -> Result<Option<Vec<NodeId>>, String> {
        let Some(value) = fields.get(name) else { return Ok(None) };
        let list = value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| format!("{name}: must be a list of schemas that is not empty"))?;
        let placed: Result<Vec<NodeId>, String> = list.iter().map(|value| self.place(value, part)).collect();
        placed.map(Some).map_err(|message| format!("{name}: {message}"))
    }

    fn map(
        &mut self,
        fields: &'a Fields<'a>,
        name: &str,
        part: usize,
    ) -> Result<Option<BTreeMap<Box<str>, NodeId>>, String> {
        let Some(value) = fields.get(name) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| format!("{name}: must be an object of schemas"))?;
        let mut placed = BTreeMap::new();
        for (key, value) in map {
            let id = self.place(value, part).map_err(|message| format!("{name}/{key}: {message}"))?;
            placed.insert(key.as_str().into(), id);
        }
        Ok(Some(placed))
    }

    fn pattern(&mut self, text: &str) -> Result<Pattern, String> {
        let pattern = Pattern::read(text).map_err(|message| format!("pattern {text:?} {message}"))?;
        self.patterns += 1;
        self.pattern_bytes += pattern.bytes;
        match self.patterns > PATTERNS || self.pattern_bytes > PATTERN_BYTES {
            true => Err(format!("has too many or too large regular expressions (at most {PATTERNS})")),
            false => Ok(pattern),
        }
    }

    fn arrays(&mut self, fields: &'a Fields<'a>, part: usize, rules: &mut Vec<Rule>) -> Result<(), String> {
        rules.extend(range(fields, "minItems", "maxItems")?.map(|(min, max)| Rule::Count { min, max }));
        if flag(fields, "uniqueItems")? {
            rules.push(Rule::Unique);
        }
        let first = self.list(fields, "prefixItems", part)?.unwrap_or_default();
        let rest = self.one(fields, "items", part)?;
        if !first.is_empty() || rest.is_some() {
            rules.push(Rule::Elements { first, rest });
        }
        let (min, max) = range(fields, "minContains", "maxContains")?.unwrap_or((1, u64::MAX));
        let min = if fields.contains_key("minContains") { min } else { 1 };
        rules.extend(self.one(fields, "contains", part)?.map(|node| Rule::Contains { node, min, max }));
        Ok(())
    }

    fn objects(&mut self, fields: &'a Fields<'a>, part: usize, rules: &mut Vec<Rule>) -> Result<(), String> {
        rules.extend(
            range(fields, "minProperties", "maxProperties")?.map(|(min, max)| Rule::Size { min, max }),
        );
        if let Some(names) = fields.get("required") {
            rules.push(Rule::Required(property_names("required", names)?));
        }
        if let Some(map) = fields.get("dependentRequired") {
            let map = map.as_object().ok_or("dependentRequired: must be an object of lists of names")?;
            let read = map
                .iter()
                .map(|(name, names)| Ok((name.as_str().into(), property_names("dependentRequired", names)?)));
            rules.push(Rule::RequiredBy(read.collect::<Result<_, String>>()?));
        }
        rules.extend(self.one(fields, "propertyNames", part)?.map(Rule::Names));
        let mut properties = Properties {
            named: self.map(fields, "properties", part)?.unwrap_or_default(),
            matching: Vec::new(),
            others: self.one(fields, "additionalProperties", part)?,
        };
        for (expression, node) in self.map(fields, "patternProperties", part)?.unwrap_or_default() {
            properties.matching.push((self.pattern(&expression)?, node));
        }
        let says_nothing =
            properties.named.is_empty() && properties.matching.is_empty() && properties.others.is_none();
        if !says_nothing {
            rules.push(Rule::Properties(properties));
        }
        rules.extend(self.map(fields, "dependentSchemas", part)?.map(Rule::DependentOn));
        Ok(())
    }

    fn combined(&mut self, fields: &'a Fields<'a>, part: usize, rules: &mut Vec<Rule>) -> Result<(), String> {
        rules.extend(self.list(fields, "allOf", part)?.map(Rule::All));
        rules.extend(self.list(fields, "anyOf", part)?.map(Rule::Any));
        rules.extend(self.list(fields, "oneOf", part)?.map(Rule::One));
        rules.extend(self.one(fields, "not", part)?.map(Rule::Not));
        let then = self.one(fields, "then", part)?;
        let otherwise = self.one(fields, "else", part)?;
        let condition = self.one(fields, "if", part)?;
        rules.extend(condition.map(|condition| Rule::If { condition, then, otherwise }));
        Ok(())
    }

    fn references(
        &mut self,
        fields: &'a Fields<'a>,
        part: usize,
        rules: &mut Vec<Rule>,
    ) -> Result<(), String> {
        for name in ["$ref", "$dynamicRef"] {
            let Some(reference) = fields.get(name) else { continue };
            let target = self.parts.resolve(text(name, reference)?, part);
            let target = target.map_err(|message| format!("{name}: {message}"))?;
            let node =
                self.place(target.value, target.part).map_err(|message| format!("{name}: {message}"))?;
            rules.push(match target.dynamic.filter(|_| name == "$dynamicRef") {
                Some(anchor) => Rule::ReferDynamic(anchor.into(), node),
                None => Rule::Refer(node),
            });
        }
        Ok(())
    }
}

/// Keywords that say what kind of schema it is.
fn check_words(fields: &Fields<'_>) -> Result<(), String> {
    for name in ["$id", "$anchor", "$dynamicAnchor"] {
        fields.get(name).map_or(Ok(""), |value| text(name, value))?;
    }
    let draft = fields.get("$schema").map_or(Ok(DRAFT), |value| text("$schema", value))?;
    match draft.trim_end_matches('#') == DRAFT {
        true => Ok(()),
        false => Err(format!("$schema: must be {DRAFT}")),
    }
}

fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{name}: must be a text"))
}

fn flag(fields: &Fields<'_>, name: &str) -> Result<bool, String> {
    let Some(value) = fields.get(name) else { return Ok(false) };
    value.as_bool().ok_or_else(|| format!("{name}: must be true or false"))
}

fn property_names(name: &str, value: &Value) -> Result<Vec<Box<str>>, String> {
    let names =
        value.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(Into::into)).collect());
    names.ok_or_else(|| format!("{name}: must be a list of names"))
}

fn range(fields: &Fields<'_>, least: &str, most: &str) -> Result<Option<(u64, u64)>, String> {
    let number = |name: &str| {
        let Some(value) = fields.get(name) else { return Ok(None) };
        let whole = value.as_u64().or_else(|| {
            value
                .as_f64()
                .filter(|number| *number >= 0.0 && number.fract() == 0.0)
                .map(|number| number as u64)
        });
        whole.map(Some).ok_or_else(|| format!("{name}: must be a whole number of at least 0"))
    };
    Ok(match (number(least)?, number(most)?) {
        (None, None) => None,
        (min, max) => Some((min.unwrap_or(0), max.unwrap_or(u64::MAX))),
    })
}

fn values(fields: &Fields<'_>, rules: &mut Vec<Rule>) -> Result<(), String> {
    if let Some(value) = fields.get("type") {
        let mut types = Types::default();
        let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let known = names.iter().all(|name| name.as_str().is_some_and(|name| types.add(name)));
        if !known || names.is_empty() {
            return Err(format!("type: must be one or several of {}", Types::NAMES.join(", ")));
        }
        rules.push(Rule::Type(types));
    }
    if let Some(value) = fields.get("enum") {
        let list = value.as_array().ok_or("enum: must be a list")?;
        rules.push(Rule::Values(list.clone(), weight(value)));
    }
    rules.extend(fields.get("const").map(|value| Rule::Values(vec![value.clone()], weight(value))));
    Ok(())
}

fn numbers(fields: &Fields<'_>, rules: &mut Vec<Rule>) -> Result<(), String> {
    type Kind = fn(serde_json::Number) -> NumberRule;
    let kinds: [(&str, Kind); 5] = [
        ("multipleOf", NumberRule::MultipleOf),
        ("minimum", NumberRule::AtLeast),
        ("maximum", NumberRule::AtMost),
        ("exclusiveMinimum", NumberRule::Above),
        ("exclusiveMaximum", NumberRule::Below),
    ];
    for (name, kind) in kinds {
        let Some(value) = fields.get(name) else { continue };
        let number = value.as_number().ok_or_else(|| format!("{name}: must be a number"))?;
        if name == "multipleOf" && number.as_f64().is_some_and(|number| number <= 0.0) {
            return Err("multipleOf: must be above 0".into());
        }
        rules.push(Rule::Number(kind(number.clone())));
    }
    Ok(())
}
