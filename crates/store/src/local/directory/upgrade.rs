//! Bringing a data directory of the first format to the present one.
//!
//! In the first format the rows of a shard lay in a tree of the fjall library below `tree`. They are read, written as
//! tables beside it, and then the manifest is replaced: that is the moment at which the directory changes its format.
//! A crash before it leaves the old one, whose tree was only read; a crash after it leaves files that the next opening
//! removes. The journal stays as it is and is replayed on the tables.

mod rows;
#[cfg(test)]
mod tests;
mod tree;

pub use rows::{FormatOneRows, Space};

use crate::local::directory::files::{DiskFiles, Files};
use crate::local::directory::manifest::{FORMAT, Manifest, ManifestError};
use crate::local::directory::open::shard_directory;
use crate::local::tables::{BulkTables, CATALOG_NAME, TableError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

const TREE: &str = "tree";

#[derive(Debug, Error)]
pub enum UpgradeError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{}: {source}", .file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} cannot be read: {reason}", .tree.display())]
    Tree { tree: PathBuf, reason: String },
    #[error("{} cannot be brought to the present format: {source}", .directory.display())]
    Tables { directory: PathBuf, source: TableError },
}

fn at(file: &Path) -> impl Fn(io::Error) -> UpgradeError + '_ {
    move |source| UpgradeError::Io { file: file.to_path_buf(), source }
}

/// Brings the directory to the present format if it is of an earlier one. The caller holds its lock.
pub fn bring_over(path: &Path) -> Result<(), UpgradeError> {
    bring(path, &DiskFiles::new(path), &|index| Arc::new(DiskFiles::new(shard_directory(path, index))))
}

/// The same, of any files; the trees lie below `path`.
fn bring(
    path: &Path,
    root: &dyn Files,
    files_of: &dyn Fn(u32) -> Arc<dyn Files>,
) -> Result<(), UpgradeError> {
    let Some((manifest, format)) = Manifest::read_any(root)? else { return Ok(()) };
    if format < FORMAT {
        tracing::info!(step = "upgrade", from = format, to = FORMAT, "migration");
        for index in 0..manifest.shards {
            let directory = shard_directory(path, index);
            std::fs::create_dir_all(&directory).map_err(at(&directory))?;
            let count = bring_shard(&directory, files_of(index), &manifest)?;
            tracing::info!(step = "upgrade", shard = index, count, "migration");
        }
        Manifest { is_complete: true, ..manifest }.write(root)?;
    }
    for index in 0..manifest.shards {
        let tree = shard_directory(path, index).join(TREE);
        if tree.is_dir() {
            std::fs::remove_dir_all(&tree).map_err(at(&tree))?;
        }
    }
    Ok(())
}

fn bring_shard(directory: &Path, files: Arc<dyn Files>, manifest: &Manifest) -> Result<u64, UpgradeError> {
    // What an attempt that was interrupted has left.
    for name in files.list().map_err(at(directory))? {
        if name.starts_with(CATALOG_NAME) || name.ends_with(".tab") {
            files.remove(&name).map_err(at(directory))?;
        }
    }
    let failed = |source| UpgradeError::Tables { directory: directory.to_path_buf(), source };
    let mut rows = FormatOneRows::new(BulkTables::new(files, manifest.journal_key));
    let tree = directory.join(TREE);
    if !tree.is_dir() {
        rows.finish(0).map_err(failed)?;
        return Ok(0);
    }
    let mut wrong = None;
    let read = tree::read(&tree, &mut |space, key, value| {
        wrong = rows.add(space, key, value).err();
        wrong.is_none()
    });
    let (position, count) = read.map_err(|reason| UpgradeError::Tree { tree, reason })?;
    if let Some(source) = wrong {
        return Err(failed(source));
    }
    rows.finish(position).map_err(failed)?;
    Ok(count)
}
