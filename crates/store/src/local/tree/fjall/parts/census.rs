//! Counting what is left of a part.

use super::{SPAN, number_of};
use ::fjall::{Error, Keyspace};

/// Which rows a part has: a bit for each of its numbers.
#[derive(Default)]
pub struct Census {
    words: Vec<u64>,
    pub rows: u64,
}

impl Census {
    pub fn of(rows: &Keyspace) -> Result<Census, Error> {
        let mut census = Census::default();
        for row in rows.iter() {
            census.count(&row.key()?, true);
        }
        Ok(census)
    }

    pub fn count(&mut self, key: &[u8], is_there: bool) {
        let Some(no) = number_of(key) else { return };
        let at = usize::try_from(no % SPAN).expect("smaller than a part");
        self.words.resize((SPAN / 64) as usize, 0);
        let (word, bit) = (&mut self.words[at / 64], 1 << (at % 64));
        self.rows -= u64::from(*word & bit != 0);
        *word = if is_there { *word | bit } else { *word & !bit };
        self.rows += u64::from(is_there);
    }

    pub fn numbers(&self, part: u64) -> impl Iterator<Item = u64> {
        let bits = (0..).zip(&self.words).flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        });
        bits.map(move |bit| part * SPAN + bit)
    }
}
