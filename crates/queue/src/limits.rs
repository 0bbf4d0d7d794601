//! Every bound of the rules in one place. What a bound protects is said next to it.

use std::time::Duration;

/// Longest command after trimming.
pub const COMMAND_BYTES: usize = 128;
/// Longest idempotency key.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;
/// Entries in a task's headers.
pub const HEADERS: usize = 16;
/// Longest header name.
pub const HEADER_NAME_BYTES: usize = 64;
/// Names and values of all headers together.
pub const HEADERS_BYTES: usize = 4096;
/// Default bound of a payload's text; the server may be configured otherwise.
pub const PAYLOAD_BYTES: usize = 1024 * 1024;
/// Longest result text that one record can carry; larger output belongs into an artifact.
pub const RESULT_BYTES: usize = 16 * 1024 * 1024;
/// Error and reason texts are cut here.
pub const ERROR_BYTES: usize = 8192;
/// Error text kept per entry of the attempt history.
pub const ATTEMPT_ERROR_BYTES: usize = 512;
/// Attempts remembered per task.
pub const ATTEMPTS_KEPT: usize = 20;
/// Artifacts per result.
pub const ARTIFACTS: usize = 16;
/// Longest artifact name.
pub const ARTIFACT_NAME_BYTES: usize = 255;
/// Longest pass-through artifact link.
pub const ARTIFACT_URL_BYTES: usize = 2048;
/// Longest artifact content type.
pub const ARTIFACT_TYPE_BYTES: usize = 255;
/// Highest priority; 0 is the lowest.
pub const PRIORITY_MAX: u8 = 9;
/// Longest lease.
pub const LEASE_SECONDS: u64 = 43_200;
/// How far ahead a task may be scheduled: 366 days.
pub const DELAY: Duration = Duration::from_secs(31_622_400);
/// Longest life of a subscription between renewals: 366 days.
pub const SUBSCRIPTION_TTL: Duration = Duration::from_secs(31_622_400);
/// Items in one batch over HTTP.
pub const BATCH: usize = 100;
/// Items in one batch over gRPC.
pub const STREAM_BATCH: usize = 1000;
/// Commands that one claim may name.
pub const CLAIM_COMMANDS: usize = 1000;
/// Longest worker id.
pub const WORKER_ID_BYTES: usize = 255;
/// How long a callback that ran out of attempts stays visible: 7 days.
pub const FAILED_DELIVERY_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Cuts `text` to at most `bytes`, never inside a character.
pub fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("abc", 5), "abc");
        assert_eq!(cut("abc", 2), "ab");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("é", 1), "");
    }
}
