//! Files that tell a test about every call that changes something, before and after it happens, and can be
//! told to fail all syncs.

use crate::local::files::{File, Files};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A call on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Create { name: String },
    Write { name: String, offset: u64, bytes: usize },
    Sync { name: String },
    Rename { to: String },
    Remove { name: String },
    SyncDir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

pub type Watch = Arc<dyn Fn(&Call, When) + Send + Sync>;

/// Whether a call is to fail without being made.
pub type Veto = Arc<dyn Fn(&Call) -> bool + Send + Sync>;

/// Cloning shares everything.
#[derive(Clone)]
pub struct Observed<F> {
    inner: F,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    watch: Mutex<Option<Watch>>,
    veto: Mutex<Option<Veto>>,
    fails_syncs: AtomicBool,
}

impl<F: Files> Observed<F> {
    pub fn new(inner: F) -> Observed<F> {
        Observed { inner, shared: Arc::default() }
    }

    /// Called around every write and sync from now on, on the thread that makes the call.
    pub fn set_watch(&self, watch: Option<Watch>) {
        *self.shared.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
    }

    /// Calls that this picks fail from now on.
    pub fn set_veto(&self, veto: Option<Veto>) {
        *self.shared.veto.lock().unwrap_or_else(PoisonError::into_inner) = veto;
    }

    /// While set, no sync of a file happens and every one is answered with an error.
    pub fn fail_syncs(&self, fail: bool) {
        self.shared.fails_syncs.store(fail, Ordering::Release);
    }

    fn wrap(&self, name: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(ObservedFile { name: name.to_owned(), file, shared: self.shared.clone() })
    }
}

impl<F: Files> Files for Observed<F> {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let call = Call::Create { name: name.to_owned() };
        let created = self.shared.around(call, || self.inner.create(name))?;
        Ok(self.wrap(name, created))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(name, self.inner.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.shared.around(Call::Rename { to: to.to_owned() }, || self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.shared.around(Call::Remove { name: name.to_owned() }, || self.inner.remove(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.shared.around(Call::SyncDir, || self.inner.sync_dir())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.inner.path_of(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }
}

struct ObservedFile {
    name: String,
    file: Arc<dyn File>,
    shared: Arc<Shared>,
}

impl Shared {
    fn around<T>(&self, call: Call, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let veto = self.veto.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if veto.is_some_and(|veto| veto(&call)) {
            return Err(io::Error::other("the call was vetoed"));
        }
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tell = |when| watch.iter().for_each(|watch| watch(&call, when));
        tell(When::Before);
        let answer = make();
        tell(When::After);
        answer
    }
}

impl File for ObservedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let call = Call::Write { name: self.name.clone(), offset, bytes: bytes.len() };
        self.shared.around(call, || self.file.write_at(bytes, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        let is_failing = self.shared.fails_syncs.load(Ordering::Acquire);
        self.shared.around(Call::Sync { name: self.name.clone() }, || match is_failing {
            true => Err(rustix::io::Errno::IO.into()),
            false => self.file.sync_data(),
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
