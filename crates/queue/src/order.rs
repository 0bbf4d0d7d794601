//! In which order a claim looks at the commands it names.
//!
//! `listed` is strict: the first command with work wins, and the last may wait for ever. `fair` draws a new
//! order for every claim, so that every command with work gets its share, in proportion to its weight. Nothing
//! is remembered between two draws, so that any number of processes share out alike.

use crate::limits;
use crate::queue::{QueueStats, check_command};
use crate::refusal::Refusal;
use std::collections::BTreeMap;
use std::sync::Arc;

/// In which order a claim looks at its commands.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Order {
    /// As they are named.
    #[default]
    Listed,
    /// Drawn at random, by weight.
    Fair(Weights),
}

impl Order {
    /// Reads what a claim says about its order; blank is `listed`.
    pub fn read(order: &str, weights: Option<Weights>) -> Result<Order, Refusal> {
        match (order.trim(), weights) {
            ("" | "listed", None) => Ok(Order::Listed),
            ("" | "listed", Some(_)) => Err(Refusal::WeightsWithoutFair),
            ("fair", weights) => Ok(Order::Fair(weights.unwrap_or_default())),
            _ => Err(Refusal::InvalidOrder),
        }
    }

    /// Whether commands are drawn instead of served as they are listed.
    pub fn is_fair(&self) -> bool {
        matches!(self, Order::Fair(_))
    }
}

/// Weights of commands, which are held lower-cased; 1 for all others.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Weights(Arc<BTreeMap<Box<str>, u8>>);

impl Weights {
    /// Weights as a caller gave them: 1 to 100 each, and not too many.
    pub fn read<'a>(given: impl IntoIterator<Item = (&'a str, i64)>) -> Result<Weights, Refusal> {
        let mut weights = BTreeMap::new();
        for (command, weight) in given {
            let command = check_command(command).map_err(|_| Refusal::InvalidWeights)?;
            let weight = u8::try_from(weight).ok().filter(|weight| (1..=limits::WEIGHT).contains(weight));
            let weight = weight.ok_or(Refusal::InvalidWeights)?;
            weights.insert(command.to_ascii_lowercase().into(), weight);
            if weights.len() > limits::CLAIM_COMMANDS {
                return Err(Refusal::InvalidWeights);
            }
        }
        Ok(Weights(Arc::new(weights)))
    }

    /// The commands that have one of their own.
    pub fn commands(&self) -> Vec<Arc<str>> {
        self.0.keys().map(|command| Arc::from(&**command)).collect()
    }

    /// `command` is lower-cased.
    fn of(&self, command: &str) -> u8 {
        self.0.get(command).copied().unwrap_or(1)
    }
}

/// Draws an order without replacement: each place goes to one of the commands that are left, with a probability
/// in proportion to its weight. `random` gives numbers from the whole range of `u64`. A command that is named
/// twice counts once.
///
/// Each command gets an exponentially distributed time of its weight, and the earliest comes first: that is the
/// same as drawing one by one, and takes one number per command.
pub fn draw(
    commands: impl IntoIterator<Item = Arc<str>>,
    weights: &Weights,
    mut random: impl FnMut() -> u64,
) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = commands.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let time = |command: Arc<str>| (time_until(random()) / f64::from(weights.of(&command)), command);
    in_order(names.into_iter().map(time).collect())
}

/// An exponentially distributed time of weight 1.
fn time_until(random: u64) -> f64 {
    // Within (0, 1], so that its logarithm is finite.
    let unit = ((random >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -unit.ln()
}

fn in_order(mut drawn: Vec<(f64, Arc<str>)>) -> Vec<Arc<str>> {
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
    drawn.into_iter().map(|(_, command)| command).collect()
}

/// Asks which commands of a tenant have something to claim: of the named ones all, of the others up to `most`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadyQuestion {
    /// Whose queues.
    pub tenant: Arc<str>,
    /// Lower-cased; every one of them is looked at.
    pub named: Vec<Arc<str>>,
    /// How many of the others are wanted.
    pub most: usize,
}

/// Commands with something to claim, lower-cased.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReadyCommands {
    /// Those of the named ones that have something.
    pub named: Vec<Arc<str>>,
    /// Either all, or some that were drawn evenly.
    pub others: Vec<Arc<str>>,
    /// How many there are.
    pub other_count: u64,
}

impl ReadyCommands {
    /// The answer from the counts of every queue.
    pub fn of(asked: &ReadyQuestion, queues: Vec<QueueStats>) -> ReadyCommands {
        let ready = queues.into_iter().filter(|queue| !queue.is_paused && queue.ready_total() > 0);
        let ready = ready.map(|queue| Arc::from(queue.command.to_ascii_lowercase()));
        let (named, others): (Vec<_>, Vec<_>) = ready.partition(|command| asked.named.contains(command));
        ReadyCommands { named, other_count: others.len() as u64, others }
    }

    /// What several parts of a store have, each of which drew up to `most` evenly: as if one had drawn from all.
    pub fn merge(parts: Vec<ReadyCommands>, most: usize, mut random: impl FnMut() -> u64) -> ReadyCommands {
        let mut all = ReadyCommands::default();
        // What is left of each to draw from, and how many it stands for.
        let mut left: Vec<(Vec<Arc<str>>, u64)> = Vec::new();
        for mut part in parts {
            all.named.append(&mut part.named);
            all.other_count += part.other_count;
            shuffle(&mut part.others, &mut random);
            left.push((part.others, part.other_count));
        }
        while all.others.len() < most {
            let total: u64 = left.iter().map(|(_, count)| count).sum();
            let mut place = if total == 0 { break } else { random() % total };
            let drawn = left.iter_mut().find(|(_, count)| {
                let is_here = place < *count;
                place = place.saturating_sub(*count);
                is_here
            });
            let Some((others, count)) = drawn else { break };
            *count -= 1;
            match others.pop() {
                Some(command) => all.others.push(command),
                None => break,
            }
        }
        all
    }
}

fn shuffle(commands: &mut [Arc<str>], random: &mut impl FnMut() -> u64) {
    for at in (1..commands.len()).rev() {
        commands.swap(at, (random() % (at as u64 + 1)) as usize);
    }
}

/// Draws an order of commands with something to claim, as [`draw`] would of all of them: the beginning of it, if not all
/// are known. Those without a weight of their own are alike, so that the times of the first ones follow from how many
/// there are: of `n` the first comes after an `n`th of the time of one, the next after an `n - 1`th more.
pub fn draw_ready(
    mut ready: ReadyCommands,
    weights: &Weights,
    mut random: impl FnMut() -> u64,
) -> Vec<Arc<str>> {
    shuffle(&mut ready.others, &mut random);
    let mut drawn = Vec::with_capacity(ready.named.len() + ready.others.len());
    let (mut at, mut left) = (0.0, ready.other_count);
    for command in ready.others {
        at += time_until(random()) / left.max(1) as f64;
        left = left.saturating_sub(1);
        drawn.push((at, command));
    }
    // Behind the last one that is known others might come.
    let end = if left == 0 { f64::INFINITY } else { at };
    let named = ready.named.into_iter();
    let named = named.map(|command| (time_until(random()) / f64::from(weights.of(&command)), command));
    drawn.extend(named.filter(|(at, _)| *at <= end));
    in_order(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator of the whole range (SplitMix64): the rules know no other randomness.
    fn numbers(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }
    }

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn shares_follow_the_weights() {
        let weights = Weights::read([("a", 5), ("B", 4), ("c", 3), ("d", 2)]).unwrap();
        let commands = names(&["a", "b", "c", "d", "e"]);
        let (mut random, mut firsts) = (numbers(7), BTreeMap::<Arc<str>, f64>::new());
        const CLAIMS: f64 = 10_000.0;
        for _ in 0..CLAIMS as usize {
            let order = draw(commands.clone(), &weights, &mut random);
            *firsts.entry(order[0].clone()).or_default() += 1.0;
        }
        for (command, weight) in commands.iter().zip([5.0, 4.0, 3.0, 2.0, 1.0]) {
            let (share, expected) = (firsts[command] / CLAIMS, weight / 15.0);
            assert!((share - expected).abs() <= 0.05 * expected.max(0.2), "{command}: {share} of {expected}");
        }
    }

    /// The second place is drawn from what the first has left, again by weight.
    #[test]
    fn the_second_place_is_drawn_by_weight_too() {
        let weights = Weights::read([("b", 3)]).unwrap();
        let mut random = numbers(11);
        let (mut seconds, mut draws) = (0.0, 0.0);
        for _ in 0..40_000 {
            let order = draw(names(&["a", "b", "c"]), &weights, &mut random);
            if &*order[0] == "a" {
                draws += 1.0;
                seconds += f64::from(u8::from(&*order[1] == "b"));
            }
        }
        assert!((seconds / draws - 0.75f64).abs() < 0.02, "{}", seconds / draws);
    }

    /// Drawing from 20 of a thousand commands gives the same shares as drawing from all: the two with weights first as
    /// often as these say, and every other one as often as the next.
    #[test]
    fn an_order_of_some_begins_like_an_order_of_all() {
        let weights = Weights::read([("heavy", 100), ("light", 10)]).unwrap();
        let (mut random, mut firsts) = (numbers(3), BTreeMap::<Arc<str>, f64>::new());
        const OTHERS: u64 = 1_000;
        const CLAIMS: f64 = 40_000.0;
        for _ in 0..CLAIMS as usize {
            let from = random() % OTHERS;
            let others = (0..20).map(|n| format!("c{}", (from + n) % OTHERS).into()).collect();
            let ready = ReadyCommands { named: names(&["heavy", "light"]), others, other_count: OTHERS };
            let order = draw_ready(ready, &weights, &mut random);
            assert!((20..=22).contains(&order.len()), "{}", order.len());
            *firsts.entry(order[0].clone()).or_default() += 1.0;
        }
        let share = |command: &str| firsts[command] / CLAIMS;
        assert!((share("heavy") - 100.0 / 1110.0).abs() < 0.006, "{}", share("heavy"));
        assert!((share("light") - 10.0 / 1110.0).abs() < 0.002, "{}", share("light"));
        let most =
            (0..OTHERS).map(|n| firsts.get(&*format!("c{n}")).copied().unwrap_or(0.0)).fold(0.0, f64::max);
        assert!(most < 80.0, "{most} of about 36");
    }

    #[test]
    fn parts_are_drawn_from_by_what_they_stand_for() {
        let part = |name: &str, count: u64| ReadyCommands {
            named: Vec::new(),
            others: (0..count.min(10)).map(|n| format!("{name}{n}").into()).collect(),
            other_count: count,
        };
        let (mut random, mut of_large) = (numbers(5), 0);
        for _ in 0..2_000 {
            let merged = ReadyCommands::merge(vec![part("a", 30), part("b", 970)], 10, &mut random);
            assert_eq!((merged.others.len(), merged.other_count), (10, 1_000));
            of_large += merged.others.iter().filter(|command| command.starts_with('b')).count();
        }
        assert!((19_300..19_500).contains(&of_large), "{of_large} of 20,000");
        let few = ReadyCommands::merge(vec![part("a", 3), part("b", 4)], 10, &mut random);
        assert_eq!((few.others.len(), few.other_count), (7, 7));
    }

    #[test]
    fn every_command_is_in_the_order_once() {
        let order = draw(names(&["b", "a", "b"]), &Weights::default(), numbers(1));
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!(sorted, names(&["a", "b"]));
        assert!(draw(Vec::new(), &Weights::default(), numbers(1)).is_empty());
        for extreme in [0, u64::MAX] {
            assert_eq!(draw(names(&["a", "b"]), &Weights::default(), || extreme).len(), 2);
        }
    }

    #[test]
    fn what_a_claim_says_about_its_order_is_checked() {
        let weights = || Weights::read([("a", 100)]).ok();
        assert_eq!(Order::read("", None), Ok(Order::Listed));
        assert_eq!(Order::read("listed", None), Ok(Order::Listed));
        assert_eq!(Order::read(" fair", None), Ok(Order::Fair(Weights::default())));
        assert_eq!(Order::read("fair", weights()), Ok(Order::Fair(weights().unwrap())));
        assert_eq!(Order::read("Fair", None), Err(Refusal::InvalidOrder));
        assert_eq!(Order::read("listed", weights()), Err(Refusal::WeightsWithoutFair));
        for bad in [("a", 0), ("a", 101), ("a", -1), ("a", i64::MAX), ("", 1), ("a b", 1), ("*", 1)] {
            assert_eq!(Weights::read([bad]), Err(Refusal::InvalidWeights), "{bad:?}");
        }
        let many: Vec<String> = (0..=limits::CLAIM_COMMANDS).map(|n| format!("c{n}")).collect();
        let many = many.iter().map(|name| (name.as_str(), 1));
        assert_eq!(Weights::read(many), Err(Refusal::InvalidWeights));
    }
}
