//! The record that goes with a deed: a store keeps it in the very transition that it tells of.
//!
//! Whoever calls a store for an operator wraps the call in [`noting`]. The store takes the record with the first
//! transition of the call, so that there is no deed without record and no record without deed. Where nothing
//! changed, or where one transition is not all of it, whoever called puts the record himself (see [`Note::is_kept`]).

use super::AuditEntry;
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A record for the next transition.
#[derive(Debug)]
pub struct Note {
    entry: Mutex<AuditEntry>,
    is_kept: AtomicBool,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Note>>> = const { RefCell::new(None) };
}

impl Note {
    /// A record that no transition has taken along yet.
    pub fn new(entry: AuditEntry) -> Arc<Note> {
        Arc::new(Note { entry: Mutex::new(entry), is_kept: AtomicBool::new(false) })
    }

    /// The record of the call that is under way, if it is one of an operator and no transition has taken it yet.
    pub fn open() -> Option<Arc<Note>> {
        CURRENT.with_borrow(Clone::clone).filter(|note| !note.is_kept())
    }

    /// The record itself.
    pub fn entry(&self) -> AuditEntry {
        self.entry.lock().expect("no one panics holding a record").clone()
    }

    /// Completes the record.
    pub fn amend(&self, change: impl FnOnce(&mut AuditEntry)) {
        change(&mut self.entry.lock().expect("no one panics holding a record"));
    }

    /// A transition has taken it.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }

    /// A transition has taken it along.
    pub fn kept(&self) {
        self.is_kept.store(true, Ordering::Release);
    }
}

/// Puts back what was there before, whatever happens meanwhile.
struct PutBack(Option<Arc<Note>>);

impl Drop for PutBack {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Does something with a record that the first transition of it takes.
pub fn noting<F: Future>(note: Arc<Note>, deed: F) -> impl Future<Output = F::Output> {
    during(Some(note), deed)
}

/// A step that prepares a deed or tidies up behind it: the record goes with another transition.
pub fn unnoted<F: Future>(step: F) -> impl Future<Output = F::Output> {
    during(None, step)
}

fn during<F: Future>(note: Option<Arc<Note>>, deed: F) -> impl Future<Output = F::Output> {
    let mut deed = Box::pin(deed);
    poll_fn(move |context| {
        let _before = PutBack(CURRENT.replace(note.clone()));
        deed.as_mut().poll(context)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_note_is_there_for_its_deed_until_it_is_kept() {
        let entry = AuditEntry {
            at: Time::from_millis(1),
            id: 7,
            who: "ann".into(),
            tenant: "acme".into(),
            verb: "pause".into(),
            target: "mail".into(),
            count: None,
            request_id: "r".into(),
        };
        let note = Note::new(entry);
        let deed = noting(note.clone(), async {
            assert!(unnoted(async { Note::open().is_none() }).await, "a step beside the deed");
            let open = Note::open().expect("the deed has a note");
            open.kept();
            Note::open().is_none()
        });
        assert!(Note::open().is_none());
        let polled = pin!(deed).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(true));
        assert!(Note::open().is_none() && note.is_kept());
        note.amend(|entry| entry.count = Some(3));
        assert_eq!(note.entry().count, Some(3));
    }
}
