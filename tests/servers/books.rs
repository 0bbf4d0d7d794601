//! The books of all clients: what was asked, what was acknowledged, who holds what, and everything wrong.

use super::clients::{Claimed, Deed, Lent, Report, Told, Trouble};
use super::order::{Order, serial_of};
use super::task_book::{End, TaskBook, Wrong, Wrongs};
use rand::rngs::SmallRng;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Texts kept of each kind of wrong.
const TEXTS: usize = 20;
/// As in the books of tasks: the two clocks may drift apart by so much.
const SLACK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Creates with an answer, repetitions included.
    pub creates: u64,
    /// Creates sent without an answer.
    pub unknown_creates: u64,
    /// Creates that were sent again with the same key.
    pub repeated_creates: u64,
    pub lent: u64,
    pub reports: u64,
    pub refused_reports: u64,
    pub unknown_reports: u64,
}

pub struct OrderBook {
    pub order: Order,
    pub first_sent: Instant,
    pub is_acknowledged: bool,
    /// Sent, and no answer to that.
    pub is_unknown: bool,
    pub id: Option<String>,
}

#[derive(Default)]
pub struct Pages {
    /// By serial number; an order that was never sent has none.
    pub orders: BTreeMap<u64, OrderBook>,
    pub tasks: HashMap<String, TaskBook>,
    pub counts: Counts,
    pub wrongs: BTreeMap<Wrong, (u64, Vec<String>)>,
    next_serial: u64,
}

#[derive(Default)]
pub struct Books(Mutex<Pages>);

impl Books {
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().expect("no one panics holding the books")
    }

    pub fn new_order(&self, random: &mut SmallRng) -> Order {
        let mut pages = self.pages();
        pages.next_serial += 1;
        Order::draw(pages.next_serial, random)
    }

    /// A keyed order of the past, to be sent again.
    pub fn old_order(&self, pick: u64) -> Option<Order> {
        let pages = self.pages();
        let serial = pick % pages.next_serial.max(1);
        let book = pages.orders.range(serial..).map(|(_, book)| book).find(|book| book.order.is_keyed)?;
        Some(book.order.clone())
    }

    /// Before a create is sent.
    pub fn asking(&self, orders: &[Order], now: Instant) {
        let mut pages = self.pages();
        for order in orders {
            let is_known = pages.orders.contains_key(&order.serial);
            pages.counts.repeated_creates += u64::from(is_known);
            pages.orders.entry(order.serial).or_insert_with(|| OrderBook {
                order: order.clone(),
                first_sent: now,
                is_acknowledged: false,
                is_unknown: false,
                id: None,
            });
        }
    }

    pub fn created(&self, order: &Order, answer: &Result<String, Trouble>) {
        let pages = &mut *self.pages();
        match answer {
            Ok(id) => {
                pages.counts.creates += 1;
                pages.name(order.serial, id);
                if let Some(book) = pages.orders.get_mut(&order.serial) {
                    book.is_acknowledged = true;
                }
                pages.tasks.entry(id.clone()).or_default().serial = order.serial;
            }
            Err(Trouble::Unknown) => {
                pages.counts.unknown_creates += 1;
                if let Some(book) = pages.orders.get_mut(&order.serial) {
                    book.is_unknown = true;
                }
            }
            Err(Trouble::Unsent) => {}
            Err(Trouble::Refused(text)) => {
                pages.note(Wrong::Unexpected, format!("order {} refused with {text}", order.serial));
            }
        }
    }

    pub fn lent(&self, claimed: &Claimed) {
        let pages = &mut *self.pages();
        for lent in &claimed.tasks {
            pages.counts.lent += 1;
            pages.check_origin(lent, claimed.received);
            let wrongs = pages.tasks.entry(lent.id.clone()).or_default().lend(lent, claimed);
            pages.note_all(wrongs);
        }
    }

    /// Before reports are sent.
    pub fn reporting(&self, reports: &[Report], now: Instant) {
        let mut pages = self.pages();
        for report in reports {
            let task = pages.tasks.entry(report.id.clone()).or_default();
            task.reporting(report.attempt, report.deed, &report.mark, now);
        }
    }

    pub fn reported(&self, report: &Report, answer: &Result<Told, Trouble>, sent: Instant) {
        let pages = &mut *self.pages();
        let task = pages.tasks.entry(report.id.clone()).or_default();
        let (id, attempt) = (&report.id, report.attempt);
        let wrongs = match answer {
            Ok(told) => {
                pages.counts.reports += 1;
                acknowledged(task, report, *told, sent)
            }
            Err(Trouble::Refused(text)) => {
                pages.counts.refused_reports += 1;
                task.refused(id, attempt, text, Instant::now())
            }
            Err(Trouble::Unknown) => {
                pages.counts.unknown_reports += 1;
                task.unsure(attempt);
                Wrongs::new()
            }
            Err(Trouble::Unsent) => Wrongs::new(),
        };
        pages.note_all(wrongs);
    }

    pub fn note(&self, wrong: Wrong, text: String) {
        self.pages().note(wrong, text);
    }
}

fn acknowledged(task: &mut TaskBook, report: &Report, told: Told, sent: Instant) -> Wrongs {
    let (id, attempt) = (&report.id, report.attempt);
    match (report.deed, told) {
        (Deed::Beat { extend }, _) => {
            task.extended(attempt, sent, extend);
            Wrongs::new()
        }
        (deed, Told::Done) => {
            let is_completed = deed == Deed::Complete;
            task.ended(id, End { attempt, is_completed, mark: report.mark.clone() })
        }
        (_, Told::Back { delay }) => task.returned(id, attempt, sent, delay),
        (_, Told::Dead) => task.died(id, attempt),
    }
}

impl Pages {
    pub fn note(&mut self, wrong: Wrong, text: String) {
        let (count, texts) = self.wrongs.entry(wrong).or_default();
        *count += 1;
        if texts.len() < TEXTS {
            texts.push(text);
        }
    }

    fn note_all(&mut self, wrongs: Wrongs) {
        for (wrong, text) in wrongs {
            self.note(wrong, text);
        }
    }

    /// An order makes one task, whoever tells its id.
    pub fn name(&mut self, serial: u64, id: &str) {
        let Some(book) = self.orders.get_mut(&serial) else {
            return self.note(Wrong::Unexpected, format!("{id} is of order {serial}, which nobody sent"));
        };
        let first = book.id.get_or_insert_with(|| id.to_owned()).clone();
        if first != id {
            self.note(Wrong::Unexpected, format!("order {serial} is {first} and {id}"));
        }
    }

    /// Whether a task that was lent is one that somebody ordered, and whether it was due.
    fn check_origin(&mut self, lent: &Lent, received: Instant) {
        let Some(serial) = serial_of(&lent.payload) else {
            return self.note(Wrong::Unexpected, format!("{} has a payload of nobody", lent.id));
        };
        self.name(serial, &lent.id);
        self.tasks.entry(lent.id.clone()).or_default().serial = serial;
        let Some(book) = self.orders.get(&serial) else { return };
        let due = book.first_sent + Duration::from_secs(book.order.delay_seconds.into());
        if received + SLACK < due {
            self.note(Wrong::Unexpected, format!("{} was lent before it was due", lent.id));
        }
    }

    pub fn wrong(&self, wrong: Wrong) -> u64 {
        self.wrongs.get(&wrong).map_or(0, |(count, _)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn order(books: &Books) -> Order {
        Order { delay_seconds: 1, ..books.new_order(&mut SmallRng::seed_from_u64(1)) }
    }

    fn claimed(id: &str, order: &Order) -> Claimed {
        let now = Instant::now();
        let payload = order.payload().into_bytes();
        let lent = Lent { id: id.into(), attempt: 1, payload, lease_until: String::new() };
        Claimed { sent: now, received: now, lease: Duration::from_secs(1), tasks: vec![lent] }
    }

    #[test]
    fn two_tasks_of_one_order_are_seen() {
        let books = Books::default();
        let order = order(&books);
        books.asking(std::slice::from_ref(&order), Instant::now());
        for id in ["a", "a", "b"] {
            books.created(&order, &Ok(id.into()));
        }
        assert_eq!(books.pages().wrong(Wrong::Unexpected), 1);
    }

    #[test]
    fn a_task_that_nobody_ordered_or_that_is_not_due_is_seen() {
        let books = Books::default();
        let order = order(&books);
        books.lent(&claimed("a", &order));
        assert_eq!(books.pages().wrong(Wrong::Unexpected), 1, "not sent");
        books.asking(std::slice::from_ref(&order), Instant::now());
        books.lent(&claimed("b", &order));
        assert_eq!(books.pages().wrong(Wrong::Unexpected), 2, "not due");
    }
}
