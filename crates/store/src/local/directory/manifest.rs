//! The manifest of a data directory: what it is, how many shards it has, its secrets, its epoch.
//!
//! A few lines of text and a checksum, replaced as a whole. The epoch rises at every open, so that nothing
//! written by an earlier process can be taken for new.

use crate::local::directory::files::{Files, replace};
use crate::local::format::ids::OWN_NUMBERS_END;
use crate::local::journal::SEGMENT_HEADER;
use crate::local::tables::{self, FILTER_PROBES};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

pub const NAME: &str = "manifest";
const DRAFT: &str = "manifest.new";
pub const FORMAT: u32 = 2;
/// Its shards have trees instead of tables.
pub const FIRST_FORMAT: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manifest {
    pub shards: u32,
    pub epoch: u32,
    /// Makes ids of numbers.
    pub id_key: u64,
    /// Seeds the checksums of the journal and the tables.
    pub journal_key: u64,
    /// Every shard has a catalog; where one is missing, something is lost.
    pub is_complete: bool,
}

#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("{}: {source}", .file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} is damaged at offset {offset}: {reason}", .file.display())]
    Damaged { file: PathBuf, offset: usize, reason: &'static str },
    #[error("{} has format {found}; this build reads up to {FORMAT}", .file.display())]
    Newer { file: PathBuf, found: u32 },
    #[error("{} says `{CONSTANTS} {found}`; this build reads `{CONSTANTS} {}`", .file.display(), constants())]
    OtherConstants { file: PathBuf, found: String },
}

impl ManifestError {
    /// There was no room for it on the disk.
    pub fn is_full(&self) -> bool {
        matches!(self, ManifestError::Io { source, .. } if tables::is_full(source))
    }
}

const CONSTANTS: &str = "constants";

/// What files are read by and do not say themselves. A build with others would read them wrongly.
fn constants() -> String {
    format!("segment-header={SEGMENT_HEADER} filter-probes={FILTER_PROBES} own-numbers-end={OWN_NUMBERS_END}")
}

impl Manifest {
    fn text(&self) -> String {
        let Manifest { shards, epoch, id_key, journal_key, is_complete } = self;
        let complete = u8::from(*is_complete);
        let mut text = format!(
            "codeq {FORMAT}\nshards {shards}\nepoch {epoch}\nid-key {id_key:016x}\njournal-key {journal_key:016x}\ncomplete {complete}\n{CONSTANTS} {}\n",
            constants()
        );
        let hash = xxh3_64(text.as_bytes());
        let _ = writeln!(text, "hash {hash:016x}");
        text
    }

    fn parse(text: &str) -> Result<Manifest, (usize, &'static str)> {
        let mut offset = 0;
        let mut field = |name: &str| {
            let at = offset;
            let line = text[at..].lines().next().ok_or((at, "a line is missing"))?;
            offset = (at + line.len() + 1).min(text.len());
            let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
            value.map(|value| (at, value)).ok_or((at, "an unexpected line"))
        };
        let decimal = |(at, value): (usize, &str)| value.parse::<u32>().map_err(|_| (at, "not a number"));
        let hex =
            |(at, value): (usize, &str)| u64::from_str_radix(value, 16).map_err(|_| (at, "not a number"));
        let format = decimal(field("codeq")?)?;
        let shards = decimal(field("shards")?)?;
        let epoch = decimal(field("epoch")?)?;
        let id_key = hex(field("id-key")?)?;
        let journal_key = hex(field("journal-key")?)?;
        let is_complete = format > 1 && decimal(field("complete")?)? != 0;
        if constants_of(text).is_some() {
            field(CONSTANTS)?;
        }
        let (at, hash) = field("hash")?;
        if u64::from_str_radix(hash, 16) != Ok(xxh3_64(&text.as_bytes()[..at])) {
            return Err((at, "the checksum does not match"));
        }
        Ok(Manifest { shards, epoch, id_key, journal_key, is_complete })
    }

    /// `None` if there is none.
    pub fn read(files: &dyn Files) -> Result<Option<Manifest>, ManifestError> {
        Ok(Manifest::read_any(files)?.map(|(manifest, _)| manifest))
    }

    /// With the format it is written in.
    pub fn read_any(files: &dyn Files) -> Result<Option<(Manifest, u32)>, ManifestError> {
        let file = files.path_of(NAME);
        let io = |source| ManifestError::Io { file: file.clone(), source };
        if !files.list().map_err(io)?.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let handle = files.open(NAME).map_err(io)?;
        let mut bytes = vec![0; usize::try_from(handle.len().map_err(io)?).unwrap_or(0).min(4096)];
        let count = handle.read_at(&mut bytes, 0).map_err(io)?;
        let damaged = |offset, reason| ManifestError::Damaged { file: file.clone(), offset, reason };
        let text =
            std::str::from_utf8(&bytes[..count]).map_err(|error| damaged(error.valid_up_to(), "not text"))?;
        let format = text.lines().next().and_then(|line| line.strip_prefix("codeq ")?.parse::<u32>().ok());
        match format {
            Some(found) if found > FORMAT => return Err(ManifestError::Newer { file, found }),
            Some(FIRST_FORMAT..=FORMAT) => {}
            _ => return Err(damaged(0, "not a manifest")),
        }
        let format = format.unwrap_or(FORMAT);
        let parsed = Manifest::parse(text).map_err(|(offset, reason)| damaged(offset, reason))?;
        match constants_of(text) {
            Some(found) if found != constants() => {
                Err(ManifestError::OtherConstants { file, found: found.to_owned() })
            }
            _ => Ok(Some((parsed, format))),
        }
    }

    /// Replaces the manifest; it is the new one or the old one after a crash, never a mixture.
    pub fn write(&self, files: &dyn Files) -> Result<(), ManifestError> {
        let replaced = replace(files, NAME, DRAFT, self.text().as_bytes());
        replaced.map_err(|source| ManifestError::Io { file: files.path_of(NAME), source })
    }
}

/// Early directories of the second format do not have them; theirs were the same.
fn constants_of(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix(CONSTANTS)?.strip_prefix(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::directory::files::MemoryFiles;

    const MANIFEST: Manifest =
        Manifest { shards: 4, epoch: 9, id_key: 0xabc, journal_key: u64::MAX, is_complete: true };

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Manifest::parse(&MANIFEST.text()), Ok(MANIFEST));
    }

    #[test]
    fn a_directory_with_other_constants_is_refused_and_an_early_one_is_not() {
        let files = MemoryFiles::default();
        let write = |constants: &str| {
            let line = format!("{CONSTANTS} {}\n", crate::local::directory::manifest::constants());
            let text = MANIFEST.text().replace(&line, constants);
            let (content, _) = text.split_once("hash ").unwrap();
            let text = format!("{content}hash {:016x}\n", xxh3_64(content.as_bytes()));
            files.create(NAME).unwrap().write_at(text.as_bytes(), 0).unwrap();
        };
        write("");
        assert_eq!(Manifest::read(&files).unwrap(), Some(MANIFEST));
        write("constants filter-probes=9\n");
        let refused = Manifest::read(&files).unwrap_err().to_string();
        assert!(refused.contains("filter-probes=9"), "{refused}");
        MANIFEST.write(&files).unwrap();
        assert_eq!(Manifest::read(&files).unwrap(), Some(MANIFEST));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let text = MANIFEST.text();
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            let is_format = at < "codeq 1\n".len();
            assert!(is_format || Manifest::parse(&changed).is_err(), "byte {at}");
        }
        assert!(Manifest::parse("").is_err());
        assert!(Manifest::parse(&text[..text.len() / 2]).is_err());
    }
}
