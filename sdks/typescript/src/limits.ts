// The bounds of every batch, wait, queue and repetition of the SDK. Times are in milliseconds.

/** Items of one batch of creates, claims or results. */
export const BATCH_ITEMS = 100;
/** Bytes of creates in one batch; the server reads bodies up to 4 MiB. */
export const CREATE_BATCH_BYTES = 3 * 1024 * 1024;
/** Bytes of results in one batch beyond which it takes no further one. */
export const RESULT_BATCH_BYTES = 8 * 1024 * 1024;
/** Batches of creates that are under way at once. */
export const CREATE_BATCHES_AT_ONCE = 4;
/** Batches of results that are under way at once. */
export const RESULT_BATCHES_AT_ONCE = 4;
/** Artifacts of one result. */
export const ARTIFACTS = 16;

/** Jobs of one worker at a time. */
export const CONCURRENCY = 5000;
/** The shortest and the longest lease. */
export const LEASE_MS = [1_000, 43_200_000] as const;
/** How long a claim waits for work in one request. */
export const CLAIM_WAIT_SECONDS = 20;
/** How long a read of a result waits in one request. */
export const RESULT_WAIT_SECONDS = 30;
/** What a request may take beyond what it waits. */
export const REQUEST_MS = 30_000;

/** The first pause before something is tried again, and the longest. */
export const BACKOFF_MS = [50, 5_000] as const;
/** A pause that the server asks for is cut to this. */
export const RETRY_AFTER_MS = 30_000;
/** How long a call is repeated before it is given up. */
export const GIVE_UP_MS = 60_000;

/** What handlers have to end by themselves when a worker shuts down. */
export const GRACE_MS = 25_000;
/** What a handler has to return after a shutdown aborted its signal. */
export const ABORT_MS = 1_000;
/** What the last reports of a shutdown have to get through. */
export const LAST_REPORTS_MS = 5_000;

/** Characters of an error that are sent; the server keeps 8192 bytes. */
export const ERROR_CHARACTERS = 8192;
/** Characters of a worker's name. */
export const WORKER_NAME_CHARACTERS = 128;
