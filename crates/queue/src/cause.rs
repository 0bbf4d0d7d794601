//! Why dead letters died: error texts without what differs from case to case.
//!
//! `timeout after 31s at 10.0.0.7:443` and `timeout after 30s at 10.0.0.9:443` are one cause. Numbers, hex,
//! UUIDs, quoted text, addresses and paths are replaced by marks; two texts that then agree are one group.

use crate::id::fnv1a;
use crate::task::Task;

/// Bytes of an error text that take part; what comes later rarely tells causes apart.
const EXAMINED: usize = 512;

/// The stable id of a group.
pub fn group(command: &str, normalised: &str) -> String {
    let mut name = command.to_ascii_lowercase().into_bytes();
    name.push(0);
    name.extend_from_slice(normalised.as_bytes());
    format!("{:016x}", fnv1a(&name))
}

pub fn group_of(task: &Task) -> String {
    group(&task.body.command, &normalise(task.error.as_deref().unwrap_or_default()))
}

/// The text with marks for what varies.
pub fn normalise(error: &str) -> String {
    let error = crate::limits::cut(error, EXAMINED);
    let mut out = String::with_capacity(error.len());
    let mut rest = error;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = quoted(rest, first) {
            out.push_str("<text>");
            rest = after;
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            word(&rest[..end], &mut out);
            rest = &rest[end..];
        } else {
            if !(first.is_whitespace() && out.ends_with(' ')) {
                out.push(if first.is_whitespace() { ' ' } else { first });
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    out.trim().to_owned()
}

/// What follows a quoted stretch, if one begins here.
fn quoted(text: &str, first: char) -> Option<&str> {
    if !matches!(first, '"' | '\'' | '`') {
        return None;
    }
    let inside = &text[1..];
    let end = inside.find(first)?;
    Some(&inside[end + 1..])
}

/// Characters that words, numbers, paths, addresses and UUIDs are made of.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '\\' | '@' | '%' | '?' | '&' | '=' | '+')
}

fn word(word: &str, out: &mut String) {
    let core = word.trim_end_matches(['.', ':', '?', '-']);
    let tail = &word[core.len()..];
    match core {
        _ if core.contains("://") => out.push_str("<url>"),
        _ if is_uuid(core) => out.push_str("<uuid>"),
        _ if is_address(core) => out.push_str("<addr>"),
        _ if is_path(core) => out.push_str("<path>"),
        _ if is_hex(core) => out.push_str("<hex>"),
        _ => numbers(core, out),
    }
    out.push_str(tail);
}

fn is_uuid(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    parts.len() == 5
        && parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|c| c.is_ascii_hexdigit()))
}

/// `10.0.0.7`, `10.0.0.7:443`, `fe80::1`, `db.internal:5432`, `a@b.example`.
fn is_address(word: &str) -> bool {
    if word.contains('@') {
        return true;
    }
    let (host, port) = word.rsplit_once(':').unwrap_or((word, ""));
    let is_port = !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit());
    let is_v4 = host.split('.').count() == 4 && host.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let is_v6 = word.matches(':').count() >= 2 && word.bytes().all(|c| c.is_ascii_hexdigit() || c == b':');
    is_v4 || is_v6 || (is_port && host.contains('.'))
}

fn is_path(word: &str) -> bool {
    let separators = word.matches(['/', '\\']).count();
    word.starts_with(['/', '\\']) && word.len() > 1 || separators >= 2
}

/// Eight or more hex digits with at least one number among them, or 0x and any.
fn is_hex(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_marked = digits.len() < word.len() && !digits.is_empty();
    let has_both = digits.bytes().any(|c| c.is_ascii_digit()) && digits.bytes().any(|c| !c.is_ascii_digit());
    digits.bytes().all(|c| c.is_ascii_hexdigit()) && (is_marked || (digits.len() >= 8 && has_both))
}

fn numbers(word: &str, out: &mut String) {
    let mut is_in_number = false;
    for c in word.chars() {
        match c.is_ascii_digit() {
            true if is_in_number => {}
            true => out.push_str("<n>"),
            false => out.push(c),
        }
        is_in_number = c.is_ascii_digit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_is_replaced_by_marks() {
        for (error, normalised) in [
            ("timeout after 31s", "timeout after <n>s"),
            ("timeout  after\n9s ", "timeout after <n>s"),
            ("user \"ann\" is 'gone'", "user <text> is <text>"),
            ("it's broken", "it's broken"),
            ("no task 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11.", "no task <uuid>."),
            ("commit deadbeef1 at 0xff", "commit <hex> at <hex>"),
            ("connect 10.0.0.7:443: refused", "connect <addr>: refused"),
            ("lookup db.internal:5432 failed", "lookup <addr> failed"),
            ("no route to fe80::1", "no route to <addr>"),
            ("open /var/lib/x.db: denied", "open <path>: denied"),
            ("GET https://a.example/x?y=1 gave 502", "GET <url> gave <n>"),
            ("MAX_ATTEMPTS", "MAX_ATTEMPTS"),
            ("", ""),
        ] {
            assert_eq!(normalise(error), normalised, "{error}");
        }
    }

    #[test]
    fn groups_are_stable_and_belong_to_a_command() {
        assert_eq!(group("Render", "x"), group("render", "x"));
        assert_ne!(group("a", "x"), group("b", "x"));
        assert_ne!(group("a", "bx"), group("ab", "x"));
    }

    #[test]
    fn any_text_has_a_cause() {
        for odd in ["'", "\"\"", "é'ü", "::::", "////", "0x", "-.-", "\u{0}\u{1}", &"é".repeat(600)] {
            let once = normalise(odd);
            assert!(once.len() <= 4 * EXAMINED, "{odd}");
        }
    }
}
