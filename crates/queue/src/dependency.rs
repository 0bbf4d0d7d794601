//! Tasks that wait for others.
//!
//! A task may name tasks and batches that have to end before it: until then it is held. [`Held`] says what is still
//! open, [`after`] what the end of one of them means for it.

use crate::create::Delay;
use crate::id::TaskId;
use crate::limits;
use crate::refusal::Refusal;
use std::sync::Arc;

/// What a held task waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Tasks and batches that have not ended; at least one.
    pub open: Box<[TaskId]>,
    /// Counts from the release.
    pub delay: Delay,
}

impl Held {
    /// Without one that has ended; `None` if nothing is open any more.
    pub fn without(&self, ended: &TaskId) -> Option<Held> {
        let open: Box<[TaskId]> = self.open.iter().filter(|id| *id != ended).copied().collect();
        (!open.is_empty()).then_some(Held { open, delay: self.delay })
    }
}

/// What becomes of a held task when something that it waits for did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnFailure {
    /// It fails, too.
    #[default]
    Cancel,
    /// It runs all the same.
    Run,
}

impl OnFailure {
    /// All of them.
    pub const ALL: [OnFailure; 2] = [OnFailure::Cancel, OnFailure::Run];

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            OnFailure::Cancel => "cancel",
            OnFailure::Run => "run",
        }
    }

    /// What a word of the wire names.
    pub fn parse(word: &str) -> Option<OnFailure> {
        OnFailure::ALL.into_iter().find(|known| known.word() == word)
    }
}

/// How a task or batch stands that others wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has not ended.
    Open,
    /// It completed.
    Succeeded,
    /// It failed, died, expired, was cancelled, or is no longer there.
    Failed,
}

impl Standing {
    /// Whether a new task has to wait for it. What has failed stays open until the task, once it is there, is told.
    pub fn holds(self, on_failure: OnFailure) -> bool {
        match self {
            Standing::Open => true,
            Standing::Succeeded => false,
            Standing::Failed => on_failure == OnFailure::Cancel,
        }
    }
}

/// What a held task does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeldStep {
    /// It does not wait for this one.
    Nothing,
    /// It goes on waiting for the others.
    Wait,
    /// Nothing is left to wait for: it becomes ready or delayed.
    Release,
    /// It ends as failed, for the reason [`DEPENDENCY`].
    Fail,
}

/// What it means for a held task that `id` has come to `standing`.
pub fn after(held: &Held, id: &TaskId, standing: Standing, on_failure: OnFailure) -> HeldStep {
    if standing == Standing::Open || !held.open.contains(id) {
        return HeldStep::Nothing;
    }
    if standing == Standing::Failed && on_failure == OnFailure::Cancel {
        return HeldStep::Fail;
    }
    if held.open.len() == 1 { HeldStep::Release } else { HeldStep::Wait }
}

/// The error text of a task that failed with one that it had waited for.
pub fn failed_text(id: &TaskId) -> Arc<str> {
    format!("{DEPENDENCY}: {id}").into()
}

/// The failure reason of a task whose dependency did not succeed.
pub const DEPENDENCY: &str = "DEPENDENCY";

/// The ids that a create names, each once.
pub fn check_after<T: AsRef<str>>(ids: &[T]) -> Result<Box<[TaskId]>, Refusal> {
    if ids.len() > limits::DEPENDENCIES {
        return Err(Refusal::InvalidAfter("at most 100 ids"));
    }
    let mut kept: Vec<TaskId> = Vec::with_capacity(ids.len());
    for id in ids {
        let id = TaskId::parse(id.as_ref())
            .ok_or_else(|| Refusal::UnknownDependency(limits::cut(id.as_ref(), ID_SHOWN_BYTES).into()))?;
        if !kept.contains(&id) {
            kept.push(id);
        }
    }
    Ok(kept.into())
}

/// What is repeated of a text that is no id.
const ID_SHOWN_BYTES: usize = 64;

/// An item of a batch create that names an earlier one: `#0`.
pub fn earlier_item(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('#')?;
    let is_plain = !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|c| c.is_ascii_digit());
    is_plain.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(bits: u128) -> TaskId {
        TaskId::from_bits(bits)
    }

    #[test]
    fn an_end_releases_fails_or_leaves_waiting() {
        let held =
            |open: &[u128]| Held { open: open.iter().map(|bits| id(*bits)).collect(), delay: Delay::None };
        use OnFailure::{Cancel, Run};
        use Standing::{Failed, Open, Succeeded};
        for (open, told, standing, on_failure, expected) in [
            (&[1, 2][..], 1, Succeeded, Cancel, HeldStep::Wait),
            (&[1], 1, Succeeded, Cancel, HeldStep::Release),
            (&[1], 1, Succeeded, Run, HeldStep::Release),
            (&[1], 1, Open, Cancel, HeldStep::Nothing),
            (&[1], 2, Failed, Cancel, HeldStep::Nothing),
            (&[1, 2], 2, Failed, Cancel, HeldStep::Fail),
            (&[1, 2], 2, Failed, Run, HeldStep::Wait),
            (&[2], 2, Failed, Run, HeldStep::Release),
        ] {
            let step = after(&held(open), &id(told), standing, on_failure);
            assert_eq!(step, expected, "{open:?} told {told} {standing:?} {on_failure:?}");
        }
        assert_eq!(held(&[1, 2]).without(&id(1)), Some(held(&[2])));
        assert_eq!(held(&[2]).without(&id(2)), None);
    }

    #[test]
    fn a_new_task_waits_for_what_is_open_and_hears_of_failures() {
        for (standing, on_failure, holds) in [
            (Standing::Open, OnFailure::Run, true),
            (Standing::Succeeded, OnFailure::Cancel, false),
            (Standing::Failed, OnFailure::Cancel, true),
            (Standing::Failed, OnFailure::Run, false),
        ] {
            assert_eq!(standing.holds(on_failure), holds, "{standing:?} {on_failure:?}");
        }
    }

    #[test]
    fn ids_are_few_and_count_once() {
        let ids = [id(1).to_string(), id(2).to_string(), id(1).to_string()];
        assert_eq!(*check_after(&ids).unwrap(), [id(1), id(2)]);
        assert!(check_after(&vec![id(1).to_string(); 101]).is_err());
        assert_eq!(check_after(&["nonsense"]), Err(Refusal::UnknownDependency("nonsense".into())));
    }

    #[test]
    fn earlier_items_are_named_by_number() {
        assert_eq!(earlier_item("#0"), Some(0));
        assert_eq!(earlier_item("#999"), Some(999));
        for bad in ["0", "#", "#-1", "#+1", "# 1", "#12345", ""] {
            assert_eq!(earlier_item(bad), None, "{bad}");
        }
    }
}
