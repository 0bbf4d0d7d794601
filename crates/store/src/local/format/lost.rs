//! Tasks whose body is damaged on the disk: what is shown and kept in its place.

use crate::local::format::records::Final;
use codeq_queue::Body;

/// The header of a task whose body is damaged on the disk. It stands in place of payload and headers.
const LOST: &str = "codeq-body-lost";
const LOST_TEXT: &str = "the body of this task is damaged on the disk";

/// What is shown and kept of a body of which this is left.
pub fn lost(left: Body) -> Body {
    let headers = Box::new([(LOST.to_owned(), LOST_TEXT.to_owned())]);
    Body { payload: "null".into(), headers, ..left }
}

pub fn is_lost(body: &Body) -> bool {
    body.headers.iter().any(|(name, text)| name == LOST && text == LOST_TEXT)
}

impl Final {
    /// A body that has only what is known without one.
    pub fn nameless_body(&self) -> Body {
        let mut named = self.key.iter().flat_map(|key| key.split(|byte| *byte == 0)).skip(1);
        let mut text = || named.next().and_then(|text| std::str::from_utf8(text).ok()).map(Box::from);
        Body {
            tenant: self.tenant.clone(),
            command: text().unwrap_or_else(|| "unknown".into()),
            idempotency_key: text(),
            payload: Box::default(),
            webhook: None,
            headers: Box::default(),
            trace_parent: None,
            trace_state: None,
            options: None,
        }
    }
}
