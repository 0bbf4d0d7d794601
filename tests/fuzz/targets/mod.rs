//! What reads bytes from outside.

mod addresses;
mod batches;
mod config;
mod grpc;
mod journal;
mod json;
mod names;
mod requests;
mod tables;
mod tokens;

use std::path::PathBuf;

/// Takes an input; panics if that breaks a promise.
type Reader = dyn Fn(&[u8]);

pub struct Target {
    pub name: &'static str,
    read: Box<Reader>,
    /// Inputs to begin with, besides those in `corpus/<name>`.
    made: Vec<Vec<u8>>,
}

impl Target {
    pub fn new(name: &'static str, made: Vec<Vec<u8>>, read: impl Fn(&[u8]) + 'static) -> Target {
        Target { name, read: Box::new(read), made }
    }

    pub fn all() -> Vec<Target> {
        let segment = journal::Segment::record();
        let rows = tables::Rows::record();
        let office = tokens::Office::open();
        let desk = requests::Desk::open();
        let counter = batches::Counter::open();
        vec![
            Target::new("json", Vec::new(), json::read),
            Target::new("grpc", grpc::corpus(), grpc::read),
            Target::new("names", Vec::new(), names::read),
            Target::new("config", config::corpus(), config::read),
            Target::new("tokens", office.corpus(), move |input| office.read(input)),
            Target::new("requests", desk.corpus(), move |input| desk.read(input)),
            Target::new("addresses", addresses::corpus(), addresses::read),
            Target::new("journal", vec![segment.bytes.clone()], move |input| segment.read(input)),
            Target::new("tables", rows.corpus(), move |input| rows.read(input)),
            Target::new("batches", counter.corpus(), move |input| counter.read(input)),
        ]
    }

    pub fn read(&self, input: &[u8]) {
        (self.read)(input);
    }

    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let mut corpus = self.made.clone();
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(self.name);
        let mut kept: Vec<PathBuf> =
            std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        // In the same order everywhere, so that a seed means the same.
        kept.sort();
        corpus.extend(kept.iter().filter_map(|file| std::fs::read(file).ok()));
        corpus
    }
}
