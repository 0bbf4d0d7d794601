//! The narrow file layer under the journal: one flat directory, positioned reads and writes, explicit
//! syncs. It exists so that tests can put a forgetful disk where the real one goes.
//!
//! It promises nothing beyond what the calls say: a write is durable only after `sync_data`, a create,
//! rename or remove only after `sync_dir`. It does no caching, no locking and no retrying.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// One flat directory of files.
pub trait Files: Send + Sync {
    /// Creates the file, or empties it if it exists; open for reading and writing.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// The names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Replaces `to`, if it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes earlier creates, renames and removes durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Where the file is, for messages.
    fn path_of(&self, name: &str) -> PathBuf;
    /// What an unprivileged process may still write to this file system.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// One open file. Calls from several threads may overlap.
#[allow(clippy::len_without_is_empty, reason = "a length on disk, not a collection")]
pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes; 0 only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes`, or fails having written any part of them.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
}

/// Replaces a file as a whole: after a crash it is the old one or the new one. `draft` is the name of the new one
/// until then.
pub fn replace(files: &dyn Files, name: &str, draft: &str, bytes: &[u8]) -> io::Result<()> {
    let written = files.create(draft).and_then(|file| {
        file.write_at(bytes, 0)?;
        file.sync_data()
    });
    if let Err(error) = written {
        // A half-written one only holds on to space that others may need.
        let _ = files.remove(draft);
        return Err(error);
    }
    files.rename(draft, name)?;
    files.sync_dir()
}

/// A directory of the real file system. The directory must exist.
#[derive(Debug, Clone)]
pub struct DiskFiles {
    directory: PathBuf,
}

impl DiskFiles {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    fn open_with(&self, options: &OpenOptions, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(DiskFile(options.open(self.path_of(name))?)))
    }
}

impl Files for DiskFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_with(OpenOptions::new().read(true).write(true).create(true).truncate(true), name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_with(OpenOptions::new().read(true).write(true), name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // Whatever has a name that is not text is not ours.
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path_of(from), self.path_of(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path_of(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        fs::File::open(&self.directory)?.sync_all()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let space = rustix::fs::statvfs(&self.directory)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

/// Makes a directory and what is missing above it. Its name is durable afterwards: what is synced below a
/// directory is worth nothing if the directory itself is forgotten.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let missing = path.ancestors().skip(1).filter(is_missing).count();
    fs::create_dir_all(path)?;
    for above in path.canonicalize()?.ancestors().skip(1).take(missing + 1) {
        match fs::File::open(above) {
            // Then it is not ours to make durable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            opened => opened?.sync_all()?,
        }
    }
    Ok(())
}

struct DiskFile(fs::File);

impl File for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(&self.0, buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// A file that lies in memory.
#[derive(Default)]
pub struct MemoryFile(RwLock<Vec<u8>>);

impl MemoryFile {
    pub fn read(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.read();
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut file = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let begin = usize::try_from(offset).map_err(io::Error::other)?;
        if begin == file.len() {
            file.extend_from_slice(bytes);
            return Ok(());
        }
        let end = begin + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[begin..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.read().len() as u64)
    }
}

/// A directory that lies in memory: nothing outlives the process.
#[derive(Default)]
pub struct MemoryFiles(Mutex<BTreeMap<String, Arc<MemoryFile>>>);

impl MemoryFiles {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<MemoryFile>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for MemoryFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(MemoryFile::default());
        self.files().insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.files().get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.files().remove(name);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        Path::new("memory").join(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_directory_keeps_what_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let files = DiskFiles::new(directory.path());
        let file = files.create("one").unwrap();
        file.write_at(b"hello", 3).unwrap();
        file.sync_data().unwrap();
        files.rename("one", "two").unwrap();
        files.sync_dir().unwrap();
        assert_eq!(files.list().unwrap(), ["two"]);
        let file = files.open("two").unwrap();
        let mut bytes = [9; 10];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 8);
        assert_eq!(&bytes[..8], b"\0\0\0hello");
        assert_eq!(files.create("two").unwrap().len().unwrap(), 0, "creating empties");
        assert!(files.free_bytes().unwrap() > 0);
        files.remove("two").unwrap();
        assert!(files.open("two").is_err());
        assert!(files.list().unwrap().is_empty());
    }

    #[test]
    fn a_directory_is_made_with_all_that_is_missing_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/c");
        make_directory(&path).unwrap();
        make_directory(&path).unwrap();
        assert!(path.is_dir());
        fs::write(directory.path().join("file"), "").unwrap();
        assert!(make_directory(&directory.path().join("file/a")).is_err());
    }
}
