//! The notes of `forgetful.c`, read back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const NUMBERS: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Also a truncation.
    Write,
    Create,
    Remove,
    Rename,
    MakeDirectory,
    RemoveDirectory,
    Sync,
}

#[derive(PartialEq, Eq, Debug)]
pub struct Note {
    pub kind: Kind,
    pub number: u64,
    pub inode: u64,
    /// The file that a rename replaced; 0 if none.
    pub other: u64,
    pub offset: u64,
    /// Of the file before.
    pub size: u64,
    /// The last note that a sync covers.
    pub covers: u64,
    pub from: PathBuf,
    pub to: PathBuf,
    pub old: Vec<u8>,
}

/// All whole notes. A kill may have cut the last one, whose call was then never made.
pub fn parse(mut log: &[u8]) -> Vec<Note> {
    let mut notes = Vec::new();
    while let Some(note) = next(&mut log) {
        notes.push(note);
    }
    notes
}

fn next(log: &mut &[u8]) -> Option<Note> {
    let mut numbers = [0; NUMBERS];
    for number in &mut numbers {
        *number = u64::from_le_bytes(log.split_off(..8)?.try_into().ok()?);
    }
    let [kind, number, inode, other, offset, size, covers, from, to, old] = numbers;
    let mut take = |length: u64| log.split_off(..usize::try_from(length).ok()?);
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    Some(Note {
        kind: match u8::try_from(kind).ok()? {
            b'W' => Kind::Write,
            b'C' => Kind::Create,
            b'U' => Kind::Remove,
            b'R' => Kind::Rename,
            b'M' => Kind::MakeDirectory,
            b'D' => Kind::RemoveDirectory,
            b'S' => Kind::Sync,
            _ => return None,
        },
        number,
        inode,
        other,
        offset,
        size,
        covers,
        from: path(take(from)?),
        to: path(take(to)?),
        old: take(old)?.to_vec(),
    })
}
