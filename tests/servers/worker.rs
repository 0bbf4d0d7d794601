//! A worker: it claims in all ways there are, and does to its tasks everything a worker may do, or nothing.

use super::campaign::{Phase, Stage};
use super::clients::http::Http;
use super::clients::stream::Works;
use super::clients::{Claimed, Deed, Lent, Report, Told, Trouble, WORKER_TOKENS, Wish};
use super::order::COMMANDS;
use super::task_book::Wrong;
use rand::Rng;
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a report of unknown outcome is sent.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);
/// Longer than any lease.
const STALL: Duration = Duration::from_millis(3_500);
/// The longest lease that workers ask for.
pub const LONGEST_LEASE: Duration = Duration::from_secs(3);

enum Line {
    Http(Http),
    Stream(Box<Works>),
}

pub struct Worker {
    stage: Arc<Stage>,
    line: Line,
    name: String,
    server: usize,
    random: SmallRng,
}

/// What becomes of a task that was lent.
enum Fate {
    Report(Deed),
    BeatThenComplete,
    /// Never heard of again.
    Forget,
    /// Reported when the lease is over.
    Stall,
}

impl Worker {
    pub fn new(stage: &Arc<Stage>, number: usize, random: SmallRng) -> Worker {
        let name = format!("worker-{number}");
        let token = WORKER_TOKENS[number / 2 % WORKER_TOKENS.len()];
        let line = match number % 2 {
            0 => Line::Http(Http::new(token)),
            _ => Line::Stream(Box::new(Works::new(token, &name))),
        };
        Worker { stage: stage.clone(), line, name, server: number / 2, random }
    }

    pub async fn run(mut self) {
        while self.stage.phase() != Phase::Over {
            let wish = self.wish();
            let Some(doors) = self.stage.doors.from(self.server) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let claimed = match &mut self.line {
                Line::Http(http) => http.claim(&doors.http, &wish).await,
                Line::Stream(works) => works.claim(&doors.workers, &wish).await,
            };
            match claimed {
                Ok(claimed) if claimed.tasks.is_empty() => tokio::time::sleep(PAUSE).await,
                Ok(claimed) => self.work(claimed).await,
                Err(Trouble::Refused(text)) => {
                    self.stage.books.note(Wrong::Unexpected, format!("a claim was refused with {text}"));
                }
                Err(Trouble::Unsent | Trouble::Unknown) => {
                    self.server += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn wish(&mut self) -> Wish {
        let mut commands = Vec::new();
        if self.random.random_bool(0.7) {
            let first = self.random.random_range(0..COMMANDS.len());
            commands.push(COMMANDS[first].to_owned());
            if self.random.random_bool(0.5) {
                commands.push(COMMANDS[(first + 1) % COMMANDS.len()].to_owned());
            }
        }
        Wish {
            commands,
            lease: Duration::from_secs(self.random.random_range(1..=LONGEST_LEASE.as_secs())),
            count: if self.random.random_bool(0.4) { self.random.random_range(2..12) } else { 1 },
            is_waiting: self.random.random_bool(0.5),
        }
    }

    async fn work(&mut self, claimed: Claimed) {
        self.stage.books.lent(&claimed);
        // What ends at once goes together.
        let mut ends = Vec::new();
        for task in claimed.tasks {
            match self.fate() {
                Fate::Report(deed) if deed.is_end() => ends.push(self.report(&task, deed)),
                Fate::Report(deed) => self.send(vec![self.report(&task, deed)]).await,
                Fate::BeatThenComplete => {
                    let extend = Duration::from_secs(self.random.random_range(1..=2));
                    self.send(vec![self.report(&task, Deed::Beat { extend })]).await;
                    self.send(vec![self.report(&task, Deed::Complete)]).await;
                }
                Fate::Forget => {}
                Fate::Stall => {
                    tokio::time::sleep(STALL).await;
                    self.send(vec![self.report(&task, Deed::Complete)]).await;
                }
            }
        }
        self.send(ends).await;
    }

    fn fate(&mut self) -> Fate {
        if self.stage.phase() != Phase::Load {
            return Fate::Report(Deed::Complete);
        }
        match self.random.random_range(0..1000) {
            0..660 => Fate::Report(Deed::Complete),
            660..730 => Fate::Report(Deed::Fail),
            730..800 => Fate::Report(Deed::Nack { delay_seconds: 0 }),
            800..840 => Fate::Report(Deed::Nack { delay_seconds: 1 }),
            840..880 => Fate::Report(Deed::Abandon { refund: false }),
            880..910 => Fate::Report(Deed::Abandon { refund: true }),
            910..970 => Fate::BeatThenComplete,
            970..997 => Fate::Forget,
            _ => Fate::Stall,
        }
    }

    fn report(&self, task: &Lent, deed: Deed) -> Report {
        let mark = format!("attempt {} by {}", task.attempt, self.name);
        Report { id: task.id.clone(), attempt: task.attempt, deed, mark }
    }

    /// Sends reports until the outcome of each is known, or for a while.
    async fn send(&mut self, mut reports: Vec<Report>) {
        for _ in 0..TRIES {
            if reports.is_empty() {
                return;
            }
            if let Some(doors) = self.stage.doors.from(self.server) {
                let sent = Instant::now();
                self.stage.books.reporting(&reports, sent);
                let answers = match &mut self.line {
                    Line::Http(http) => http.report(&doors.http, &reports).await,
                    Line::Stream(works) => works.report(&doors.workers, &reports).await,
                };
                reports = self.note(reports, answers, sent);
            }
            if !reports.is_empty() {
                self.server += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Gives those that have no answer yet.
    fn note(&self, reports: Vec<Report>, answers: Vec<Result<Told, Trouble>>, sent: Instant) -> Vec<Report> {
        let mut open = Vec::new();
        for (report, answer) in reports.into_iter().zip(answers) {
            self.stage.books.reported(&report, &answer, sent);
            let is_open = matches!(answer, Err(Trouble::Unsent | Trouble::Unknown));
            open.extend(is_open.then_some(report));
        }
        open
    }
}
