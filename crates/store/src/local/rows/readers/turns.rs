//! Whose reading is next: everyone who asks has a line, and the lines take turns. Whoever asks much waits behind itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What waits, in lines.
pub struct Turns<T> {
    /// Lines in which something waits.
    lines: HashMap<Arc<str>, VecDeque<T>>,
    /// The lines, the next one first; each once.
    order: VecDeque<Arc<str>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns { lines: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Turns<T> {
    pub fn push(&mut self, asker: &Arc<str>, waiting: T) {
        match self.lines.get_mut(asker) {
            Some(line) => line.push_back(waiting),
            None => {
                self.lines.insert(asker.clone(), VecDeque::from([waiting]));
                self.order.push_back(asker.clone());
            }
        }
    }

    pub fn pop(&mut self) -> Option<T> {
        let asker = self.order.pop_front()?;
        let line = self.lines.get_mut(&asker)?;
        let next = line.pop_front();
        match line.is_empty() {
            true => drop(self.lines.remove(&asker)),
            false => self.order.push_back(asker),
        }
        next
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand searches of one tenant were all made before the first one of another.
    #[test]
    fn askers_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::default();
        let (noisy, quiet, late): (Arc<str>, Arc<str>, Arc<str>) =
            ("noisy".into(), "quiet".into(), "late".into());
        (0..1000).for_each(|n| turns.push(&noisy, ("noisy", n)));
        turns.push(&quiet, ("quiet", 0));
        turns.push(&quiet, ("quiet", 1));
        let first: Vec<_> = (0..4).filter_map(|_| turns.pop()).collect();
        assert_eq!(first, [("noisy", 0), ("quiet", 0), ("noisy", 1), ("quiet", 1)]);
        turns.push(&late, ("late", 0));
        assert_eq!((turns.pop(), turns.pop()), (Some(("noisy", 2)), Some(("late", 0))));
        assert_eq!(
            std::iter::from_fn(|| turns.pop()).map(|(_, n)| n).collect::<Vec<_>>(),
            (3..1000).collect::<Vec<_>>()
        );
        assert!(turns.is_empty() && turns.lines.is_empty());
    }
}
