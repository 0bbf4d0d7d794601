//! Spread shards: 64 of them, always. A queue that is not mapped lives on the one that its name leads to. A spread shard
//! lives where the configuration puts it, unless it was moved to another backend (see [`crate::kvrocks::moving::moves`]).

use crate::kvrocks::redis::cluster::{SLOTS, slot_of};
use codeq_queue::QueueKey;
use codeq_queue::id::fnv1a;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

/// What a spread shard is called on a backend that the configuration does not put it on. No name of a shard has an `@`.
pub fn place_name(shard: usize, backend: &str) -> String {
    format!("p{shard}@{backend}")
}

/// The name of a shard, wherever it is.
pub fn base_name(place: &str) -> &str {
    place.split_once('@').map_or(place, |(shard, _)| shard)
}

/// The backend in the name of such a place.
pub fn backend_name(place: &str) -> Option<&str> {
    place.split_once('@').map(|(_, backend)| backend)
}

/// Where a spread shard was moved to, and how often it had been moved by then.
pub type Move = (u64, String);

pub fn write_move((number, backend): &Move) -> String {
    format!("{number} {backend}")
}

pub fn parse_move(text: &str) -> Option<Move> {
    let (number, backend) = text.split_once(' ')?;
    Some((number.parse().ok()?, backend.to_owned()))
}

/// Where spread shards are, as far as this process knows. Shards are told by their numbers among all of the store.
#[derive(Default)]
pub struct SpreadPlaces(Vec<Place>);

struct Place {
    /// Where the configuration puts it.
    home: usize,
    /// Where it may be besides.
    others: Vec<usize>,
    by_backend: BTreeMap<String, usize>,
    current: AtomicUsize,
    /// Of the move that was followed last.
    number: AtomicU64,
}

impl SpreadPlaces {
    /// `names`: of all shards of the store, in their order; `home_backends`: those of each spread shard's home.
    pub fn new(names: &[String], home_backends: impl Fn(usize) -> Vec<String>) -> SpreadPlaces {
        let at = |name: &str| names.iter().position(|known| known == name);
        let place = |shard: usize| {
            let home = at(&name(shard))?;
            let prefix = format!("p{shard}@");
            let places = names.iter().enumerate().filter(|(_, name)| name.starts_with(&prefix));
            let others: Vec<usize> = places.clone().map(|(at, _)| at).collect();
            let own = home_backends(shard).into_iter().map(|backend| (backend, home));
            let by_backend = places
                .filter_map(|(at, name)| Some((backend_name(name)?.to_owned(), at)))
                .chain(own)
                .collect();
            Some(Place {
                home,
                others,
                by_backend,
                current: AtomicUsize::new(home),
                number: AtomicU64::new(0),
            })
        };
        SpreadPlaces((0..SPREAD_SHARDS).map_while(place).collect())
    }

    pub fn current(&self, shard: usize) -> usize {
        self.0[shard].current.load(Ordering::Acquire)
    }

    /// Where the configuration puts it: what has no queue stays there.
    pub fn home(&self, shard: usize) -> usize {
        self.0[shard].home
    }

    /// All places, the current one first.
    pub fn all(&self, shard: usize) -> Vec<usize> {
        let (place, current) = (&self.0[shard], self.current(shard));
        let all = std::iter::once(place.home).chain(place.others.iter().copied());
        std::iter::once(current).chain(all.filter(|at| *at != current)).collect()
    }

    /// Where it may have lived before.
    pub fn left(&self, shard: usize) -> Vec<usize> {
        match self.number(shard) {
            0 => Vec::new(),
            1 => vec![self.home(shard)],
            _ => self.all(shard),
        }
    }

    pub fn on(&self, shard: usize, backend: &str) -> Option<usize> {
        self.0.get(shard)?.by_backend.get(backend).copied()
    }

    /// How often it has been moved.
    pub fn number(&self, shard: usize) -> u64 {
        self.0[shard].number.load(Ordering::Acquire)
    }

    /// Whether a shard can be anywhere but at home.
    pub fn can_move(&self) -> bool {
        self.0.iter().any(|place| !place.others.is_empty())
    }

    /// Whether a place is one that the configuration does not name.
    pub fn is_other(&self, at: usize) -> bool {
        self.0.iter().any(|place| place.others.contains(&at))
    }

    /// Whether a shard lives at a place.
    pub fn is_current(&self, shard: usize, at: usize) -> bool {
        self.0.get(shard).is_none_or(|_| self.current(shard) == at)
    }

    /// Follows a move, unless a later one was followed already. Gives whether anything is different now.
    pub fn follow(&self, shard: usize, (number, backend): &Move) -> bool {
        let (Some(place), Some(at)) = (self.0.get(shard), self.on(shard, backend)) else { return false };
        if place.number.fetch_max(*number, Ordering::AcqRel) >= *number {
            return false;
        }
        place.current.swap(at, Ordering::AcqRel) != at
    }
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
    fn a_move_is_followed_unless_a_later_one_was() {
        let mut names = vec!["one".to_owned(), "two".to_owned()];
        names.extend((0..SPREAD_SHARDS).map(name));
        names.extend((0..SPREAD_SHARDS).map(|shard| place_name(shard, "two")));
        let places = SpreadPlaces::new(&names, |_| vec!["one".into()]);
        assert_eq!((places.current(5), places.all(5), places.can_move()), (7, vec![7, 71], true));
        assert!(places.follow(5, &(2, "two".into())));
        assert!(!places.follow(5, &(1, "one".into())), "it was followed before");
        assert!(!places.follow(5, &(3, "three".into())), "nobody knows that backend");
        assert_eq!((places.current(5), places.home(5), places.all(5)), (71, 7, vec![71, 7]));
        assert!(places.follow(5, &parse_move(&write_move(&(3, "one".into()))).unwrap()));
        assert_eq!((places.current(5), places.is_other(71), places.is_other(7)), (7, true, false));
    }

    #[test]
    fn names_are_p_and_digits() {
        assert_eq!(
            (parse("p0"), parse("p63"), parse("p64"), parse("p"), parse("px1")),
            (Some(0), Some(63), None, None, None)
        );
    }
}
