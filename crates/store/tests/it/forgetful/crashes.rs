//! Power goes at any moment while clients are at work: before, between and after the writes and syncs of the
//! journal and of the tables. `CODEQ_CRASH_SEEDS` says how many runs.

use super::Ground;
use super::facts::{self, Facts};
use super::workload::{Told, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::{Arc, Mutex};

const SEEDS: u64 = 8;
/// Crashes on top of crashes.
const LIVES: u64 = 3;
const CLIENTS: u64 = 4;
const STEPS: usize = 50;
/// Moments kept per life.
const MOMENTS: usize = 5;

/// What was on the disk at one moment, and what clients had been told by then.
struct Moment {
    told: Facts,
    ground: Ground,
}

/// Keeps a random few of the moments it is shown.
#[derive(Clone)]
struct Camera(Arc<Mutex<(SmallRng, usize, Vec<Moment>)>>);

impl Camera {
    fn new(seed: u64) -> Camera {
        Camera(Arc::new(Mutex::new((SmallRng::seed_from_u64(seed), 0, Vec::new()))))
    }

    fn see(&self, ground: &Ground, told: &Told) {
        let mut kept = self.0.lock().unwrap();
        let (rng, seen, moments) = &mut *kept;
        *seen += 1;
        let place = if *seen <= MOMENTS { moments.len() } else { rng.random_range(0..*seen) };
        if place < MOMENTS {
            // In this order: what is told before the copy is made must be on it.
            let moment = Moment { told: told.facts(), ground: ground.copy() };
            match moments.get_mut(place) {
                Some(old) => *old = moment,
                None => moments.push(moment),
            }
        }
    }

    fn take(&self) -> Vec<Moment> {
        std::mem::take(&mut self.0.lock().unwrap().2)
    }
}

/// Photographs the disk around every call that changes it.
fn watch(ground: &Ground, told: &Told, camera: &Camera) {
    let (on_disk, disk_told, disk_camera) = (ground.clone(), told.clone(), camera.clone());
    ground.files.set_watch(Some(Arc::new(move |_, _| disk_camera.see(&on_disk, &disk_told))));
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_crash_at_any_moment() {
    let asked = std::env::var("CODEQ_CRASH_SEEDS").ok().map(|text| text.parse().expect("a number of seeds"));
    for seed in 1..=asked.unwrap_or(SEEDS) {
        let (mut ground, mut facts) = (Ground::busy(), Facts::new());
        for life in 0..LIVES {
            let seed = seed * 10 + life;
            (ground, facts) = live_and_crash(ground, facts, seed).await;
        }
    }
}

/// One life of the store and every kept crash in it; gives one of the survivors to live on.
async fn live_and_crash(mut ground: Ground, facts: Facts, seed: u64) -> (Ground, Facts) {
    let told = Told::starting_from(facts);
    let camera = Camera::new(seed);
    let bench = ground.bench();
    watch(&ground, &told, &camera);
    run(&bench, &told, seed, CLIENTS, STEPS).await;
    ground.files.set_watch(None);
    let moments = camera.take();
    assert_eq!(moments.len(), MOMENTS);
    let mut survivor = None;
    for (index, moment) in (0..).zip(moments) {
        let Moment { told: then, mut ground } = moment;
        ground.disk.crash(seed * 1000 + index);
        let survived = ground.copy();
        let found = facts::check(&ground.bench(), &then, &told.ids()).await;
        survivor = Some((survived, found));
    }
    let (survived, found) = survivor.expect("there are moments");
    used_up(survived.copy(), &found).await;
    (survived, found)
}

/// The survivor can be worked with, and still after another restart.
async fn used_up(mut ground: Ground, facts: &Facts) {
    let bench = ground.bench();
    facts::usable(&bench, facts).await;
    bench.store().close().await.expect("the store closes");
    let ids = facts.keys().copied().collect();
    facts::check(&ground.bench(), facts, &ids).await;
}

#[tokio::test]
async fn closing_and_opening_keeps_everything() {
    let (mut ground, told) = (Ground::busy(), Told::default());
    for seed in 0..3 {
        let bench = ground.bench();
        run(&bench, &told, 900 + seed, CLIENTS, STEPS).await;
        bench.store().close().await.expect("the store closes");
        ground.disk.crash_keep_none();
        facts::check(&ground.copy().bench(), &told.facts(), &told.ids()).await;
    }
}
