//! What reads bytes from outside.

mod grpc;
mod journal;
mod json;
mod names;
mod tree;

use std::path::PathBuf;

pub enum Target {
    Json,
    Grpc,
    Names,
    Journal(journal::Segment),
    Tree(tree::Rows),
}

impl Target {
    pub fn all() -> Vec<Target> {
        vec![
            Target::Json,
            Target::Grpc,
            Target::Names,
            Target::Journal(journal::Segment::record()),
            Target::Tree(tree::Rows::record()),
        ]
    }

    pub fn name(&self) -> &'static str {
        match self {
            Target::Json => "json",
            Target::Grpc => "grpc",
            Target::Names => "names",
            Target::Journal(_) => "journal",
            Target::Tree(_) => "tree",
        }
    }

    pub fn read(&self, input: &[u8]) {
        match self {
            Target::Json => json::read(input),
            Target::Grpc => grpc::read(input),
            Target::Names => names::read(input),
            Target::Journal(segment) => segment.read(input),
            Target::Tree(rows) => rows.read(input),
        }
    }

    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let mut corpus = match self {
            Target::Grpc => grpc::corpus(),
            Target::Journal(segment) => vec![segment.bytes.clone()],
            Target::Tree(rows) => rows.corpus(),
            Target::Json | Target::Names => Vec::new(),
        };
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(self.name());
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            corpus.extend(std::fs::read(entry.path()).ok());
        }
        corpus
    }
}
