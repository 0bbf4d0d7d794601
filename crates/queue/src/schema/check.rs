//! Checking a payload, in a bounded number of steps and to a bounded depth.

use super::PayloadSchema;
use super::node::{NodeId, NumberRule, Properties, Rule};
use super::number::{compare, compare_numbers, is_multiple, weight};
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;
use std::collections::HashSet;

/// Steps of a check, besides those for every byte of the payload: about a tenth of a second.
const STEPS: usize = 1_000_000;
const STEPS_PER_BYTE: usize = 4;

/// Nodes within nodes: JSON is at most 127 deep, and a chain of references may be some deep at each place.
const DEPTH: usize = 256;

/// What does not match, and why.
pub(super) struct Fault {
    /// JSON pointer into the payload.
    pub pointer: String,
    pub message: String,
}

pub(super) fn check(schema: &PayloadSchema, payload: &Value, bytes: usize) -> Result<(), Fault> {
    let left = STEPS.saturating_add(bytes.saturating_mul(STEPS_PER_BYTE));
    let mut check =
        Check { schema, left, depth: 0, quiet: 0, path: Vec::new(), parts: Vec::new(), fault: None };
    match check.node(schema.root, payload) {
        Ok(_) => Ok(()),
        Err(Stop::TooMuch(message)) => Err(Fault { pointer: String::new(), message: message.into() }),
        Err(Stop::No) => {
            let unnamed = || Fault { pointer: String::new(), message: "does not match the schema".into() };
            Err(check.fault.take().unwrap_or_else(unnamed))
        }
    }
}

enum Stop {
    No,
    /// The schema asks for more than a check may cost.
    TooMuch(&'static str),
}

/// What of a value was looked at, for those that take care of the rest.
#[derive(Default)]
struct Looked<'v> {
    properties: HashSet<&'v str>,
    /// Items before this one.
    items: usize,
    /// Single items behind that.
    contained: HashSet<usize>,
}

enum Step<'v> {
    Property(&'v str),
    Item(usize),
}

struct Check<'s, 'v> {
    schema: &'s PayloadSchema,
    left: usize,
    depth: usize,
    /// How many callers only want to know whether it matches.
    quiet: usize,
    path: Vec<Step<'v>>,
    /// The parts of the schema on the way here, for dynamic references.
    parts: Vec<usize>,
    fault: Option<Fault>,
}

impl<'s, 'v> Check<'s, 'v> {
    fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        let left = self.left.checked_sub(steps);
        self.left =
            left.ok_or(Stop::TooMuch("takes too many steps to check against the schema of its queue"))?;
        Ok(())
    }

    fn no(&mut self, message: impl FnOnce() -> String) -> Stop {
        if self.quiet == 0 && self.fault.is_none() {
            let step = |step: &Step<'_>| match step {
                Step::Property(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
                Step::Item(index) => format!("/{index}"),
            };
            self.fault = Some(Fault { pointer: self.path.iter().map(step).collect(), message: message() });
        }
        Stop::No
    }

    fn demand(&mut self, holds: bool, message: impl FnOnce() -> String) -> Result<(), Stop> {
        if holds { Ok(()) } else { Err(self.no(message)) }
    }

    fn node(&mut self, id: NodeId, value: &'v Value) -> Result<Looked<'v>, Stop> {
        self.spend(1)?;
        if self.depth >= DEPTH {
            return Err(Stop::TooMuch("is nested too deep to check against the schema of its queue"));
        }
        let node = &self.schema.nodes[id];
        self.depth += 1;
        self.parts.push(node.part);
        let mut looked = Looked::default();
        let result = node.rules.iter().try_for_each(|rule| self.rule(rule, value, &mut looked));
        self.parts.pop();
        self.depth -= 1;
        result.map(|()| looked)
    }

    /// What it looked at if it matches; what does not is not told.
    fn tried(&mut self, id: NodeId, value: &'v Value) -> Result<Option<Looked<'v>>, Stop> {
        let path = self.path.len();
        self.quiet += 1;
        let result = self.node(id, value);
        self.quiet -= 1;
        self.path.truncate(path);
        match result {
            Ok(looked) => Ok(Some(looked)),
            Err(Stop::No) => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    /// Applies a node to the same value.
    fn here(&mut self, id: NodeId, value: &'v Value, looked: &mut Looked<'v>) -> Result<(), Stop> {
        let more = self.node(id, value)?;
        self.join(looked, more)
    }

    fn join(&mut self, looked: &mut Looked<'v>, more: Looked<'v>) -> Result<(), Stop> {
        self.spend(more.properties.len() + more.contained.len())?;
        looked.properties.extend(more.properties);
        looked.contained.extend(more.contained);
        looked.items = looked.items.max(more.items);
        Ok(())
    }

    /// Applies a node to what is inside.
    fn inside(&mut self, step: Step<'v>, id: NodeId, value: &'v Value) -> Result<(), Stop> {
        self.path.push(step);
        self.node(id, value)?;
        self.path.pop();
        Ok(())
    }

    fn rule(&mut self, rule: &'s Rule, value: &'v Value, looked: &mut Looked<'v>) -> Result<(), Stop> {
        match (rule, value) {
            (Rule::Never, _) => Err(self.no(|| "is not allowed here".into())),
            (Rule::Type(types), _) => {
                self.demand(types.holds(value), || format!("must be of type {}", types.names()))
            }
            (Rule::Values(values, cost), _) => {
                self.spend(*cost)?;
                let known = values.iter().any(|known| compare(known, value).is_eq());
                self.demand(known, || "is none of the values that the schema names".into())
            }
            (Rule::Number(rule), Value::Number(number)) => self.number(rule, number),
            (Rule::Length { min, max }, Value::String(text)) => {
                self.spend(text.len() / 64)?;
                let length = text.chars().count() as u64;
                let message = || format!("must have {} characters", between(*min, *max));
                self.demand((*min..=*max).contains(&length), message)
            }
            (Rule::Pattern(pattern), Value::String(text)) => {
                self.spend(pattern.cost(text))?;
                self.demand(pattern.matches(text), || "does not match the pattern".into())
            }
            (_, Value::Array(items)) => self.array(rule, value, items, looked),
            (_, Value::Object(fields)) => self.object(rule, value, fields, looked),
            _ => self.combined(rule, value, looked),
        }
    }

    fn number(&mut self, rule: &NumberRule, number: &Number) -> Result<(), Stop> {
        let order = |other| compare_numbers(number, other);
        let (holds, word, of) = match rule {
            NumberRule::MultipleOf(of) => (is_multiple(number, of), "a multiple of", of),
            NumberRule::AtLeast(of) => (order(of) != Ordering::Less, "at least", of),
            NumberRule::AtMost(of) => (order(of) != Ordering::Greater, "at most", of),
            NumberRule::Above(of) => (order(of) == Ordering::Greater, "above", of),
            NumberRule::Below(of) => (order(of) == Ordering::Less, "below", of),
        };
        self.demand(holds, || format!("must be {word} {of}"))
    }

    fn array(
        &mut self,
        rule: &'s Rule,
        value: &'v Value,
        items: &'v [Value],
        looked: &mut Looked<'v>,
    ) -> Result<(), Stop> {
        match rule {
            Rule::Count { min, max } => {
                let holds = (*min..=*max).contains(&(items.len() as u64));
                self.demand(holds, || format!("must have {} items", between(*min, *max)))
            }
            Rule::Unique => {
                let rounds = 1 + items.len().checked_ilog2().unwrap_or(0) as usize;
                self.spend(weight(value).saturating_mul(rounds))?;
                let mut sorted: Vec<&Value> = items.iter().collect();
                sorted.sort_unstable_by(|a, b| compare(a, b));
                let unique = sorted.windows(2).all(|pair| compare(pair[0], pair[1]).is_ne());
                self.demand(unique, || "must not have the same item twice".into())
            }
            Rule::Elements { first, rest } => {
                let nodes = first.iter().copied().map(Some).chain(std::iter::repeat(*rest));
                for ((index, item), node) in items.iter().enumerate().zip(nodes) {
                    let Some(node) = node else { break };
                    self.inside(Step::Item(index), node, item)?;
                    looked.items = looked.items.max(index + 1);
                }
                Ok(())
            }
            Rule::Contains { node, min, max } => {
                let mut found = 0;
                for (index, item) in items.iter().enumerate() {
                    if self.tried(*node, item)?.is_some() {
                        found += 1;
                        if self.schema.has_unevaluated {
                            looked.contained.insert(index);
                        }
                    }
                }
                let message = || format!("must contain {} items that match 'contains'", between(*min, *max));
                self.demand((*min..=*max).contains(&found), message)
            }
            Rule::UnevaluatedItems(node) => {
                for (index, item) in items.iter().enumerate().skip(looked.items) {
                    if !looked.contained.contains(&index) {
                        self.inside(Step::Item(index), *node, item)?;
                    }
                }
                looked.items = items.len();
                Ok(())
            }
            _ => self.combined(rule, value, looked),
        }
    }

    fn object(
        &mut self,
        rule: &'s Rule,
        value: &'v Value,
        fields: &'v Map<String, Value>,
        looked: &mut Looked<'v>,
    ) -> Result<(), Stop> {
        match rule {
            Rule::Size { min, max } => {
                let holds = (*min..=*max).contains(&(fields.len() as u64));
                self.demand(holds, || format!("must have {} properties", between(*min, *max)))
            }
            Rule::Required(names) => self.required(names, fields),
            Rule::RequiredBy(map) => {
                self.spend(map.len())?;
                let mut present = map.iter().filter(|(name, _)| fields.contains_key(&***name));
                present.try_for_each(|(_, names)| self.required(names, fields))
            }
            Rule::Names(node) => fields.keys().try_for_each(|name| self.name(*node, name)),
            Rule::Properties(properties) => self.properties(properties, fields, looked),
            Rule::DependentOn(nodes) => {
                self.spend(nodes.len())?;
                let mut present = nodes.iter().filter(|(name, _)| fields.contains_key(&***name));
                present.try_for_each(|(_, node)| self.here(*node, value, looked))
            }
            Rule::UnevaluatedProperties(node) => {
                for (name, value) in fields {
                    if looked.properties.insert(name) {
                        self.inside(Step::Property(name), *node, value)?;
                    }
                }
                Ok(())
            }
            _ => self.combined(rule, value, looked),
        }
    }

    /// A name is checked as a text of its own, which is nowhere in the payload.
    fn name(&mut self, node: NodeId, name: &'v str) -> Result<(), Stop> {
        self.spend(1 + name.len() / 64)?;
        let text = Value::String(name.to_owned());
        let (left, depth, parts) = (self.left, self.depth, self.parts.clone());
        let mut check =
            Check { schema: self.schema, left, depth, quiet: 1, path: Vec::new(), parts, fault: None };
        let result = check.node(node, &text).map(drop);
        self.left = check.left;
        match result {
            Err(Stop::No) => {
                Err(self
                    .no(|| format!("has the property {name:?}, whose name does not match 'propertyNames'")))
            }
            result => result,
        }
    }

    fn required(&mut self, names: &[Box<str>], fields: &Map<String, Value>) -> Result<(), Stop> {
        self.spend(names.len())?;
        match names.iter().find(|name| !fields.contains_key(&***name)) {
            Some(name) => Err(self.no(|| format!("lacks the property {name:?}"))),
            None => Ok(()),
        }
    }

    fn properties(
        &mut self,
        properties: &'s Properties,
        fields: &'v Map<String, Value>,
        looked: &mut Looked<'v>,
    ) -> Result<(), Stop> {
        for (name, value) in fields {
            self.spend(1)?;
            let mut is_known = false;
            if let Some(node) = properties.named.get(&**name) {
                is_known = true;
                self.inside(Step::Property(name), *node, value)?;
            }
            for (pattern, node) in &properties.matching {
                self.spend(pattern.cost(name))?;
                if pattern.matches(name) {
                    is_known = true;
                    self.inside(Step::Property(name), *node, value)?;
                }
            }
            if let Some(node) = properties.others.filter(|_| !is_known) {
                is_known = true;
                self.inside(Step::Property(name), node, value)?;
            }
            if is_known && self.schema.has_unevaluated {
                looked.properties.insert(name);
            }
        }
        Ok(())
    }

    fn combined(&mut self, rule: &'s Rule, value: &'v Value, looked: &mut Looked<'v>) -> Result<(), Stop> {
        match rule {
            Rule::All(nodes) => nodes.iter().try_for_each(|node| self.here(*node, value, looked)),
            Rule::Any(nodes) => {
                let found = self.matching(nodes, 1, value, looked)?;
                self.demand(found > 0, || "matches none of the schemas of 'anyOf'".into())
            }
            Rule::One(nodes) => {
                let found = self.matching(nodes, 2, value, looked)?;
                self.demand(found == 1, || "must match exactly one of the schemas of 'oneOf'".into())
            }
            Rule::Not(node) => {
                let matches = self.tried(*node, value)?.is_some();
                self.demand(!matches, || "matches what 'not' excludes".into())
            }
            Rule::If { condition, then, otherwise } => {
                let next = match self.tried(*condition, value)? {
                    Some(more) => {
                        self.join(looked, more)?;
                        then
                    }
                    None => otherwise,
                };
                next.map_or(Ok(()), |node| self.here(node, value, looked))
            }
            Rule::Refer(node) => self.here(*node, value, looked),
            Rule::ReferDynamic(name, node) => {
                let anchors = |part: &usize| self.schema.anchors[*part].get(name).copied();
                let outermost = self.parts.iter().find_map(anchors);
                self.here(outermost.unwrap_or(*node), value, looked)
            }
            _ => Ok(()),
        }
    }

    /// How many match. It ends with `enough`, unless it matters what all of them look at.
    fn matching(
        &mut self,
        nodes: &[NodeId],
        enough: usize,
        value: &'v Value,
        looked: &mut Looked<'v>,
    ) -> Result<usize, Stop> {
        let mut found = 0;
        for node in nodes {
            if let Some(more) = self.tried(*node, value)? {
                found += 1;
                self.join(looked, more)?;
            }
            if found == enough && !self.schema.has_unevaluated {
                break;
            }
        }
        Ok(found)
    }
}

fn between(min: u64, max: u64) -> String {
    match (min, max) {
        (_, u64::MAX) => format!("at least {min}"),
        (0, _) => format!("at most {max}"),
        _ => format!("{min} to {max}"),
    }
}
