//! A producer: it orders new tasks, sends old orders again, and asks again where nobody knows.

use super::campaign::{Phase, Stage};
use super::clients::http::Http;
use super::clients::stream::Creates;
use super::clients::{TOKEN, Trouble};
use super::order::Order;
use rand::Rng;
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Live tasks after which producers wait for the workers.
pub const BACKLOG: u64 = 2_000;
/// A producer pauses for so long after an order, times the backlog in hundreds: it never stops for long, so
/// that every kill meets some that have just sent something.
const PACE: Duration = Duration::from_millis(6);
/// How often a keyed order of unknown outcome is sent before its producer gives up.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(20);

enum Line {
    Http(Http),
    Stream(Box<Creates>),
}

pub struct Producer {
    stage: Arc<Stage>,
    line: Line,
    /// Which server it turns to first.
    server: usize,
    random: SmallRng,
}

impl Producer {
    pub fn new(stage: &Arc<Stage>, number: usize, random: SmallRng) -> Producer {
        let line = match number % 2 {
            0 => Line::Http(Http::new(TOKEN)),
            _ => Line::Stream(Box::default()),
        };
        Producer { stage: stage.clone(), line, server: number / 2, random }
    }

    pub async fn run(mut self) {
        while self.stage.phase() == Phase::Load {
            if self.stage.backlog() > BACKLOG {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let orders = self.orders();
            self.place(orders).await;
            let hundreds = u32::try_from(self.stage.backlog() / 100).unwrap_or(u32::MAX);
            tokio::time::sleep(PACE * hundreds).await;
        }
    }

    fn orders(&mut self) -> Vec<Order> {
        if self.random.random_bool(0.1)
            && let Some(order) = self.stage.books.old_order(self.random.random())
        {
            return vec![order];
        }
        let count = if self.random.random_bool(0.2) { self.random.random_range(2..10) } else { 1 };
        (0..count).map(|_| self.stage.books.new_order(&mut self.random)).collect()
    }

    /// Sends orders until each is known, as far as they may be sent again; gives up on a few.
    async fn place(&mut self, mut orders: Vec<Order>) {
        let is_patient = self.random.random_bool(0.9);
        for _ in 0..TRIES {
            let Some(doors) = self.stage.doors.from(self.server) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            self.stage.books.asking(&orders, Instant::now());
            let answers = match &mut self.line {
                Line::Http(http) => http.create(&doors.http, &orders).await,
                Line::Stream(creates) => creates.create(&doors.producers, &orders).await,
            };
            let mut open = Vec::new();
            for (order, answer) in orders.into_iter().zip(answers) {
                self.stage.books.created(&order, &answer);
                let is_open = match answer {
                    Err(Trouble::Unsent) => true,
                    Err(Trouble::Unknown) => order.is_keyed && is_patient,
                    Ok(_) | Err(Trouble::Refused(_)) => false,
                };
                open.extend(is_open.then_some(order));
            }
            if open.is_empty() {
                return;
            }
            orders = open;
            self.server += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }
}
