//! Numbers that documents repeat are those of the code.

use crate::{assert_none, read};

const LIMITS: &str = "crates/queue/src/limits.rs";
const TRACES: &str = "crates/server/src/telemetry/traces/mod.rs";
const WRITER: &str = "crates/store/src/kvrocks/redis/writer.rs";
const TRIGGER: &str = "crates/server/src/grpc/scaler/trigger.rs";

/// A document, words of it with `{}` in place of the number, the source and the constant.
const NUMBERS: &[(&str, &str, &str, &str)] = &[
    ("docs/reference/http.md", "Create up to {} tasks", LIMITS, "BATCH"),
    ("docs/reference/http.md", "Claim up to {} tasks", LIMITS, "BATCH"),
    ("docs/reference/http.md", "Submit up to {} results", LIMITS, "BATCH"),
    ("docs/guides/files.md", "up to {} per task", LIMITS, "ARTIFACTS"),
    ("docs/faq.md", "{} by default (`limits.maxPayloadBytes`)", LIMITS, "PAYLOAD_BYTES"),
    ("docs/errors.md", "1 to {} characters of `A-Z a-z 0-9 _ . : -`", LIMITS, "COMMAND_BYTES"),
    ("docs/errors.md", "One key of at most {} bytes", LIMITS, "IDEMPOTENCY_KEY_BYTES"),
    ("docs/errors.md", "too many subscriptions (max {})", LIMITS, "SUBSCRIPTIONS"),
    (
        "docs/errors.md",
        "streams of one tenant: {}, and three quarters",
        "crates/server/src/shares.rs",
        "TENANT_POLLS",
    ),
    ("docs/grpc.md", "| items in a batch | {} |", LIMITS, "STREAM_BATCH"),
    ("docs/grpc.md", "| message | {} |", "crates/server/src/grpc/mod.rs", "MESSAGE_BYTES"),
    ("docs/grpc.md", "or more than {} | FailedPrecondition", "crates/server/src/grpc/mod.rs", "HELLO_BYTES"),
    ("docs/webhooks.md", "others get up to {} at once", "crates/server/src/webhook/lanes.rs", "HOST_SLOTS"),
    ("docs/dashboard.md", "for up to {} queues in memory", "crates/server/src/history.rs", "QUEUES"),
    ("docs/operating/observability.md", "Spans wait in a queue of {}", TRACES, "QUEUE"),
    ("SECURITY.md", "{} connections and", "crates/server/src/seats.rs", "STRANGER_CONNECTIONS_MAX"),
    (
        "SECURITY.md",
        "connections and {} streams of strangers",
        "crates/server/src/grpc/strangers.rs",
        "STRANGER_STREAMS_MAX",
    ),
    ("docs/guides/autoscaling.md", "or up to {} with commas", TRIGGER, "COMMANDS_MAX"),
    ("docs/decisions/kvrocks.md", "up to {} calls", WRITER, "GROUP_CALLS"),
    ("docs/decisions/kvrocks.md", "calls or {}, and sends", WRITER, "GROUP_BYTES"),
    ("docs/decisions/kvrocks.md", "at most {} groups are under way", WRITER, "GROUPS_IN_FLIGHT_MAX"),
];

/// The value of a constant: integers, products, shifts, and the seconds or milliseconds of a `Duration`.
fn constant(source: &str, name: &str) -> u64 {
    let text = read(source);
    let start =
        text.find(&format!("const {name}:")).unwrap_or_else(|| panic!("{source} has no constant {name}"));
    let (_, value) = text[start..].split_once(" = ").unwrap();
    let (value, _) = value.split_once(';').unwrap();
    let value = value.rsplit_once('(').map_or(value, |(_, inner)| inner).trim_end_matches(')');
    evaluate(value).unwrap_or_else(|| panic!("{source}: {name} = {value} is not simple enough"))
}

fn evaluate(expression: &str) -> Option<u64> {
    if let Some((left, right)) = expression.split_once(" << ") {
        return Some(evaluate(left)? << evaluate(right)?);
    }
    if let Some((left, right)) = expression.rsplit_once(" * ") {
        return Some(evaluate(left)? * evaluate(right)?);
    }
    expression.trim().replace('_', "").parse().ok()
}

/// As documents write it: a comma every three digits.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The forms in which a document may write a number: as it is, with commas, or in KiB and MiB.
fn forms(number: u64) -> Vec<String> {
    let mut forms = vec![number.to_string(), with_commas(number)];
    if number.is_multiple_of(1 << 10) {
        forms.push(format!("{} KiB", number >> 10));
    }
    if number.is_multiple_of(1 << 20) {
        forms.push(format!("{} MiB", number >> 20));
    }
    forms
}

#[test]
fn numbers_in_documents_are_those_of_the_code() {
    let mut faults = Vec::new();
    for (document, words, source, name) in NUMBERS {
        let text = read(document).split_whitespace().collect::<Vec<_>>().join(" ");
        let number = constant(source, name);
        if !forms(number).iter().any(|form| text.contains(&words.replace("{}", form))) {
            faults
                .push(format!("{document}: \"{words}\" does not say {number}, which is {name} in {source}"));
        }
    }
    assert_none("numbers", &faults);
}

#[test]
fn constants_are_read_as_they_are_written() {
    assert_eq!(evaluate("1 << 20"), Some(1 << 20));
    assert_eq!(evaluate("366 * 24 * 3600"), Some(31_622_400));
    assert_eq!(evaluate("100_000"), Some(100_000));
    assert_eq!(evaluate("other()"), None);
    assert_eq!(with_commas(31_622_400), "31,622,400");
    assert_eq!(forms(2 << 20).last().map(String::as_str), Some("2 MiB"));
}
