//! Payload schemas: JSON Schema 2020-12, read by operators' leave and checked at every create.
//!
//! A schema and a payload together decide what a check costs: a schema may refer to itself, and what tenants write must not
//! stop the process that all of them share. So a schema is read into a table of nodes, each place of it once, whatever refers to
//! it; nothing is fetched from elsewhere; and a check counts its steps and its depth and ends with a refusal when
//! there are too many. `format` and the keywords of content are notes, as the standard has it.
//!
//! Start with [`node`] (what a schema says), then [`check`]; [`read`] turns text into nodes.

mod check;
mod node;
mod number;
mod pattern;
mod read;
mod refer;
#[cfg(test)]
mod tests;

use crate::limits;
use crate::refusal::Refusal;
use node::{Node, NodeId};
use serde_json::Value;
use std::collections::HashMap;

/// A schema that was read and may be asked about any payload.
#[derive(Debug)]
pub struct PayloadSchema {
    nodes: Vec<Node>,
    root: NodeId,
    /// For each part of the schema with an id of its own, its dynamic anchors.
    anchors: Vec<HashMap<Box<str>, NodeId>>,
    /// Whether anything asks what others have looked at.
    has_unevaluated: bool,
}

impl PayloadSchema {
    /// Refuses what is no schema, and schemas that refer to what is not in them or to themselves without end.
    pub fn read(text: &str) -> Result<PayloadSchema, Refusal> {
        let document: Value = serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))?;
        read::read(&document).map_err(|message| invalid(&message))
    }

    /// Refuses a payload that does not match, by a pointer to what does not.
    pub fn check(&self, payload: &str) -> Result<(), Refusal> {
        let fault = |field: String, message: &str| {
            let message = limits::cut(message, MESSAGE_BYTES).to_owned();
            Err(Refusal::PayloadInvalid { field, message })
        };
        let Ok(value) = serde_json::from_str(payload) else {
            return fault(String::new(), "is not JSON, or is nested too deep");
        };
        match check::check(self, &value, payload.len()) {
            Ok(()) => Ok(()),
            Err(found) => fault(found.pointer, &found.message),
        }
    }
}

/// Longest message about a schema or a payload.
const MESSAGE_BYTES: usize = 512;

fn invalid(message: &str) -> Refusal {
    let message = limits::cut(message, MESSAGE_BYTES).to_owned();
    Refusal::InvalidPolicy { field: "payloadSchema".into(), message }
}
