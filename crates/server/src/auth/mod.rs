//! Who calls, and what they may do.
//!
//! A [`Gate`] stands before every route. It takes the raw `Authorization` header, has the token
//! verified by the provider of the side (producer or worker), reads the claims and answers with a
//! type that states the right it found: [`Producer`], [`Worker`], [`Admin`], [`Operator`] or [`Reader`]. A handler
//! asks for the right it needs by the type of its argument.
//!
//! Verified tokens are remembered, so the signature of a token is checked once in five minutes and
//! not once per request. Nothing is remembered about a token that was refused.
//!
//! Promise: no text that leaves this module contains a token.
//! Not done here: whether a command is among the caller's event types, and rate limits.
//!
//! Start with `gate.rs` (the route groups), then `claims.rs` (what a token says), then `jwks/`.

mod bearer;
mod caller;
mod claims;
mod denied;
mod gate;
mod jwks;
mod known;
mod provider;
mod scope;
mod tenant;
#[cfg(test)]
mod tests;

pub use caller::{Access, Admin, Caller, EventTypes, Operator, Producer, Reader, Worker};
pub use denied::Denied;
pub use gate::{Gate, GateOptions};
pub use provider::ProviderConfig;
pub use scope::{Scope, Scopes};
pub use tenant::is_name as is_tenant;
