//! Why dead letters died: error texts without what differs from case to case.
//!
//! `timeout after 31s at 10.0.0.7:443` and `timeout after 30s at 10.0.0.9:443` are one cause. Numbers, hex, ids,
//! UUIDs, quoted text, addresses and paths are replaced by marks; two texts that then agree are one group.
//!
//! Numbers, hex and ids share one mark, because one series of ids holds all of them: `ch_10`, `ch_1a`, `ch_fa`.

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

/// The name of the group of failures that a task belongs to.
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
        _ => segments(core, out),
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

/// What stands for a number, hex or an id.
const NUMBER: &str = "<n>";
/// A word of hex letters this long is taken for hex even without a digit in it.
const HEX_LETTERS: usize = 8;
/// Letters before an underscore that may be the kind of an id: `ch_`, `cus_`, `task_`.
const KIND_LETTERS: usize = 4;
/// Letters of an id without digits, such as `NfkQzRbW`.
const RANDOM_LETTERS: usize = 8;
/// What a quantity may be counted in.
const UNITS: [&str; 13] = ["s", "ms", "us", "ns", "m", "min", "h", "kb", "mb", "gb", "kib", "mib", "gib"];
/// Words of hex letters that names are made of.
const WORDS: [&str; 9] = ["ad", "add", "bad", "be", "bed", "dead", "face", "fed", "feed"];

/// Writes a word with marks in place of the parts of it that vary.
fn segments(word: &str, out: &mut String) {
    let mut rest = word;
    let mut before = "";
    while let Some(first) = rest.chars().next() {
        if !first.is_alphanumeric() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let (segment, after) = rest.split_at(end);
        let is_after_kind = out.ends_with('_') && !before.is_empty() && before.len() <= KIND_LETTERS;
        match (unit(segment), kept(segment, is_after_kind)) {
            (Some(unit), _) if !is_after_kind => {
                number(out);
                out.push_str(unit);
            }
            (_, None) => number(out),
            (_, Some(letters)) => {
                out.push_str(letters);
                if letters.len() < segment.len() {
                    out.push_str(NUMBER);
                }
            }
        }
        (before, rest) = (segment, after);
    }
}

/// The unit of a quantity: `s` of `31s` and of `1m30s`. Letters of hex are no units: `5d` may be an id.
fn unit(segment: &str) -> Option<&str> {
    let amount = segment.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &segment[amount.len()..];
    let is_amount = segment.starts_with(|c: char| c.is_ascii_digit())
        && amount.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'h' | b'm'));
    (is_amount && UNITS.contains(&&*unit.to_ascii_lowercase())).then_some(unit)
}

/// The letters of a segment that tell causes apart; `None` if all of it varies.
fn kept(segment: &str, is_after_kind: bool) -> Option<&str> {
    let digit = segment.find(|c: char| c.is_ascii_digit());
    let is_hex = segment.bytes().all(|c| c.is_ascii_hexdigit());
    match digit {
        None if is_hex && segment.len() >= HEX_LETTERS => None,
        None if is_after_kind && (is_hex && !is_plain_word(segment) || is_random(segment)) => None,
        None => Some(segment),
        Some(0) => None,
        Some(_) if is_hex || is_after_kind => None,
        Some(at) => segment[at..].bytes().all(|c| c.is_ascii_digit()).then(|| &segment[..at]),
    }
}

fn is_plain_word(segment: &str) -> bool {
    WORDS.contains(&&*segment.to_ascii_lowercase())
}

/// Upper and lower case mixed as no name mixes them.
fn is_random(segment: &str) -> bool {
    let inside = segment.bytes().skip(1);
    let upper = inside.clone().filter(u8::is_ascii_uppercase).count();
    let lower = inside.filter(u8::is_ascii_lowercase).count();
    segment.len() >= RANDOM_LETTERS && upper >= 2 && lower >= 2
}

/// Numbers in a row are one: dates, times, versions, fractions.
fn number(out: &mut String) {
    let joined = out.strip_suffix(['.', '-', ':', '_']).is_some_and(|before| before.ends_with(NUMBER));
    if joined {
        out.pop();
    } else {
        out.push_str(NUMBER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_is_replaced_by_marks() {
        for (error, normalised) in [
            ("timeout after 31s", "timeout after <n>s"),
            ("timeout  after\n1m9.5s ", "timeout after <n>s"),
            ("row 7 of disk3 at 2026-03-01 12:00:01.5", "row <n> of disk<n> at <n> <n>"),
            ("charge ch_1a declined", "charge ch_<n> declined"),
            ("no cus_NfkQzRbW and no in_1MtHbELkdIw", "no cus_<n> and no in_<n>"),
            ("is_dead at node-3f", "is_dead at node-<n>"),
            ("user \"ann\" is 'gone'", "user <text> is <text>"),
            ("it's broken", "it's broken"),
            ("no task 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11.", "no task <uuid>."),
            ("commit deadbeef1 at 0xff", "commit <n> at <n>"),
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

    /// Ids that happened to be all digits, or to end in a letter, made groups of their own: one cause was seven.
    #[test]
    fn forty_errors_of_two_causes_are_two_groups() {
        let declined = (0..20).map(|n| format!("charge ch_{:x} was declined after {}ms", n * 37, n * 31));
        let missing = (0..20).map(|n| format!("no customer {:04x} on shard-{n}: 0x{:x}", n * 3571, n));
        let mut causes: Vec<String> = declined.chain(missing).map(|error| normalise(&error)).collect();
        causes.sort();
        causes.dedup();
        assert_eq!(causes, ["charge ch_<n> was declined after <n>ms", "no customer <n> on shard-<n>: <n>"]);
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
