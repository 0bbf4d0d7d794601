//! Configuration files, through everything that a server does with them before it starts.

use codeq_server::config::{DEFAULT_YAML, Mode, load_text};

pub fn read(input: &[u8]) {
    // A file that is not UTF-8 is refused by the reader of files.
    let Ok(text) = std::str::from_utf8(input) else { return };
    for mode in [Mode::Serve, Mode::Dev] {
        match load_text(text, mode) {
            Ok(loaded) => assert!(!format!("{:?}", loaded.config).is_empty()),
            Err(error) => assert!(!error.to_string().is_empty(), "a fault says what it is"),
        }
    }
}

/// The reference without its comments, and what it leaves empty.
pub fn corpus() -> Vec<Vec<u8>> {
    let plain = |line: &str| line.split(" #").next().unwrap_or_default().trim_end().to_owned();
    let lines: Vec<String> = DEFAULT_YAML.lines().map(plain).filter(|line| !line.is_empty()).collect();
    let parts = lines.chunks(12).map(|lines| lines.join("\n").into_bytes());
    std::iter::once(lines.join("\n").into_bytes()).chain(parts).collect()
}
