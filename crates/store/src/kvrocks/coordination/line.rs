//! The line of those who wait for work, and what is going on for them.

use codeq_queue::store::Claim;
use codeq_queue::{Commands, Failure, QueueKey, Task, Time};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

pub type Answer = oneshot::Sender<Result<Vec<Task>, Failure>>;

pub struct Waiter {
    pub claim: Claim,
    want: Want,
    pub answer: Answer,
    /// Has not been tried yet.
    pub is_new: bool,
    /// Its time is up; it is looked after once more.
    pub is_last: bool,
}

impl Waiter {
    pub fn new(claim: Claim, answer: Answer) -> Waiter {
        Waiter { want: Want::of(&claim), claim, answer, is_new: true, is_last: false }
    }
}

/// What claims want that are served together: a tenant and commands, none for any.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Want {
    pub tenant: Arc<str>,
    pub commands: Option<Arc<[Arc<str>]>>,
}

impl Want {
    fn of(claim: &Claim) -> Want {
        let commands = match &claim.commands {
            Commands::Any => None,
            Commands::These(commands) => Some(Arc::<[Arc<str>]>::from(commands.to_vec())),
        };
        Want { tenant: claim.tenant.clone(), commands }
    }

    /// None for any.
    pub fn queues(&self) -> impl Iterator<Item = QueueKey> {
        self.commands
            .iter()
            .flat_map(|commands| commands.iter())
            .map(|name| QueueKey::new(&self.tenant, name))
    }
}

/// Those who want the same.
pub struct Wish {
    pub want: Want,
    pub places: Vec<u64>,
    /// Those of them whose time was up when this began.
    pub last: Vec<u64>,
    /// Somebody is new, or something was heard.
    pub is_new: bool,
    pub is_rung: bool,
}

#[derive(Default)]
pub struct Line {
    pub next: u64,
    pub waiters: BTreeMap<u64, Waiter>,
    pub rung: HashSet<QueueKey>,
    /// When queues may have something that only time holds back.
    pub openings: HashMap<QueueKey, Time>,
    pub is_all_rung: bool,
    /// Who is being served, and whether anything was heard for them since.
    pub busy: HashMap<Want, bool>,
    /// For whom it is being looked whether there is something.
    pub looked_after: HashSet<Want>,
    /// To be served again.
    pub called: HashSet<Want>,
    /// A second has passed.
    pub is_look_due: bool,
    pub is_closed: bool,
}

impl Line {
    pub fn ring_opened(&mut self, now: Time) {
        let Line { openings, rung, .. } = self;
        openings.retain(|queue, at| {
            if *at <= now {
                rung.insert(queue.clone());
            }
            *at > now
        });
    }

    /// Those who are not being served are from now on.
    fn begin_serving(&mut self, called: Vec<Wish>) -> Vec<Wish> {
        let mut begun = Vec::new();
        for wish in called {
            match self.busy.get_mut(&wish.want) {
                Some(was_called) => *was_called = true,
                None => {
                    self.busy.insert(wish.want.clone(), false);
                    begun.push(wish);
                }
            }
        }
        begun
    }

    pub fn end_serving(&mut self, wish: Wish) {
        let was_called = self.busy.remove(&wish.want).unwrap_or_default();
        self.dismiss(&wish.last);
        // Somebody's time was up in the meantime.
        let is_last = |at: &u64| self.waiters.get(at).is_some_and(|waiter| waiter.is_last);
        if was_called || wish.places.iter().any(is_last) {
            self.called.insert(wish.want);
        }
    }

    /// For the first there may be something, for the others there is nothing. Gives who is to be served now.
    pub fn end_looking(&mut self, found: Vec<Wish>, rest: &[Wish]) -> Vec<Wish> {
        for wish in found.iter().chain(rest) {
            self.looked_after.remove(&wish.want);
        }
        rest.iter().for_each(|wish| self.dismiss(&wish.last));
        self.begin_serving(found)
    }

    /// Of those whom nothing calls, the ones to look after.
    fn begin_looking(&mut self, idle: Vec<Wish>, is_look_due: bool) -> Vec<Wish> {
        let mut begun = idle;
        begun.retain(|wish| {
            let is_time = is_look_due || !wish.last.is_empty();
            is_time && !self.busy.contains_key(&wish.want) && self.looked_after.insert(wish.want.clone())
        });
        begun
    }

    /// Answers these empty.
    fn dismiss(&mut self, places: &[u64]) {
        for at in places {
            if let Some(waiter) = self.waiters.remove(at) {
                let _ = waiter.answer.send(Ok(Vec::new()));
            }
        }
    }

    /// Those who are to be served: those who want the same together, in the order of the first. Whoever is new
    /// stands behind all who want the same, so they are served before him. Then those whom nothing calls, if it is
    /// time to look after them.
    pub fn wishes(&mut self) -> (Vec<Wish>, Vec<Wish>) {
        let (rung, is_all_rung) = (std::mem::take(&mut self.rung), std::mem::take(&mut self.is_all_rung));
        let is_look_due = std::mem::take(&mut self.is_look_due);
        let again = std::mem::take(&mut self.called);
        self.waiters.retain(|_, waiter| !waiter.answer.is_closed());
        let mut known: HashMap<Want, usize> = HashMap::new();
        let mut wishes: Vec<Wish> = Vec::new();
        for (at, waiter) in &mut self.waiters {
            let place = match known.get(&waiter.want) {
                Some(place) => *place,
                None => {
                    let want = waiter.want.clone();
                    let is_rung = is_all_rung
                        || again.contains(&want)
                        || rung.iter().any(|queue| wants(&waiter.claim, queue));
                    known.insert(want.clone(), wishes.len());
                    wishes.push(Wish { want, places: Vec::new(), last: Vec::new(), is_new: false, is_rung });
                    wishes.len() - 1
                }
            };
            let wish = &mut wishes[place];
            wish.is_new |= std::mem::take(&mut waiter.is_new);
            wish.places.push(*at);
            wish.last.extend(waiter.is_last.then_some(*at));
        }
        let (called, idle): (Vec<Wish>, Vec<Wish>) =
            wishes.into_iter().partition(|wish| wish.is_new || wish.is_rung);
        (self.begin_serving(called), self.begin_looking(idle, is_look_due))
    }
}

fn wants(claim: &Claim, queue: &QueueKey) -> bool {
    claim.tenant == queue.tenant
        && match &claim.commands {
            Commands::Any => true,
            Commands::These(commands) => commands.contains(&queue.command),
        }
}
