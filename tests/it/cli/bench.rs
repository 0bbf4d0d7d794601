//! Benches: the servers they start.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A bench that was killed (a time limit, a closed terminal) left its server behind, which went on holding
/// its port, its directory and whatever lock it was started under: it was ended when the bench let go of
/// it, and a killed bench lets go of nothing. The kernel tells the server now.
#[test]
fn the_server_of_a_bench_that_is_killed_ends_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
    command.args(["bench", "http", "--seconds", "60"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bench = Killed(command.spawn().expect("the binary starts"));
    let pid = bench.0.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let serves = |child: &str| {
        let said = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        said.contains("serve").then(|| child.to_owned())
    };
    let server = until("a server is started", || {
        std::fs::read_to_string(&children).ok()?.split_whitespace().find_map(serves)
    });
    bench.0.kill().expect("the bench runs");
    bench.0.wait().expect("it was ours");
    until("the server ends", || serves(&server).is_none().then_some(()));
}
