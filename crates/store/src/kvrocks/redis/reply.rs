//! Reading what scripts answer: a status word and values.

use crate::kvrocks::redis::connection::Reply;
use codeq_queue::{Failure, Refusal};

/// What one script answered.
#[derive(Debug)]
pub struct Answered {
    pub word: String,
    /// Something may start now that a limit or an order held back before.
    pub has_freed: bool,
    values: std::vec::IntoIter<Reply>,
}

impl Answered {
    pub fn of(reply: Reply) -> Result<Answered, Failure> {
        let Reply::List(items) = reply else { return Err(strange(&reply)) };
        let mut items = items;
        let has_freed = matches!(items.last(), Some(Reply::Text(last)) if last == b"FREED");
        items.truncate(items.len() - usize::from(has_freed));
        let mut values = items.into_iter();
        let Some(Reply::Text(word)) = values.next() else { return Err(strange(&Reply::Nil)) };
        let word = String::from_utf8_lossy(&word).into_owned();
        match word.as_str() {
            "WRONGTYPE" => {
                let key = values.next().map(text).unwrap_or_default();
                Err(Failure::Internal(format!("{} is of a wrong type", String::from_utf8_lossy(&key))))
            }
            "REFUSED" => {
                let (key, why) = (values.next().map(string), values.next().map(string));
                let text = format!("{}: {}", key.unwrap_or_default(), why.unwrap_or_default());
                Err(crate::kvrocks::redis::writer::refusal(&text))
            }
            "MOVING" => Err(Failure::unavailable("the task moves to another shard")),
            "DAMAGED" => Err(Failure::Internal("a record is damaged".into())),
            _ => Ok(Answered { word, has_freed, values }),
        }
    }

    pub fn next(&mut self) -> Reply {
        self.values.next().unwrap_or(Reply::Nil)
    }

    pub fn text(&mut self) -> Vec<u8> {
        text(self.next())
    }

    pub fn int(&mut self) -> i64 {
        int(&self.next())
    }

    pub fn list(&mut self) -> Vec<Reply> {
        list(self.next())
    }

    /// The refusal that the word stands for.
    pub fn refusal(&self) -> Option<Refusal> {
        Some(match self.word.as_str() {
            "NOT_FOUND" => Refusal::NotFound,
            "CANCELLED" => Refusal::Cancelled,
            "LEASE_LOST" => Refusal::LeaseLost,
            "NOT_IN_PROGRESS" => Refusal::NotInProgress,
            "NOT_OWNER" => Refusal::NotOwner,
            "ALREADY_TERMINAL" => Refusal::AlreadyTerminal,
            "NOT_DEAD" => Refusal::NotDead,
            "NOT_DELAYED" => Refusal::NotDelayed,
            "UNIQUE_CONFLICT" => Refusal::UniqueConflict,
            "NOT_EMPTY" => Refusal::QueueNotEmpty,
            _ => return None,
        })
    }
}

fn strange(reply: &Reply) -> Failure {
    Failure::Internal(format!("unexpected reply {reply:?}"))
}

pub fn text(reply: Reply) -> Vec<u8> {
    match reply {
        Reply::Text(bytes) => bytes,
        Reply::Int(number) => number.to_string().into_bytes(),
        _ => Vec::new(),
    }
}

pub fn string(reply: Reply) -> String {
    String::from_utf8_lossy(&text(reply)).into_owned()
}

pub fn int(reply: &Reply) -> i64 {
    match reply {
        Reply::Int(number) => *number,
        Reply::Text(bytes) => String::from_utf8_lossy(bytes).parse().unwrap_or(0),
        _ => 0,
    }
}

pub fn count(reply: &Reply) -> u64 {
    u64::try_from(int(reply)).unwrap_or(0)
}

pub fn list(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::List(items) => items,
        _ => Vec::new(),
    }
}

pub fn strings(reply: Reply) -> Vec<String> {
    list(reply).into_iter().map(string).collect()
}

/// The text of a value that may be absent.
pub fn found(reply: Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Text(bytes) => Some(bytes),
        _ => None,
    }
}
