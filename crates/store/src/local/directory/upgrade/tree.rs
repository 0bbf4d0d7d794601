//! Reading the tree of the first format. No other file knows its library.

use crate::local::directory::upgrade::Space;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use std::path::Path;

const POSITION: &str = "position";
/// Below this number are the tasks that belong to the position; the rest a crash has left.
const FILLED: &str = "filled";
/// Tasks by ranges of their numbers.
const RANGE: &str = "task.";

/// Sees one row; returns false to stop.
type See<'a> = &'a mut dyn FnMut(Space, &[u8], &[u8]) -> bool;

/// Gives all rows, space by space in the order of keys, and then the journal position they belong to and their number.
pub fn read(path: &Path, see: See) -> Result<(u64, u64), String> {
    // The library may panic over damaged files.
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read_all(path, see)));
    read.unwrap_or_else(|_| Err("its library gave up on it".to_owned())).map_err(|error| error.to_string())
}

fn text(error: fjall::Error) -> String {
    error.to_string()
}

fn read_all(path: &Path, see: See) -> Result<(u64, u64), String> {
    let library = Database::builder(path).worker_threads(1).open().map_err(text)?;
    let open = |name: &str| library.keyspace(name, KeyspaceCreateOptions::default).map_err(text);
    let position = open(POSITION)?;
    let number = |key: &str| -> Result<Option<u64>, String> {
        let bytes = position.get(key).map_err(text)?;
        Ok(bytes.and_then(|bytes| bytes.as_ref().try_into().ok()).map(u64::from_be_bytes))
    };
    let (applied, filled) = (number(POSITION)?.unwrap_or(0), number(FILLED)?.unwrap_or(u64::MAX));
    let names: Vec<String> = library.list_keyspace_names().iter().map(|name| name.to_string()).collect();
    let mut count = 0;
    for space in spaces(&names) {
        let mut keyspaces: Vec<(Keyspace, u64)> = Vec::new();
        if names.contains(&space.name()) {
            keyspaces.push((open(&space.name())?, u64::MAX));
        }
        if space == Space::Task {
            for range in ranges(&names) {
                // The rows of a range that was being given up lie among the others already.
                if position.get(format!("retired.{range}")).map_err(text)?.is_none() {
                    keyspaces.push((open(&format!("{RANGE}{range}"))?, filled));
                }
            }
        }
        if !read_space(space, &keyspaces, &mut count, see)? {
            break;
        }
    }
    Ok((applied, count))
}

fn ranges(names: &[String]) -> Vec<u64> {
    let mut ranges: Vec<u64> =
        names.iter().filter_map(|name| name.strip_prefix(RANGE)?.parse().ok()).collect();
    ranges.sort_unstable();
    ranges
}

/// The spaces there are. Payloads that lie apart come behind the tasks that they belong to.
fn spaces(names: &[String]) -> Vec<Space> {
    let mut history: Vec<Space> =
        names.iter().filter_map(|name| Space::parse(name)).filter(|space| space.end().is_some()).collect();
    history.sort_unstable();
    Space::LIVE.into_iter().chain(history).collect()
}

/// Gives the rows of several keyspaces in the order of their keys; of each only those below its bound.
fn read_space(
    space: Space,
    keyspaces: &[(Keyspace, u64)],
    count: &mut u64,
    see: See,
) -> Result<bool, String> {
    let mut walks: Vec<_> = keyspaces.iter().map(|(rows, bound)| (rows.iter().peekable(), *bound)).collect();
    let mut heads: Vec<Option<(Vec<u8>, Vec<u8>)>> = Vec::new();
    let next = |(rows, bound): &mut (std::iter::Peekable<fjall::Iter>, u64)| {
        for row in rows {
            let (key, value) = row.into_inner().map_err(text)?;
            let number = key.as_ref().try_into().map(u64::from_be_bytes);
            if *bound == u64::MAX || number.is_ok_and(|no| no < *bound) {
                return Ok::<_, String>(Some((key.to_vec(), value.to_vec())));
            }
        }
        Ok(None)
    };
    for walk in &mut walks {
        heads.push(next(walk)?);
    }
    while let Some(first) =
        (0..heads.len()).filter(|at| heads[*at].is_some()).min_by_key(|at| heads[*at].clone())
    {
        let Some((key, value)) = heads[first].take() else { break };
        *count += 1;
        if !see(space, &key, &value) {
            return Ok(false);
        }
        heads[first] = next(&mut walks[first])?;
    }
    Ok(true)
}
