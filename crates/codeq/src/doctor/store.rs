//! Can tasks be kept in this directory?

use super::report::Report;
use rustix::fs::{fdatasync, statvfs};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Below the first the store refuses writes, below the second it is time to act.
const FREE: (u64, u64) = (64 << 20, 1 << 30);
/// A sync that takes longer makes every answer slow.
const SLOW: Duration = Duration::from_millis(20);
const SYNCS: usize = 8;

pub fn check(report: &mut Report, path: &Path, is_served: bool) {
    let shown = path.display();
    if is_foreign(path) {
        let next = "point persistenceConfig.path at an empty directory, or at one that codeQ made";
        return report.error("store", format!("not a codeQ data directory: {shown}"), next);
    }
    let nearest = nearest(path);
    let file = nearest.join(format!(".codeq-doctor-{}", std::process::id()));
    let syncs = syncs(&file);
    let _ = std::fs::remove_file(&file);
    match syncs {
        Err(error) => {
            let next = format!("make it writable for this user: chown -R \"$(id -u)\" {}", nearest.display());
            return report.error("store", format!("cannot write in {}: {error}", nearest.display()), next);
        }
        Ok(_) if nearest == path => report.ok("store", format!("{shown} is writable")),
        Ok(_) => report.ok("store", format!("{shown} can be made")),
    }
    lock(report, path, is_served);
    space(report, &nearest);
    if let Ok(median) = syncs {
        speed(report, median);
    }
}

/// Whether something else lives there.
fn is_foreign(path: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else { return path.is_file() };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let is_ours = names.iter().any(|name| name == "manifest");
    !is_ours && names.iter().any(|name| name != "LOCK" && !name.starts_with("manifest"))
}

/// The directory, or the one in which it would be made.
fn nearest(path: &Path) -> PathBuf {
    let mut found = path;
    while !found.exists() {
        match found.parent() {
            Some(parent) if parent.as_os_str().is_empty() => return PathBuf::from("."),
            Some(parent) => found = parent,
            None => break,
        }
    }
    found.to_path_buf()
}

fn lock(report: &mut Report, path: &Path, is_served: bool) {
    let file = path.join("LOCK");
    let held = File::options().write(true).open(&file);
    match held.map(|file| file.try_lock()) {
        Ok(Err(TryLockError::WouldBlock)) if is_served => report.ok("lock", "held by the running server"),
        Ok(Err(TryLockError::WouldBlock)) => {
            let next = format!("find and stop the other process: fuser -v {}", file.display());
            report.error("lock", format!("data directory is in use: {}", path.display()), next);
        }
        _ => report.ok("lock", "free"),
    }
}

fn space(report: &mut Report, path: &Path) {
    let Ok(found) = statvfs(path) else { return };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{:.1} GiB free", free as f64 / f64::from(1 << 30));
    let next = "make room: delete what is not needed, or move persistenceConfig.path to a larger disk";
    match free {
        _ if free < FREE.0 => report.error("disk space", text, next),
        _ if free < FREE.1 => report.warn("disk space", text, next),
        _ => report.ok("disk space", text),
    }
}

fn speed(report: &mut Report, median: Duration) {
    let text = format!("fdatasync takes {:.1} ms", median.as_secs_f64() * 1000.0);
    match median > SLOW {
        true => report.warn("disk speed", text, "use a disk with a power-safe cache, or durability: os"),
        false => report.ok("disk speed", text),
    }
}

/// The median of a few small synced writes.
fn syncs(path: &Path) -> std::io::Result<Duration> {
    let mut file = File::options().create(true).truncate(true).write(true).open(path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.write_all(&[0; 4096])?;
        fdatasync(&file)?;
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(times[SYNCS / 2])
}
