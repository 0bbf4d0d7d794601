//! Spread shards: 64 of them, always. A queue that is not mapped lives on the one that its name leads to.

use super::cluster::{SLOTS, slot_of};
use codeq_queue::QueueKey;
use codeq_queue::id::fnv1a;

pub const SPREAD_SHARDS: usize = 64;

/// The spread shard of a queue: commands are lower case here.
pub fn shard_of(queue: &QueueKey) -> usize {
    let text = format!("{}\0{}", queue.command, queue.tenant);
    usize::try_from(fnv1a(text.as_bytes()) % SPREAD_SHARDS as u64).unwrap_or(0)
}

pub fn name(shard: usize) -> String {
    format!("p{shard}")
}

/// Which spread shard a name is of; `None` for other shards.
pub fn parse(name: &str) -> Option<usize> {
    let digits =
        name.strip_prefix('p').filter(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))?;
    digits.parse().ok().filter(|shard| *shard < SPREAD_SHARDS)
}

/// The hash tag of a shard in a cluster: that of a spread shard lies in its share of the slots, so that contiguous
/// ranges of slots are even shares of shards.
pub fn tag(name: &str) -> String {
    let Some(shard) = parse(name) else { return name.to_owned() };
    let share = usize::from(SLOTS) / SPREAD_SHARDS;
    let tags = (0u32..).map(|number| format!("p{shard}.{number}"));
    let mut own = tags.filter(|tag| usize::from(slot_of(tag)) / share == shard);
    own.next().expect("numbers reach every slot")
}

/// Which of so many backends a spread shard lives on.
pub fn backend_of(shard: usize, backends: usize) -> usize {
    shard * backends / SPREAD_SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_lie_in_their_share_of_the_slots() {
        for shard in 0..SPREAD_SHARDS {
            let tag = tag(&name(shard));
            assert!(tag.starts_with(&format!("p{shard}.")));
            assert_eq!(usize::from(slot_of(&tag)) / 256, shard, "{tag}");
        }
        assert_eq!(tag("video"), "video");
    }

    #[test]
    fn shards_are_even_shares_of_backends() {
        let counts = |backends: usize| {
            let mut counts = vec![0; backends];
            (0..SPREAD_SHARDS).for_each(|shard| counts[backend_of(shard, backends)] += 1);
            counts
        };
        assert_eq!(counts(1), [64]);
        assert_eq!(counts(3), [22, 21, 21]);
        assert_eq!(counts(64), [1; 64]);
    }

    #[test]
    fn six_hundred_queues_are_even_over_three_servers() {
        let mut counts = [0_u32; 3];
        for number in 0..600 {
            let queue =
                QueueKey::new(&format!("tenant-{}", number % 20), &format!("Command-{}", number / 20));
            counts[backend_of(shard_of(&queue), 3)] += 1;
        }
        assert!(counts.iter().all(|count| *count <= 260), "{counts:?}");
    }

    #[test]
    fn names_are_p_and_digits() {
        assert_eq!(
            (parse("p0"), parse("p63"), parse("p64"), parse("p"), parse("px1")),
            (Some(0), Some(63), None, None, None)
        );
    }
}
