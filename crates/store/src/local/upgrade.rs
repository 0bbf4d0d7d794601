//! Bringing a data directory of the first format to the present one.
//!
//! In the first format the rows of a shard lay in a tree of the fjall library below `tree`. They are read, written as
//! tables beside it, and then the manifest is replaced: that is the moment at which the directory changes its format.
//! A crash before it leaves the old one, whose tree was only read; a crash after it leaves files that the next opening
//! removes. The journal stays as it is and is replayed on the tables.

mod rows;
mod tree;

pub use rows::{FormatOneRows, Space};

use super::files::{DiskFiles, Files};
use super::manifest::{FORMAT, Manifest, ManifestError};
use super::open::shard_directory;
use super::tables::{BulkTables, CATALOG_NAME, TableError};
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
    let files = DiskFiles::new(path);
    let Some((manifest, format)) = Manifest::read_any(&files)? else { return Ok(()) };
    if format < FORMAT {
        tracing::info!(step = "upgrade", from = format, to = FORMAT, "migration");
        for index in 0..manifest.shards {
            let count = bring_shard(&shard_directory(path, index), &manifest)?;
            tracing::info!(step = "upgrade", shard = index, count, "migration");
        }
        Manifest { is_complete: true, ..manifest }.write(&files)?;
    }
    for index in 0..manifest.shards {
        let tree = shard_directory(path, index).join(TREE);
        if tree.is_dir() {
            std::fs::remove_dir_all(&tree).map_err(at(&tree))?;
        }
    }
    Ok(())
}

fn bring_shard(directory: &Path, manifest: &Manifest) -> Result<u64, UpgradeError> {
    std::fs::create_dir_all(directory).map_err(at(directory))?;
    let files = DiskFiles::new(directory);
    // What an attempt that was interrupted has left.
    for name in files.list().map_err(at(directory))? {
        if name.starts_with(CATALOG_NAME) || name.ends_with(".tab") {
            files.remove(&name).map_err(at(directory))?;
        }
    }
    let failed = |source| UpgradeError::Tables { directory: directory.to_path_buf(), source };
    let bulk = BulkTables::new(Arc::new(files), manifest.journal_key);
    let mut rows = FormatOneRows::new(bulk);
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
