//! `codeq queue inspect`, `list` and `watch`.

use super::Cli;
use super::stand_in::StandIn;
use crate::harness::Server;
use serde_json::{Value, json};

#[test]
fn a_queue_is_counted_in_one_line() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    cli.create(&["--event", "demo", "--payload", "1"]);
    cli.create(&["--event", "demo", "--payload", "2", "--delay-seconds", "60"]);
    let said = cli.ok(&["queue", "inspect", "DEMO"]);
    assert_eq!(said, "READY: 1 | DELAYED: 1 | IN_PROGRESS: 0 | DLQ: 0\n");
    assert_eq!(cli.ok(&["queue", "inspect", "none"]), "READY: 0 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0\n");
}

#[test]
fn queues_are_listed_as_a_table_and_as_json() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    assert_eq!(cli.ok(&["queue", "list"]), "no queues\n");
    cli.create(&["--event", "demo", "--payload", "1"]);
    let table = cli.ok(&["queue", "list"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows[0],
        ["COMMAND", "READY", "DELAYED", "RUNNING", "DEAD", "FAILED", "OLDEST", "TENANT", "STATE"]
    );
    assert_eq!((rows[1][0], rows[1][1], rows[1][7], rows[1][8]), ("demo", "1", "dev-tenant", "open"));
    let listed: Value = serde_json::from_str(&cli.ok(&["queue", "list", "--json"])).expect("JSON");
    assert_eq!((&listed[0]["command"], &listed[0]["ready"]), (&json!("demo"), &json!(1)));
    let other = cli.fails(&["queue", "list", "--tenant", "other"]);
    assert!(other.starts_with("[ERROR] error (403): "), "{other}");
}

#[test]
fn a_watch_without_a_terminal_prints_lines() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    for n in 0..3 {
        cli.create(&["--event", "demo", "--payload", &n.to_string()]);
    }
    cli.create(&["--event", "other", "--payload", "1"]);
    let said = cli.ok(&["queue", "watch", "Demo", "--count", "2", "--interval", "0.1"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("demo ready=3 delayed=0 running=0 dead=0 failed=0 oldest="), "{said}");
    assert!(lines[0].ends_with("in=- out=-"), "two readings make a rate: {said}");
    assert!(lines[1].ends_with("in=0.0/s out=0.0/s"), "{said}");
}

#[test]
fn rates_come_from_the_counters_of_the_server() {
    let created = std::sync::atomic::AtomicU64::new(0);
    let server = StandIn::start(move |asked| match &*asked.path {
        "/metrics" => {
            let count = created.fetch_add(1000, std::sync::atomic::Ordering::Relaxed);
            (200, format!("codeq_task_created_total{{command=\"demo\"}} {count}\n"))
        }
        _ => {
            let queue = json!({
                "command": "demo", "ready": 7, "delayed": 1, "inProgress": 2, "dlq": 3,
                "tenantId": "t", "oldestReadyAgeSeconds": 90, "paused": true,
            });
            (200, json!({"queues": [queue]}).to_string())
        }
    });
    let said = Cli::at(&server.base).ok(&["queue", "watch", "--count", "2", "--interval", "0.2"]);
    let last = said.lines().next_back().expect("two lines");
    assert!(last.starts_with("demo ready=7 delayed=1 running=2 dead=3 failed=0 oldest=1m30s in="), "{said}");
    let rate = last.split_once("in=").and_then(|(_, rest)| rest.split_once("/s")).expect("a rate").0;
    assert!(rate.parse::<f64>().expect("a number") > 0.0, "{said}");
    assert!(last.ends_with("out=0.0/s paused"), "{said}");
}

#[test]
fn a_watch_on_a_terminal_is_redrawn_in_place() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    cli.create(&["--event", "demo", "--payload", "1"]);
    // `script` gives it a terminal.
    let watch = format!("{} queue watch --count 2 --interval 0.1", env!("CARGO_BIN_EXE_codeq"));
    let mut command = std::process::Command::new("script");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", cli.home.path()).env("CODEQ_BASE_URL", &server.base);
    command.args(["-qec", &watch, "/dev/null"]).stdin(std::process::Stdio::null());
    let output = command.output().expect("script is there");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\x1b[2A") && text.matches("COMMAND").count() == 2, "{text:?}");
}

#[test]
fn a_watch_ends_well_when_interrupted() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    cli.create(&["--event", "demo", "--payload", "1"]);
    let mut watch = cli.start(&["queue", "watch", "--interval", "0.1"]);
    watch.until("demo ready=1");
    assert_eq!(watch.interrupt().0, Some(0));
}

#[test]
fn a_watch_can_end_when_all_is_done() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    for n in 0..5 {
        cli.create(&["--event", "demo", "--payload", &n.to_string()]);
    }
    let _worker = cli.start(&["worker", "run", "--events", "demo", "--exec", "cat"]);
    let said = cli.ok(&["queue", "watch", "demo", "--until-empty", "--interval", "0.1"]);
    let last = said.lines().next_back().expect("a line");
    assert!(last.starts_with("demo ready=0 delayed=0 running=0 dead=0 failed=0 "), "{said}");
}

/// A terminal of its own that can be looked at and typed into.
struct Tmux {
    name: String,
}

impl Tmux {
    fn start(cli: &Cli, base: &str, arguments: &str) -> Tmux {
        let name = format!("codeq-{}-{}", std::process::id(), base.rsplit(':').next().unwrap_or_default());
        let binary = env!("CARGO_BIN_EXE_codeq");
        let line = format!(
            "HOME={} CODEQ_BASE_URL={base} {binary} {arguments}; sleep 60",
            cli.home.path().display()
        );
        let tmux = Tmux { name };
        tmux.run(&["new-session", "-d", "-x", "120", "-y", "20", &line]);
        tmux
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new("tmux");
        let output = command.args(["-L", &self.name]).args(arguments).output().expect("tmux is there");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    /// Waits until the screen shows this.
    #[track_caller]
    fn until(&self, text: &str) -> String {
        let begun = std::time::Instant::now();
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if screen.contains(text) {
                return screen;
            }
            assert!(begun.elapsed().as_secs() < 20, "{text:?} is not on\n{screen}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[tokio::test]
async fn the_top_of_queues_is_live_and_obeys_its_keys() {
    let server = Server::memory();
    let cli = Cli::of(&server);
    cli.create(&["--command", "alpha", "--payload", "1"]);
    cli.create(&["--command", "beta", "--payload", "1", "--max-attempts", "1"]);
    let claim = json!({"commands": ["beta"]});
    let claimed = server.post("/v1/codeq/tasks/claim", crate::harness::DEV_TOKEN, claim).await;
    let nack = format!("/v1/codeq/tasks/{}/nack", claimed.json["id"].as_str().expect("a task"));
    server.post(&nack, crate::harness::DEV_TOKEN, json!({"reason": "no room on disk7"})).await;
    let top = Tmux::start(&cli, &server.base, "top --interval 0.2");
    let screen = top.until("beta");
    assert!(screen.contains("2 queues  1 worker  ready 1") && screen.contains("q quit"), "{screen}");
    cli.create(&["--command", "gamma", "--payload", "1"]);
    top.until("gamma");
    top.press("p");
    top.until("Pause alpha? 1 ready task will wait. (y/n)");
    top.press("n");
    top.until("nothing was changed");
    top.press("p");
    top.until("Pause alpha?");
    top.press("y");
    top.until("paused alpha");
    top.until(" paused");
    top.press("w");
    top.until("LAST SEEN");
    top.until("worker-dev");
    top.press("w");
    top.press("Down");
    top.press("Enter");
    top.until("1  no room on disk<n>");
    top.press("r");
    top.until("Replay 1 dead letter of beta? (y/n)");
    top.press("y");
    top.until("dead 0");
    assert_eq!(cli.ok(&["queue", "inspect", "beta"]), "READY: 1 | DELAYED: 0 | IN_PROGRESS: 0 | DLQ: 0\n");
    let claimed =
        server.post("/v1/codeq/tasks/claim", crate::harness::DEV_TOKEN, json!({"commands": ["beta"]})).await;
    let result = format!("/v1/codeq/tasks/{}/result", claimed.json["id"].as_str().expect("a task"));
    let failed = json!({"status": "FAILED", "error": "no such order 77"});
    server.post(&result, crate::harness::DEV_TOKEN, failed).await;
    top.until("1  no such order <n>");
    top.press("f");
    top.until("Replay 1 failed task of beta? (y/n)");
    top.press("y");
    top.until("failed 0");
    top.press("q");
    let begun = std::time::Instant::now();
    while top.run(&["capture-pane", "-p"]).contains("codeQ top") {
        assert!(begun.elapsed().as_secs() < 10, "the screen is given back");
    }
}

#[test]
fn without_a_terminal_there_is_no_top() {
    assert!(Cli::new().fails(&["top"]).contains("use `codeq queue watch`"));
}
