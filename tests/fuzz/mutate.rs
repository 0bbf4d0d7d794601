//! Inputs made from other inputs.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const LONGEST: usize = 256 << 10;
/// What parsers trip over.
const PIECES: [&[u8]; 16] = [
    b"\x00",
    b"\xff\xff\xff\xff",
    b"\xf0\x9f\x90\x8e",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"{",
    b"[[[[[[[[",
    b"\"",
    b"-0",
    b"1e999",
    b"9223372036854775808",
    b"null",
    b"%00",
    b"../",
    b"\r\n",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
];

pub struct Mutator {
    rng: SmallRng,
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>) -> Mutator {
        assert!(!corpus.is_empty(), "there is something to begin with");
        Mutator { rng: SmallRng::seed_from_u64(seed), corpus }
    }

    pub fn corpus(&self) -> &[Vec<u8>] {
        &self.corpus
    }

    fn any(&mut self) -> Vec<u8> {
        self.corpus[self.rng.random_range(0..self.corpus.len())].clone()
    }

    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.any();
        for _ in 0..self.rng.random_range(1..8) {
            self.mutate(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.random_range(0..=input.len());
        let span = self.rng.random_range(0..=(input.len() - at).min(64));
        match self.rng.random_range(0..9) {
            0 | 1 if at < input.len() => input[at] ^= 1 << self.rng.random_range(0..8),
            2 if at < input.len() => input[at] = self.rng.random(),
            3 => input.truncate(at),
            4 => drop(input.drain(at..at + span)),
            5 => {
                let piece: Vec<u8> = input[at..at + span].repeat(self.rng.random_range(1..40));
                insert(input, at, &piece);
            }
            6 => {
                let other = self.any();
                let from = self.rng.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => insert(input, at, PIECES[self.rng.random_range(0..PIECES.len())]),
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    drop(input.splice(at..at, piece.iter().copied()));
}
