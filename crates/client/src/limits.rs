//! The bounds of every queue, batch, wait and message of the SDK.

use std::time::Duration;

/// Items of one batch over HTTP.
pub const HTTP_BATCH: usize = 100;
/// Items of one message over a stream.
pub const STREAM_BATCH: usize = 1000;
/// Bytes of items beyond which a message takes no further one.
pub const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// The largest item that a stream can carry; the server reads messages up to 16 MiB.
pub const ITEM_BYTES: usize = 15 * 1024 * 1024;
/// What the server may send in one message, with room for its envelope.
pub const ANSWER_BYTES: usize = 17 * 1024 * 1024;
/// Bytes of creates in one HTTP batch; the server reads bodies up to 4 MiB.
pub const HTTP_BATCH_BYTES: usize = 3 * 1024 * 1024;
/// Items that wait for a stream to take them.
pub const QUEUED: usize = 1024;
/// Items that are sent on a stream and not answered.
pub const UNANSWERED: usize = 5000;
/// Messages between us and the transport of a stream.
pub const OUTBOUND: usize = 16;

/// Batches of results that are under way at once over HTTP.
pub const RESULT_BATCHES: usize = 4;
/// Artifacts of one result.
pub const ARTIFACTS: usize = 16;

/// Jobs of one worker at a time.
pub const CONCURRENCY: usize = 5000;
/// The shortest and the longest lease.
pub const LEASE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(43_200));
/// How long a claim over HTTP waits for work in one request.
pub const CLAIM_WAIT: Duration = Duration::from_secs(20);
/// How long a read of a result waits in one request.
pub const RESULT_WAIT: Duration = Duration::from_secs(30);

/// What handlers have to end by themselves when a worker shuts down.
pub const GRACE: Duration = Duration::from_secs(25);
/// What a handler has to return after its token was cancelled by a shutdown.
pub const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// What the last reports of a shutdown have to get through.
pub const LAST_REPORTS: Duration = Duration::from_secs(5);

/// The first pause before something is tried again, and the longest.
pub const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A pause that the server asks for is cut to this.
pub const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Silence after which a connection is probed; servers allow one ping in five minutes.
pub const PING_INTERVAL: Duration = Duration::from_secs(300);
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);
pub const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
