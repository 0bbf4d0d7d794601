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
/// Largest payload that a server may be configured to take.
pub const PAYLOAD_BYTES_MOST: usize = 16 * 1024 * 1024;
/// Longest webhook address or callback URL.
pub const URL_BYTES: usize = 2048;
/// The most that one transition may write: a result, the callback that repeats it, and everything that comes
/// with them, escaped. A journal segment must hold more.
pub const ENTRY_BYTES: usize = 2 * RESULT_BYTES + 2 * 1024 * 1024;
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
/// Longest lane.
pub const LANE_BYTES: usize = 128;
/// Most tasks that a policy may let run at once.
pub const POLICY_CONCURRENCY: u32 = 1_000_000;
/// Most starts that a policy may allow in a period.
pub const POLICY_RATE: u32 = 1_000_000;
/// Most tasks that a policy may let wait.
pub const POLICY_MAX_READY: u64 = 100_000_000;
/// Lanes for which one policy may say something of their own.
pub const LANE_OVERRIDES: usize = 1000;
/// Largest payload schema.
pub const SCHEMA_BYTES: usize = 64 * 1024;
/// Largest policy, as text.
pub const POLICY_BYTES: usize = 1024 * 1024;
/// Policies of a tenant: all are in memory.
pub const POLICIES: usize = 10_000;
/// Bytes of the texts of those policies in one storage partition.
pub const POLICIES_BYTES: usize = 64 * 1024 * 1024;
/// Longest time that a nack may hold back its lane or queue, in seconds.
pub const HOLD_SECONDS: i64 = 86_400;
/// Lanes looked at to find the busiest ones.
pub const LANES_EXAMINED: usize = 100_000;
/// Tags of one task.
pub const TAGS: usize = 8;
/// Longest tag.
pub const TAG_BYTES: usize = 64;
/// Longest unique key.
pub const UNIQUE_KEY_BYTES: usize = 255;
/// Bytes that the keys of a tenant may occupy in one storage partition that are taken for some time: they are in memory,
/// whatever became of their tasks.
pub const UNIQUE_KEYS_BYTES: usize = 256 * 1024 * 1024;
/// Longest run that a task may be given: 7 days.
pub const MAX_RUN: Duration = Duration::from_secs(604_800);
/// Longest grace of a cancelled task.
pub const GRACE_SECONDS: u64 = 3600;
/// Largest progress that a heartbeat may tell.
pub const PROGRESS_BYTES: usize = 4096;
/// Largest checkpoint of a task.
pub const CHECKPOINT_BYTES: usize = 64 * 1024;
/// Items in one batch over HTTP.
pub const BATCH: usize = 100;
/// Items in one batch over gRPC.
pub const STREAM_BATCH: usize = 1000;
/// Commands that one claim may name: each is looked at.
pub const CLAIM_COMMANDS: usize = 256;
/// Largest weight of a command in a fair claim.
pub const WEIGHT: u8 = 100;
/// Event types of one subscription: each is looked at with every event.
pub const EVENT_TYPES: usize = 256;
/// Subscriptions of a tenant that have not expired: all are in memory.
pub const SUBSCRIPTIONS: usize = 1000;
/// Longest group of a subscription.
pub const GROUP_BYTES: usize = 128;
/// Attempts that an imported task may have behind it: far below the largest number that is counted.
pub const IMPORTED_ATTEMPTS: u32 = 1_000_000;
/// Longest trace parent that is kept.
pub const TRACE_PARENT_BYTES: usize = 256;
/// Longest trace state that is kept.
pub const TRACE_STATE_BYTES: usize = 8192;
/// Longest name of a worker in the header `Codeq-Worker`.
pub const WORKER_NAME_BYTES: usize = 128;
/// What a worker tells of itself with a claim, as JSON.
pub const WORKER_INFO_BYTES: usize = 512;
/// Longest worker id.
pub const WORKER_ID_BYTES: usize = 255;
/// How far the time may run ahead of what has passed when the wall clock is set forward.
pub const CLOCK_AHEAD: Duration = Duration::from_secs(300);
/// Longest text that an operator's filter may give for a field: an operation keeps it, and writes it with every step.
pub const FILTER_TEXT_BYTES: usize = 1024;
/// How many queues the calls of a tenant may wait for together. A call that names many costs as much as many calls.
pub const TENANT_QUEUE_WAITS: usize = 200_000;
/// Longest name of a schedule.
pub const SCHEDULE_NAME_BYTES: usize = 128;
/// Longest note of a paused schedule.
pub const SCHEDULE_NOTE_BYTES: usize = 512;
/// Schedules that a tenant may have in one storage partition, and what they may occupy: all are in memory.
pub const SCHEDULES: usize = 500_000;
/// Bytes of memory that those may occupy.
pub const SCHEDULES_BYTES: usize = 1 << 30;
/// Ticks of one backfill.
pub const BACKFILL_TICKS: u64 = 10_000;
/// Tasks and batches that one task may wait for.
pub const DEPENDENCIES: usize = 100;
/// Longest name of a batch.
pub const BATCH_NAME_BYTES: usize = 128;
/// Tasks that a batch may name to follow it.
pub const BATCH_THEN: usize = 10;
/// A batch closes when nobody has joined for this long, unless it says otherwise.
pub const BATCH_CLOSE_AFTER: Duration = Duration::from_secs(86_400);
/// Batches that a tenant may have in one storage partition: all are in memory.
pub const BATCHES: usize = 500_000;
/// Held tasks told of an end, or asked about, in one step.
pub const RELEASES_PER_STEP: usize = 1000;
/// A held task whose question was not answered asks again after this.
pub const ASK_AGAIN: Duration = Duration::from_secs(60);
/// Largest body of a callback that comes along when many are taken or listed; a larger one is read just before it
/// is sent.
pub const CALLBACK_BYTES_ALONG: usize = 16 * 1024;
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
