//! The lines that `codeq dev` prints work as pasted: cli.md §2.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a line as a person would, and reads what it prints.
fn paste(line: &str) -> Value {
    let path = std::env::var_os("PATH").expect("a path");
    let mut shell = Command::new("sh");
    let ran = shell.env_clear().env("PATH", path).arg("-c").arg(line).output().expect("a shell");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{line}: {told}");
    let text = String::from_utf8(ran.stdout).expect("text");
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{line}: {text}"))
}

#[test]
fn the_printed_lines_create_claim_and_finish_a_task() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_codeq"));
    command.env_clear().current_dir(directory.path()).args(["dev", "--port", "0"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut server = Killed(child);
    let lines = BufReader::new(server.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut told: Vec<String> = Vec::new();
    for line in lines {
        let is_last = line.starts_with("[INFO] API: ");
        told.push(line);
        if is_last {
            break;
        }
    }
    let after = |start: &str| {
        let found = told.iter().find_map(|line| line.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no {start:?} in {told:#?}"))
    };
    let base = after("[OK] codeQ dev listening on ");
    assert!(base.starts_with("http://127.0.0.1:"), "{base}");
    assert_eq!(after("[INFO] data: "), "./codeq-data");
    assert!(directory.path().join("codeq-data").is_dir());
    assert_eq!(after("[INFO] tenant: "), "dev-tenant");
    assert_eq!(after("[INFO] producer token (admin): "), "dev-token");
    assert_eq!(after("[INFO] worker token: "), "dev-token");
    let expected = format!(
        "curl -s -X POST {base}/v1/codeq/tasks -H 'Authorization: Bearer dev-token' \
         -d '{{\"command\":\"demo\",\"payload\":{{\"n\":1}}}}'"
    );
    assert_eq!(after("[INFO] create: "), expected);
    let created = paste(&expected);
    assert_eq!(created["status"], "PENDING", "{created}");
    let claimed = paste(after("[INFO] claim: "));
    assert_eq!((&claimed["id"], &claimed["status"]), (&created["id"], &"IN_PROGRESS".into()));
    let finish = after("[INFO] finish: ").replace("TASK_ID", created["id"].as_str().expect("an id"));
    let finished = paste(&finish);
    assert_eq!((&finished["taskId"], &finished["status"]), (&created["id"], &"COMPLETED".into()));
}
