//! What goes wrong: power, disks, processes, clocks.

use super::checks::wake::answered;
use super::checks::{self, Checked};
use super::world::World;
use codeq_queue::Time;
use codeq_queue::clock::Slew;
use codeq_store::testing::forgetful::Fault;
use rand::Rng;
use std::time::Duration;

/// The newest frames cannot be told from ones that were torn; those before are known to be durable.
const NEWEST_FRAMES: usize = 4;
const FRAME_HEADER: usize = 40;
const HOUR_MS: i64 = 3_600_000;
/// What has been seen of wall clocks.
const WALL_STEPS_MS: [i64; 5] = [5000, HOUR_MS, 48 * HOUR_MS, 10 * 365 * 24 * HOUR_MS, -HOUR_MS];
/// Five minutes at once, and twice the speed for as long as the step lasts.
const WALL_AHEAD_MS: i64 = 305_000;

impl World {
    pub(super) async fn fault(&mut self) -> Checked {
        self.counts.faults += 1;
        match self.rng.random_range(0..20) {
            0..7 => {
                let (moments, seed) = (self.rng.random_range(1..80), self.rng.random());
                self.ground.arm(moments, seed);
                Ok(())
            }
            7 => self.power_cycle().await,
            8..11 => {
                self.fail_a_call();
                Ok(())
            }
            11 => {
                self.fill_the_disk();
                Ok(())
            }
            12 | 13 => self.reopen().await,
            14 | 15 => self.damage().await,
            16 => self.jump().await,
            17 => self.step_wall().await,
            _ => {
                self.turn_back();
                Ok(())
            }
        }
    }

    fn fail_a_call(&mut self) {
        let shard = self.rng.random_range(0..self.ground.shards.len());
        let fault = if self.rng.random_bool(0.7) { Fault::Io } else { Fault::Full };
        self.ground.shards[shard].disk.fail_at(self.rng.random_range(1..30), fault);
    }

    fn fill_the_disk(&mut self) {
        self.ground.shards.iter().for_each(|shard| shard.disk.set_full(true));
        self.full_until = Some(self.ledger.step + self.rng.random_range(1..12));
    }

    /// The power goes and comes back.
    pub(super) async fn power_cycle(&mut self) -> Checked {
        self.counts.crashes += 1;
        self.ground.spring();
        let old = self.door.store.clone();
        self.ground.live_on();
        self.make_room();
        answered("closing what lost its power", old.close()).await?.ok();
        self.open()?;
        self.look_boxed().await
    }

    fn open(&mut self) -> Checked {
        match self.ground.open() {
            Ok(store) => {
                self.door.store = store;
                Ok(())
            }
            Err(error) => checks::broken("lost", format!("the store does not open: {error}")),
        }
    }

    /// A look may find the store down again, and so on; boxed, because the type would go on, too.
    fn look_boxed(&mut self) -> std::pin::Pin<Box<dyn Future<Output = Checked> + '_>> {
        Box::pin(async { self.look().await.map(drop) })
    }

    async fn reopen(&mut self) -> Checked {
        self.make_ready().await?;
        let closed = answered("closing in order", self.door.store.clone().close()).await?;
        if self.ground.is_sprung() || closed.is_err() {
            return self.power_cycle().await;
        }
        self.ground.forget_unsynced();
        self.make_room();
        self.open()?;
        self.look_boxed().await
    }

    /// On a copy: a byte of the journal changes while the store is down.
    async fn damage(&mut self) -> Checked {
        let shard = self.rng.random_range(0..self.ground.shards.len());
        let mut frames = self.ground.written();
        frames.retain(|frame| frame.shard == shard);
        let Some(old) = frames.len().checked_sub(NEWEST_FRAMES).filter(|old| *old > 0) else { return Ok(()) };
        let frame = &frames[self.rng.random_range(old.saturating_sub(40)..old)];
        let at = self.rng.random_range(FRAME_HEADER.min(frame.bytes - 1)..frame.bytes) as u64;
        let mut copy = self.ground.copy();
        let xor = 1 << self.rng.random_range(0..8);
        // The file may have been recycled since.
        let is_there = codeq_store::local::files::Files::open(&copy.shards[frame.shard].disk, &frame.name);
        if is_there.is_err() || self.ground.is_sprung() {
            return Ok(());
        }
        copy.shards.iter().for_each(|shard| shard.disk.set_full(false));
        copy.shards[frame.shard].disk.corrupt(&frame.name, frame.offset + at, xor);
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| copy.open()));
        let Ok(opened) = opened else {
            return checks::broken("damage", "opening a damaged journal panics");
        };
        let Ok(store) = opened else { return Ok(()) };
        let looked = self.examine(&*store).await;
        answered("closing a damaged store", codeq_queue::Store::close(store)).await?.ok();
        checks::damage::unseen(looked.map(drop))
    }

    /// Far on; nothing that lives may be gone by that.
    async fn jump(&mut self) -> Checked {
        self.look().await?;
        let ahead = Duration::from_secs(self.rng.random_range(60..9000));
        self.set_clock(self.ledger.latest.plus(ahead));
        self.look().await.map(drop)
    }

    /// The wall clock is wrong for five seconds and right again. The store lives by the clock that follows it, which
    /// is never far from the time that has passed and always goes on.
    async fn step_wall(&mut self) -> Checked {
        self.look().await?;
        let step = WALL_STEPS_MS[self.rng.random_range(0..WALL_STEPS_MS.len())];
        let start = self.ledger.latest.millis();
        let mut slew = Slew::begin(Time::from_millis(start), Duration::ZERO);
        let mut before = start;
        for second in 1..=10 {
            let (passed, off) = (second * 1000, if second <= 5 { step } else { 0 });
            let wall = Time::from_millis(start + passed + off);
            let now = slew.look(wall, Duration::from_millis(passed.unsigned_abs())).now;
            let ahead = now.millis() - start - passed;
            let is_near = (-1000..=WALL_AHEAD_MS).contains(&ahead);
            if !is_near || now.millis() < before + 900 {
                let after = passed / 1000;
                return checks::broken(
                    "clock",
                    format!("step of {step} ms, {after} s later: {ahead} ms ahead"),
                );
            }
            before = now.millis();
            self.set_clock(now);
        }
        self.look().await.map(drop)
    }

    fn turn_back(&mut self) {
        let back = self.rng.random_range(1..1_800_000);
        self.set_clock(Time::from_millis(self.ledger.now.millis() - back));
    }
}
