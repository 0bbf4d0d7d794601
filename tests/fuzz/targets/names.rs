//! Words that come in paths and bodies: ids, commands, and everything a producer names in a create, its
//! webhook included.

use codeq_queue::create::CreateRequest;
use codeq_queue::queue::check_command;
use codeq_queue::{TaskId, Time};

pub fn read(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = TaskId::parse(&text);
    drop(check_command(&text));
    let mut lines = text.split('\n').map(str::to_owned);
    let mut next = || lines.next().unwrap_or_default();
    let request = CreateRequest {
        tenant: "acme".into(),
        command: next(),
        payload: "{}".into(),
        webhook: Some(next()).filter(|url| !url.is_empty()),
        idempotency_key: Some(next()),
        ..CreateRequest::default()
    };
    drop(request.check(5, 1 << 20, Time::ZERO));
}
