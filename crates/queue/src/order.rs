//! In which order a claim looks at the commands it names.
//!
//! `listed` is strict: the first command with work wins, and the last may wait for ever. `fair` draws the order
//! anew for every claim, so that every command with work gets its share, in proportion to its weight. Nothing
//! is remembered between two draws, so that any number of processes share out alike.

use crate::limits;
use crate::queue::check_command;
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

    pub fn is_fair(&self) -> bool {
        matches!(self, Order::Fair(_))
    }
}

/// Weights of commands, which are held lower-cased; 1 for all others.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Weights(Arc<BTreeMap<Box<str>, u8>>);

impl Weights {
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
    let time = |command: Arc<str>| {
        // Within (0, 1], so that its logarithm is finite.
        let unit = ((random() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-unit.ln() / f64::from(weights.of(&command)), command)
    };
    let mut drawn: Vec<(f64, Arc<str>)> = names.into_iter().map(time).collect();
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
    drawn.into_iter().map(|(_, command)| command).collect()
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
