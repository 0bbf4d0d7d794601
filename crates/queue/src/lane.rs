//! Which lane of a queue comes next.
//!
//! Tasks of one queue with the same lane share fairness and limits. Each lane has a pass: a start adds 1/weight, the
//! smallest pass wins, and of equal passes the lane whose head has waited longest. A lane that appears or becomes
//! claimable again does not catch up on what it missed: its pass is at least that of the lane served last, plus one
//! start. So a lane with a million tasks delays another's single task by at most one task for each claimable lane of
//! equal weight.

use crate::time::Time;
use std::collections::BTreeSet;

/// What one start of a lane of weight 1 adds to its pass: divisible by every weight up to 20.
const PASS_UNIT: u64 = 232_792_560;

/// Names a lane within its queue.
pub type LaneId = u32;

/// What one start adds to the pass of a lane.
fn stride(weight: u8) -> u64 {
    PASS_UNIT / u64::from(weight.max(1))
}

/// Where a lane stands in the order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Standing {
    /// It has nothing to give, or something other than time holds it back.
    #[default]
    Out,
    /// With the number of its head: smaller ones have waited longer.
    Claimable { head: u64 },
    /// Nothing of it may start before this instant.
    Closed { until: Time },
}

/// What the order knows of one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanePass {
    pass: u64,
    standing: Standing,
    /// 1 to 100: how often it is served, compared with a lane of weight 1.
    pub weight: u8,
}

impl Default for LanePass {
    fn default() -> LanePass {
        LanePass::of(1)
    }
}

impl LanePass {
    /// A lane of this weight that was never served.
    pub fn of(weight: u8) -> LanePass {
        LanePass { pass: 0, standing: Standing::Out, weight }
    }

    /// Whether it takes part in the choice.
    pub fn is_claimable(&self) -> bool {
        matches!(self.standing, Standing::Claimable { .. })
    }
}

/// What a lane has to offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// No task, or something other than time holds it back.
    Nothing,
    /// A task that may start now; smaller numbers have waited longer.
    Head(u64),
    /// Nothing before this instant.
    After(Time),
}

/// The order of the lanes of one queue.
#[derive(Default, Debug)]
pub struct LaneOrder {
    /// The pass of the lane that was served last.
    served: u64,
    claimable: BTreeSet<(u64, u64, LaneId)>,
    closed: BTreeSet<(Time, LaneId)>,
}

impl LaneOrder {
    /// The lane that comes next.
    pub fn first(&self) -> Option<LaneId> {
        self.claimable.first().map(|(_, _, lane)| *lane)
    }

    /// The lanes in the order in which they would be served if nothing changed.
    pub fn iter(&self) -> impl Iterator<Item = LaneId> + '_ {
        self.claimable.iter().map(|(_, _, lane)| *lane)
    }

    /// When the next lane opens that only waits for its time.
    pub fn next_opening(&self) -> Option<Time> {
        self.closed.first().map(|(until, _)| *until)
    }

    /// A lane whose time has come.
    pub fn opened(&self, now: Time) -> Option<LaneId> {
        self.closed.first().filter(|(until, _)| *until <= now).map(|(_, lane)| *lane)
    }

    /// Puts a lane where its offer belongs.
    pub fn arrange(&mut self, lane: LaneId, of: &mut LanePass, offer: Offer) {
        let wanted = match offer {
            Offer::Nothing => Standing::Out,
            Offer::Head(head) => Standing::Claimable { head },
            Offer::After(until) => Standing::Closed { until },
        };
        if of.standing == wanted {
            return;
        }
        let was_claimable = of.is_claimable();
        self.take_out(lane, of);
        match wanted {
            Standing::Out => {}
            Standing::Claimable { head } => {
                if !was_claimable {
                    of.pass = of.pass.max(self.served.saturating_add(stride(of.weight)));
                }
                self.claimable.insert((of.pass, head, lane));
            }
            Standing::Closed { until } => drop(self.closed.insert((until, lane))),
        }
        of.standing = wanted;
    }

    /// Takes a lane out of the order.
    pub fn take_out(&mut self, lane: LaneId, of: &mut LanePass) {
        match of.standing {
            Standing::Out => {}
            Standing::Claimable { head } => drop(self.claimable.remove(&(of.pass, head, lane))),
            Standing::Closed { until } => drop(self.closed.remove(&(until, lane))),
        }
        of.standing = Standing::Out;
    }

    /// A task of the lane starts.
    pub fn serve(&mut self, lane: LaneId, of: &mut LanePass) {
        let standing = of.standing;
        self.take_out(lane, of);
        self.served = self.served.max(of.pass);
        of.pass = of.pass.saturating_add(stride(of.weight));
        if let Standing::Claimable { head } = standing {
            self.claimable.insert((of.pass, head, lane));
            of.standing = standing;
        }
    }

    /// Whether no lane is claimable or waits for its time.
    pub fn is_empty(&self) -> bool {
        self.claimable.is_empty() && self.closed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes with tasks, numbered as they come.
    #[derive(Default)]
    struct Waiting {
        order: LaneOrder,
        lanes: Vec<(LanePass, Vec<u64>)>,
        next: u64,
    }

    impl Waiting {
        fn lane(&mut self, weight: u8) -> usize {
            self.lanes.push((LanePass::of(weight), Vec::new()));
            self.lanes.len() - 1
        }

        fn arrange(&mut self, lane: usize) {
            let (of, tasks) = &mut self.lanes[lane];
            let offer = tasks.first().map_or(Offer::Nothing, |head| Offer::Head(*head));
            self.order.arrange(lane as LaneId, of, offer);
        }

        fn add(&mut self, lane: usize, count: usize) {
            self.lanes[lane].1.extend(self.next..self.next + count as u64);
            self.next += count as u64;
            self.arrange(lane);
        }

        fn serve(&mut self) -> Option<usize> {
            let lane = self.order.first()? as usize;
            self.order.serve(lane as LaneId, &mut self.lanes[lane].0);
            self.lanes[lane].1.remove(0);
            self.arrange(lane);
            Some(lane)
        }
    }

    #[test]
    fn a_flood_delays_a_single_task_by_one() {
        let mut waiting = Waiting::default();
        let (flood, single) = (waiting.lane(1), waiting.lane(1));
        waiting.add(flood, 1_000);
        for _ in 0..500 {
            assert_eq!(waiting.serve(), Some(flood));
        }
        waiting.add(single, 1);
        let served = [waiting.serve(), waiting.serve()];
        assert!(served.contains(&Some(single)), "{served:?}");
    }

    #[test]
    fn a_thousand_single_tasks_beside_a_flood_are_served_in_twice_as_many_starts() {
        let mut waiting = Waiting::default();
        let flood = waiting.lane(1);
        waiting.add(flood, 5_000);
        for _ in 0..999 {
            let lane = waiting.lane(1);
            waiting.add(lane, 1);
        }
        let served: Vec<usize> = (0..2_000).filter_map(|_| waiting.serve()).collect();
        assert_eq!(served.iter().filter(|lane| **lane != flood).count(), 999);
    }

    #[test]
    fn starts_follow_the_weights() {
        let mut waiting = Waiting::default();
        let lanes = [5, 4, 3, 2, 1].map(|weight| waiting.lane(weight));
        for lane in lanes {
            waiting.add(lane, 3_000);
        }
        let mut counts = [0i32; 5];
        for _ in 0..1_500 {
            counts[waiting.serve().unwrap()] += 1;
        }
        for (lane, weight) in [5, 4, 3, 2, 1].into_iter().enumerate() {
            let share = weight * 100;
            assert!((counts[lane] - share).abs() <= 5, "{counts:?}");
        }
    }

    #[test]
    fn a_lane_that_was_away_does_not_catch_up() {
        let mut waiting = Waiting::default();
        let (busy, away) = (waiting.lane(1), waiting.lane(1));
        waiting.add(busy, 1_000);
        for _ in 0..400 {
            waiting.serve();
        }
        waiting.add(away, 400);
        let served: Vec<usize> = (0..20).filter_map(|_| waiting.serve()).collect();
        let of_away = served.iter().filter(|lane| **lane == away).count();
        assert!((9..=11).contains(&of_away), "{served:?}");
    }

    #[test]
    fn of_equal_lanes_the_longest_wait_is_served_first() {
        let mut waiting = Waiting::default();
        let lanes: Vec<usize> = (0..10).map(|_| waiting.lane(1)).collect();
        for lane in lanes.iter().rev() {
            waiting.add(*lane, 1);
        }
        let served: Vec<usize> = (0..10).filter_map(|_| waiting.serve()).collect();
        assert_eq!(served, lanes.into_iter().rev().collect::<Vec<_>>());
    }

    /// Whatever comes and goes: between two starts of a lane that stays claimable, no other lane of equal weight starts
    /// more than twice.
    #[test]
    fn no_lane_falls_behind_another() {
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut waiting = Waiting::default();
        let lanes: Vec<usize> = (0..20).map(|_| waiting.lane(1)).collect();
        let mut since = vec![vec![0u32; 20]; 20];
        for _ in 0..20_000 {
            if random(3) > 0 {
                let lane = lanes[random(20)];
                if waiting.lanes[lane].1.is_empty() {
                    since[lane].fill(0);
                }
                waiting.add(lane, 1);
            }
            let Some(served) = waiting.serve() else { continue };
            since[served].fill(0);
            for lane in lanes.iter().filter(|lane| !waiting.lanes[**lane].1.is_empty()) {
                since[*lane][served] += u32::from(*lane != served);
                assert!(since[*lane][served] <= 2, "lane {lane} waits while {served} goes on");
            }
        }
    }

    #[test]
    fn closed_lanes_open_in_the_order_of_time() {
        let mut order = LaneOrder::default();
        let mut lanes = [LanePass::default(); 3];
        let at = Time::from_millis;
        for (lane, millis) in [(0, 30), (1, 10), (2, 20)] {
            order.arrange(lane as LaneId, &mut lanes[lane], Offer::After(at(millis)));
        }
        assert_eq!((order.first(), order.next_opening()), (None, Some(at(10))));
        assert_eq!(order.opened(at(9)), None);
        assert_eq!(order.opened(at(10)), Some(1));
        order.arrange(1, &mut lanes[1], Offer::Head(7));
        assert_eq!((order.first(), order.opened(at(25))), (Some(1), Some(2)));
        order.take_out(2, &mut lanes[2]);
        order.arrange(0, &mut lanes[0], Offer::Nothing);
        order.arrange(1, &mut lanes[1], Offer::Nothing);
        assert!(order.is_empty());
    }
}
