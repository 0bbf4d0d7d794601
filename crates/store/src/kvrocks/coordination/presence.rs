//! Who listens to events, among all processes.
//!
//! Events are sent only while another process listens. Whoever does says so on the channel
//! (`l <database>-<process>`), again and again; it holds for [`LISTENS`]. Whoever has just begun to hear asks
//! (`w <database>-<process>`), and is answered the same way. So nobody is polled, and nobody listening costs
//! nothing. Channels are the same in every database of a server: who listens in another is nobody to us.

use codeq_queue::shared::{Hearer, LISTENS, NoticeHearer};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

pub struct Presence {
    /// What the name of every process over our database begins with.
    mark: String,
    /// Tells this process from the others.
    name: String,
    start: Instant,
    /// Milliseconds since `start` until which another process listens, and this one.
    others_until: AtomicU64,
    ours_until: AtomicU64,
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
            others_until: AtomicU64::new(0),
            ours_until: AtomicU64::new(0),
            hearer: OnceLock::new(),
            notices: OnceLock::new(),
            hears: Notify::new(),
        }
    }

    fn after(&self, wait: std::time::Duration) -> u64 {
        u64::try_from((self.start.elapsed() + wait).as_millis()).unwrap_or(u64::MAX)
    }

    fn is_before(&self, until: &AtomicU64) -> bool {
        self.after(std::time::Duration::ZERO) < until.load(Ordering::Relaxed)
    }

    /// This process listens from now on; what to say about it.
    pub fn announcement(&self) -> String {
        self.ours_until.store(self.after(LISTENS), Ordering::Relaxed);
        format!("l {}", self.name)
    }

    pub fn question(&self) -> String {
        format!("w {}", self.name)
    }

    /// Somebody asks: what to say if this process listens.
    pub fn answer(&self) -> Option<String> {
        self.is_before(&self.ours_until).then(|| format!("l {}", self.name))
    }

    /// A process has said that it listens.
    pub fn heard_of(&self, process: &str) {
        if process != self.name && process.starts_with(&self.mark) {
            self.others_until.store(self.after(LISTENS), Ordering::Relaxed);
        }
    }

    pub fn is_heard(&self) -> bool {
        self.is_before(&self.others_until)
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
        assert_eq!(one.answer(), None, "it has not said that it listens");
        let said = one.announcement();
        assert_eq!(one.answer(), Some(said.clone()));
        for presence in [&one, &two] {
            presence.heard_of(said.strip_prefix("l ").unwrap());
        }
        assert_eq!((one.is_heard(), two.is_heard()), (false, true));
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
