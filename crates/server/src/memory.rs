//! How much memory there is for this process.

use std::path::Path;

/// What is taken for the memory of a machine that does not tell.
const UNKNOWN_BYTES: u64 = 4 << 30;

/// The memory of the machine, or of the control group if that is less.
pub fn total_bytes() -> u64 {
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.iter().filter_map(|path| limit(Path::new(path)));
    limits.chain(machine()).min().unwrap_or(UNKNOWN_BYTES)
}

fn limit(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok().filter(|bytes| *bytes > 0)
}

fn machine() -> Option<u64> {
    total_of(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemTotal:       16303420 kB`
fn total_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_machine_is_read_from_its_own_words() {
        assert_eq!(total_of("MemTotal:       16303420 kB\nMemFree: 1 kB\n"), Some(16_303_420 * 1024));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert!(total_bytes() > 0);
    }
}
