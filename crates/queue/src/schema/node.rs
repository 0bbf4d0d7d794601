//! What one place of a schema says.

use super::pattern::Pattern;
use serde_json::{Number, Value};
use std::collections::BTreeMap;

pub(super) type NodeId = usize;

#[derive(Debug, Default)]
pub(super) struct Node {
    /// The part of the schema with an id of its own to which it belongs.
    pub part: usize,
    /// Those that ask what others have looked at come last.
    pub rules: Vec<Rule>,
}

#[derive(Debug)]
pub(super) enum Rule {
    Never,
    Type(Types),
    /// One of these, with the number of steps that comparing costs.
    Values(Vec<Value>, usize),
    Number(NumberRule),
    Length {
        min: u64,
        max: u64,
    },
    Pattern(Pattern),
    Count {
        min: u64,
        max: u64,
    },
    Unique,
    Elements {
        first: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        min: u64,
        max: u64,
    },
    Size {
        min: u64,
        max: u64,
    },
    Required(Vec<Box<str>>),
    RequiredBy(BTreeMap<Box<str>, Vec<Box<str>>>),
    Names(NodeId),
    Properties(Properties),
    DependentOn(BTreeMap<Box<str>, NodeId>),
    All(Vec<NodeId>),
    Any(Vec<NodeId>),
    One(Vec<NodeId>),
    Not(NodeId),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Refer(NodeId),
    /// The outermost place with that dynamic anchor, or else the node.
    ReferDynamic(Box<str>, NodeId),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

#[derive(Debug, Default)]
pub(super) struct Properties {
    pub named: BTreeMap<Box<str>, NodeId>,
    pub matching: Vec<(Pattern, NodeId)>,
    pub others: Option<NodeId>,
}

#[derive(Debug)]
pub(super) enum NumberRule {
    MultipleOf(Number),
    AtLeast(Number),
    AtMost(Number),
    Above(Number),
    Below(Number),
}

impl Rule {
    /// Whether it asks what others have looked at.
    pub fn is_unevaluated(&self) -> bool {
        matches!(self, Rule::UnevaluatedItems(_) | Rule::UnevaluatedProperties(_))
    }

    /// The nodes that it applies to the very value it is applied to, apart from dynamic ones.
    pub fn in_place(&self) -> Vec<NodeId> {
        match self {
            Rule::All(nodes) | Rule::Any(nodes) | Rule::One(nodes) => nodes.clone(),
            Rule::Not(node) | Rule::Refer(node) | Rule::ReferDynamic(_, node) => vec![*node],
            Rule::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            Rule::DependentOn(nodes) => nodes.values().copied().collect(),
            _ => Vec::new(),
        }
    }
}

/// A set of JSON types.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Types(u8);

impl Types {
    pub const NAMES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

    /// Whether the word is one.
    pub fn add(&mut self, name: &str) -> bool {
        let place = Types::NAMES.iter().position(|known| *known == name);
        self.0 |= place.map_or(0, |place| 1 << place);
        place.is_some()
    }

    pub fn holds(self, value: &Value) -> bool {
        let place = match value {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Object(_) => 2,
            Value::Array(_) => 3,
            Value::Number(number) if super::number::is_whole(number) => {
                return self.0 & (1 << 4 | 1 << 6) != 0;
            }
            Value::Number(_) => 4,
            Value::String(_) => 5,
        };
        self.0 & (1 << place) != 0
    }

    pub fn names(self) -> String {
        let held = |place: &usize| self.0 & (1 << place) != 0;
        let names: Vec<&str> =
            (0..Types::NAMES.len()).filter(held).map(|place| Types::NAMES[place]).collect();
        names.join(" or ")
    }
}
