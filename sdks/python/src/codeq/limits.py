"""The bounds of every batch, wait, queue and repetition of the SDK."""

from __future__ import annotations

from typing import Final

#: Items of one batch of creates, claims or results.
BATCH_ITEMS: Final = 100
#: Bytes of creates in one batch; the server reads bodies up to 4 MiB.
CREATE_BATCH_BYTES: Final = 3 * 1024 * 1024
#: Bytes of results in one batch beyond which it takes no further one.
RESULT_BATCH_BYTES: Final = 8 * 1024 * 1024
#: Batches of creates that are under way at once.
CREATE_BATCHES_AT_ONCE: Final = 4
#: Batches of results that are under way at once.
RESULT_BATCHES_AT_ONCE: Final = 4
#: Artifacts of one result.
ARTIFACTS: Final = 16

#: Jobs of one worker at a time.
CONCURRENCY: Final = 5000
#: The shortest and the longest lease.
LEASE_SECONDS: Final = (1, 43_200)
#: How long a claim waits for work in one request.
CLAIM_WAIT_SECONDS: Final = 20
#: How long a read of a result waits in one request.
RESULT_WAIT_SECONDS: Final = 30
#: What a request may take beyond what it waits.
REQUEST_SECONDS: Final = 30.0
#: Heartbeats that are under way at once.
HEARTBEATS_AT_ONCE: Final = 16

#: The first pause before something is tried again, and the longest.
BACKOFF_SECONDS: Final = (0.05, 5.0)
#: A pause that the server asks for is cut to this.
RETRY_AFTER_SECONDS: Final = 30.0
#: How long a call is repeated before it is given up.
GIVE_UP_SECONDS: Final = 60.0

#: What handlers have to end by themselves when a worker shuts down.
GRACE_SECONDS: Final = 25.0
#: What a handler has to return after a shutdown cancelled it.
CANCEL_SECONDS: Final = 1.0
#: What the last reports of a shutdown have to get through.
LAST_REPORTS_SECONDS: Final = 5.0

#: Characters of an error that are sent; the server keeps 8192 bytes.
ERROR_CHARACTERS: Final = 8192
#: Characters of a worker's name.
WORKER_NAME_CHARACTERS: Final = 128
