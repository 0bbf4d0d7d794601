//! Loss of power under a real process: what no sync covered is taken back after a kill.
//!
//! A small library in front of libc (`forgetful.c`) notes what the process changes below its data directory and
//! what it syncs. After `kill -9`, [`Power::lose`] takes back changes that no sync covered: all of them, or, drawn
//! per file and per directory, those from some point on, the first one torn at a sector. What this is not is told
//! in docs/reliability.md.

mod note;

use anyhow::{Context, ensure};
use note::{Kind, Note};
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("forgetful.c");
/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;

pub struct Power {
    library: PathBuf,
    root: PathBuf,
    side: PathBuf,
}

/// What can be lost by itself: the contents of a file, or the names in a directory.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    File(u64),
    Directory(PathBuf),
}

fn place(note: &Note) -> Place {
    let parent = |path: &Path| Place::Directory(path.parent().unwrap_or(path).to_owned());
    match note.kind {
        Kind::Write => Place::File(note.inode),
        Kind::Rename => parent(&note.to),
        _ => parent(&note.from),
    }
}

impl Power {
    /// Builds the library; `root` and `directory` must be on one file system.
    pub fn prepare(directory: &Path, root: &Path) -> anyhow::Result<Power> {
        let side = directory.join("side");
        fs::create_dir_all(&side)?;
        let (source, library) = (directory.join("forgetful.c"), directory.join("forgetful.so"));
        fs::write(&source, SOURCE)?;
        let mut build = Command::new("cc");
        build.args(["-O2", "-shared", "-fPIC", "-o"]).args([&library, &source]).args(["-ldl", "-lpthread"]);
        let built = build.status().context("cc, from the package gcc, cannot be run")?;
        ensure!(built.success(), "forgetful.c cannot be compiled");
        Ok(Power { library, root: root.to_owned(), side })
    }

    /// Puts the library in front of a process.
    pub fn watch(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library);
        command.env("FORGETFUL_ROOT", &self.root).env("FORGETFUL_SIDE", &self.side);
    }

    /// Takes back what the killed process had not synced; tells how many changes that were.
    pub fn lose(&self, random: &mut SmallRng) -> anyhow::Result<usize> {
        let log = match fs::read(self.side.join("log")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            log => log?,
        };
        let notes = note::parse(&log);
        let mut lost = drawn(&notes, random);
        lost.sort_by_key(|loss| std::cmp::Reverse(loss.note.number));
        for loss in &lost {
            self.take_back(loss).with_context(|| format!("{:?} cannot be taken back", loss.note))?;
        }
        fs::remove_dir_all(&self.side)?;
        fs::create_dir(&self.side)?;
        Ok(lost.len())
    }

    fn kept(&self, inode: u64) -> PathBuf {
        self.side.join(inode.to_string())
    }

    fn take_back(&self, loss: &Loss) -> io::Result<()> {
        let note = loss.note;
        let undone = match note.kind {
            Kind::Write => self.restore(note, loss.torn_at),
            Kind::Create => fs::remove_file(&note.from),
            Kind::MakeDirectory => fs::remove_dir_all(&note.from),
            Kind::RemoveDirectory => fs::create_dir(&note.from),
            Kind::Remove => self.link(note.inode, &note.from),
            Kind::Rename if note.inode == 0 => fs::rename(&note.to, &note.from),
            Kind::Rename => {
                fs::remove_file(&note.to)?;
                if note.other != 0 {
                    self.link(note.other, &note.to)?;
                }
                self.link(note.inode, &note.from)
            }
            Kind::Sync => Ok(()),
        };
        // A call that was noted and never made, or that concerns what is gone with its directory.
        match undone.as_ref().map_err(io::Error::kind) {
            Err(io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => Ok(()),
            _ => undone,
        }
    }

    /// Nothing to link if the file never was.
    fn link(&self, inode: u64, path: &Path) -> io::Result<()> {
        if inode == 0 { Ok(()) } else { fs::hard_link(self.kept(inode), path) }
    }

    fn restore(&self, note: &Note, torn_at: u64) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(self.kept(note.inode))?;
        let kept = usize::try_from(torn_at).unwrap_or(usize::MAX).min(note.old.len());
        file.write_all_at(&note.old[kept..], note.offset + kept as u64)?;
        let reached = file.metadata()?.len().min(note.offset.saturating_add(torn_at));
        file.set_len(if torn_at > 0 { note.size.max(reached) } else { note.size })
    }
}

struct Loss<'a> {
    note: &'a Note,
    /// Bytes of a write that reached the disk all the same.
    torn_at: u64,
}

/// Of all changes that no sync covered, those that are lost: per place, from some point on.
fn drawn<'a>(notes: &'a [Note], random: &mut SmallRng) -> Vec<Loss<'a>> {
    let mut covered: HashMap<Place, u64> = HashMap::new();
    for sync in notes.iter().filter(|note| note.kind == Kind::Sync) {
        for place in [Place::File(sync.inode), Place::Directory(sync.from.clone())] {
            let upto = covered.entry(place).or_default();
            *upto = sync.covers.max(*upto);
        }
    }
    let mut open: HashMap<Place, Vec<&Note>> = HashMap::new();
    for note in notes.iter().filter(|note| note.kind != Kind::Sync) {
        let place = place(note);
        if covered.get(&place).is_none_or(|upto| note.number > *upto) {
            open.entry(place).or_default().push(note);
        }
    }
    let mut places: Vec<Vec<&Note>> = open.into_values().collect();
    places.sort_by_key(|notes| notes[0].number);
    let mut lost = Vec::new();
    for notes in places {
        let survivors = if random.random_bool(0.5) { 0 } else { random.random_range(0..=notes.len()) };
        for (at, note) in notes.into_iter().enumerate().skip(survivors) {
            let is_torn = at == survivors && note.kind == Kind::Write && random.random_bool(0.5);
            let torn_at = if is_torn { random.random_range(0..=16) * SECTOR } else { 0 };
            lost.push(Loss { note, torn_at });
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// Syncs a file and its name, then changes both, makes another, removes a third, and is killed.
    const PROCESS: &str = r#"
import os, signal, sys
os.chdir(sys.argv[1])
here = os.getcwd()
def make(name, text):
    fd = os.open(here + "/" + name, os.O_CREAT | os.O_RDWR, 0o600)
    os.write(fd, text)
    return fd
def sync_names():
    fd = os.open(here, os.O_RDONLY)
    os.fsync(fd)
kept, third = make("kept", b"0123456789"), make("third", b"third")
os.fsync(kept), os.fsync(third)
sync_names()
os.pwrite(kept, b"xx", 4)
os.pwrite(kept, b"tail", 10)
os.fsync(make("new", b"new"))
os.unlink(here + "/third")
os.rename(here + "/kept", here + "/renamed")
os.kill(os.getpid(), signal.SIGKILL)
"#;

    /// The names and contents after the loss.
    fn after(seed: u64) -> Vec<(String, String)> {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        let power = Power::prepare(directory.path(), &root).unwrap();
        let mut process = Command::new("python3");
        power.watch(process.args(["-c", PROCESS]).arg(&root));
        assert!(!process.status().expect("python3 is there").success(), "it was killed");
        power.lose(&mut SmallRng::seed_from_u64(seed)).unwrap();
        let read = |entry: io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        };
        let mut files: Vec<_> = fs::read_dir(&root).unwrap().map(read).collect();
        files.sort();
        files
    }

    #[test]
    fn what_was_not_synced_is_lost_from_some_point_on() {
        let all: Vec<_> = (0..12).map(after).collect();
        let strict = [("kept", "0123456789"), ("third", "third")];
        let is_strict =
            |files: &Vec<(String, String)>| files.iter().map(|(name, text)| (&**name, &**text)).eq(strict);
        assert!(all.iter().any(is_strict), "everything unsynced was lost once: {all:?}");
        for files in &all {
            let text_of = |name: &str| files.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str());
            let kept = text_of("kept").or(text_of("renamed")).expect("it was synced under one of its names");
            let possible = ["0123456789", "0123xx6789", "0123xx6789tail"];
            assert!(possible.contains(&kept), "{kept}");
            // Names are lost in the order in which they were changed.
            assert!(text_of("renamed").is_none() || text_of("third").is_none(), "{files:?}");
            assert!(text_of("third").is_some() || text_of("new").is_some(), "{files:?}");
        }
    }
}
