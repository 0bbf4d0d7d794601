//! Who listens to events, among all processes, and who has callers that wait for results.
//!
//! Events are sent only while another process listens. Whoever does says so on the channel
//! (`l <database>-<process>`), again and again; it holds for [`LISTENS`]. Whoever has just begun to hear asks
//! (`w <database>-<process>`), and is answered the same way. So nobody is polled, and nobody listening costs
//! nothing. With the ends of tasks it is the same: whoever has callers that wait for some says so
//! (`v <database>-<process>`). Channels are the same in every database of a server: who listens in another is nobody to us.

use codeq_queue::shared::{Hearer, LISTENS, NoticeHearer};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Until when somebody wants to hear something, in milliseconds since a start: another process, and this one.
#[derive(Default)]
struct Audience {
    others_until: AtomicU64,
    ours_until: AtomicU64,
}

/// How long before it is over an announcement of callers who wait is repeated.
const REPEATED_BEFORE: Duration = Duration::from_secs(15);

pub struct Presence {
    /// What the name of every process over our database begins with.
    mark: String,
    /// Tells this process from the others.
    name: String,
    start: Instant,
    events: Audience,
    ends: Audience,
    hearer: OnceLock<Hearer>,
    notices: OnceLock<NoticeHearer>,
    /// Told when this process begins to hear the others.
    pub hears: Notify,
}

impl Presence {
    pub fn new(database: u32) -> Presence {
        let mark = format!("{database}-");
        Presence {
            name: format!("{mark}{:016x}", rand::random::<u64>()),
            mark,
            start: Instant::now(),
            events: Audience::default(),
            ends: Audience::default(),
            hearer: OnceLock::new(),
            notices: OnceLock::new(),
            hears: Notify::new(),
        }
    }

    fn after(&self, wait: Duration) -> u64 {
        u64::try_from((self.start.elapsed() + wait).as_millis()).unwrap_or(u64::MAX)
    }

    fn is_before(&self, until: &AtomicU64) -> bool {
        self.after(Duration::ZERO) < until.load(Ordering::Relaxed)
    }

    /// This process listens from now on; what to say about it.
    pub fn announcement(&self) -> String {
        self.events.ours_until.store(self.after(LISTENS), Ordering::Relaxed);
        format!("l {}", self.name)
    }

    /// This process has a caller who waits for a result: what to say about it, if it is time to, and whether it was
    /// forgotten by now.
    pub fn awaiting(&self) -> Option<(String, bool)> {
        let until = self.ends.ours_until.load(Ordering::Relaxed);
        if self.after(REPEATED_BEFORE) < until {
            return None;
        }
        let is_first = !self.is_before(&self.ends.ours_until);
        self.ends.ours_until.store(self.after(LISTENS), Ordering::Relaxed);
        Some((format!("v {}", self.name), is_first))
    }

    pub fn question(&self) -> String {
        format!("w {}", self.name)
    }

    /// Somebody asks: what to say if this process listens, or has callers who wait.
    pub fn answers(&self) -> impl Iterator<Item = String> {
        let said = |audience: &Audience, word| {
            self.is_before(&audience.ours_until).then(|| format!("{word} {}", self.name))
        };
        said(&self.events, 'l').into_iter().chain(said(&self.ends, 'v'))
    }

    /// A process has said that it listens.
    pub fn heard_of(&self, process: &str) {
        self.note(&self.events, process);
    }

    /// A process has said that it has callers who wait for results.
    pub fn heard_of_callers(&self, process: &str) {
        self.note(&self.ends, process);
    }

    fn note(&self, audience: &Audience, process: &str) {
        if process != self.name && process.starts_with(&self.mark) {
            audience.others_until.store(self.after(LISTENS), Ordering::Relaxed);
        }
    }

    pub fn is_heard(&self) -> bool {
        self.is_before(&self.events.others_until)
    }

    /// Whether another process has callers who wait for the ends of tasks.
    pub fn is_awaited(&self) -> bool {
        self.is_before(&self.ends.others_until)
    }

    pub fn hear(&self, hearer: Hearer) {
        let _ = self.hearer.set(hearer);
    }

    /// The process as the others know it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A notice as it is sent: `<database>-<text>`.
    pub fn notice(&self, text: &str) -> String {
        format!("{}{text}", self.mark)
    }

    pub fn hear_notices(&self, hearer: NoticeHearer) {
        let _ = self.notices.set(hearer);
    }

    /// A notice has come, perhaps of another database.
    pub fn tell_notice(&self, sent: &str) {
        if let (Some(hearer), Some(text)) = (self.notices.get(), sent.strip_prefix(&self.mark)) {
            hearer(text);
        }
    }

    /// An event has come, or some may not have.
    pub fn tell(&self, event: Option<&str>) {
        if let Some(hearer) = self.hearer.get() {
            hearer(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_not_its_own_audience() {
        let (one, two) = (Presence::new(3), Presence::new(3));
        assert_eq!(one.answers().count(), 0, "it has not said that it listens");
        let said = one.announcement();
        assert_eq!(one.answers().collect::<Vec<_>>(), std::slice::from_ref(&said));
        for presence in [&one, &two] {
            presence.heard_of(said.strip_prefix("l ").unwrap());
        }
        assert_eq!((one.is_heard(), two.is_heard()), (false, true));
    }

    #[test]
    fn callers_who_wait_are_told_of_once_in_a_while() {
        let (one, two) = (Presence::new(3), Presence::new(3));
        let (said, is_first) = one.awaiting().unwrap();
        assert!(is_first && one.awaiting().is_none());
        for presence in [&one, &two] {
            presence.heard_of_callers(said.strip_prefix("v ").unwrap());
        }
        assert_eq!((one.is_awaited(), two.is_awaited(), two.is_heard()), (false, true, false));
        assert_eq!(one.answers().collect::<Vec<_>>(), [said]);
    }

    /// A server of several databases has one channel: a dashboard over one of them made the processes of all
    /// others send their events to nobody.
    #[test]
    fn who_listens_to_another_database_is_nobody() {
        let ours = Presence::new(3);
        for database in [0, 33, 4] {
            let said = Presence::new(database).announcement();
            ours.heard_of(said.strip_prefix("l ").unwrap());
            assert!(!ours.is_heard(), "{said}");
        }
    }
}
