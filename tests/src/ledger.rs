//! The ledger: what was asked of a store and what it acknowledged, line by line.
//!
//! The process under test writes a line before it asks for something that changes a task (an intent) and
//! one after the answer (an acknowledgement). Whatever instant it is killed at, the ledger then says what
//! must be there, what may be there, and what must not.

use std::collections::HashMap;
use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    Created {
        id: String,
        key: Option<String>,
    },
    Lent {
        id: String,
        attempt: u32,
    },
    /// About to hand the attempt back or to end it.
    Intends {
        id: String,
        attempt: u32,
        end: bool,
    },
    Returned {
        id: String,
        attempt: u32,
    },
    Done {
        id: String,
        attempt: u32,
    },
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Created { id, key } => write!(f, "created {id} {}", key.as_deref().unwrap_or("-")),
            Line::Lent { id, attempt } => write!(f, "lent {id} {attempt}"),
            Line::Intends { id, attempt, end } => {
                write!(f, "{} {id} {attempt}", if *end { "ending" } else { "returning" })
            }
            Line::Returned { id, attempt } => write!(f, "returned {id} {attempt}"),
            Line::Done { id, attempt } => write!(f, "done {id} {attempt}"),
        }
    }
}

impl Line {
    /// `None` for a line that was cut short by the kill.
    pub fn parse(text: &str) -> Option<Line> {
        let mut words = text.split(' ');
        let (verb, id, last) = (words.next()?, words.next()?.to_owned(), words.next()?);
        if id.len() != 36 || words.next().is_some() {
            return None;
        }
        let attempt = || last.parse::<u32>().ok();
        Some(match verb {
            "created" => Line::Created { id, key: (last != "-").then(|| last.to_owned()) },
            "lent" => Line::Lent { id, attempt: attempt()? },
            "ending" => Line::Intends { id, attempt: attempt()?, end: true },
            "returning" => Line::Intends { id, attempt: attempt()?, end: false },
            "returned" => Line::Returned { id, attempt: attempt()? },
            "done" => Line::Done { id, attempt: attempt()? },
            _ => return None,
        })
    }
}

/// What the ledger knows of one task.
#[derive(Clone, Default, Debug)]
pub struct Account {
    pub is_created: bool,
    pub attempts: u32,
    /// The attempt that is out, as far as acknowledgements tell.
    pub lent: Option<u32>,
    /// An end or a return was asked for; it may or may not have happened.
    pub may_be_done: bool,
    pub may_be_returned: bool,
    pub is_done: bool,
}

#[derive(Default)]
pub struct Ledger {
    pub accounts: HashMap<String, Account>,
    pub keys: HashMap<String, String>,
    pub wrongs: Vec<String>,
    pub acknowledged: u64,
}

impl Ledger {
    pub fn add(&mut self, line: Line) {
        self.acknowledged += u64::from(!matches!(line, Line::Intends { .. }));
        match line {
            Line::Created { id, key } => {
                if let Some(key) = key {
                    let first = self.keys.entry(key.clone()).or_insert_with(|| id.clone());
                    if *first != id {
                        self.wrongs.push(format!("key {key} made {first} and {id}"));
                    }
                }
                self.accounts.entry(id).or_default().is_created = true;
            }
            Line::Lent { id, attempt } => self.lend(id, attempt),
            Line::Intends { id, attempt: _, end } => {
                let account = self.accounts.entry(id).or_default();
                account.may_be_done |= end;
                account.may_be_returned |= !end;
            }
            Line::Returned { id, .. } => self.accounts.entry(id).or_default().lent = None,
            Line::Done { id, attempt } => {
                let account = self.accounts.entry(id.clone()).or_default();
                if account.is_done {
                    self.wrongs.push(format!("{id} was completed twice, again by attempt {attempt}"));
                }
                (account.is_done, account.lent) = (true, None);
            }
        }
    }

    fn lend(&mut self, id: String, attempt: u32) {
        let account = self.accounts.entry(id.clone()).or_default();
        if account.is_done {
            self.wrongs.push(format!("{id} was lent after it was done"));
        }
        if account.lent.is_some() && !account.may_be_returned {
            self.wrongs
                .push(format!("{id} was lent twice at once, attempts {:?} and {attempt}", account.lent));
        }
        if attempt <= account.attempts {
            self.wrongs.push(format!("{id}: attempt {attempt} after attempt {}", account.attempts));
        }
        (account.attempts, account.lent) = (attempt, Some(attempt));
        account.may_be_returned = false;
    }

    /// Everyone who held a lease is gone for so long that every lease has run out.
    pub fn all_leases_ran_out(&mut self) {
        for account in self.accounts.values_mut() {
            account.lent = None;
        }
    }
}
