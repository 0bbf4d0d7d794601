"""What a create can ask for, in Python's spelling."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from . import wire
from .wire import Seconds

if TYPE_CHECKING:
    from .client import Batch, Task


@dataclass(frozen=True)
class Unique:
    """Of all tasks of a command with one ``key``, one lives at a time."""

    key: str
    #: ``"started"``: until the first claim. ``"ended"``: until the end. Seconds: that long from the create.
    until: Literal["started", "ended"] | int = "ended"
    #: ``"keep"`` the holder, ``"replace"`` what it carries, or ``"cancel"`` it.
    on_conflict: Literal["keep", "replace", "cancel"] = "keep"
    #: How far a replacing create may push the time of the holder.
    max_wait: Seconds | None = None


class CreateOptions(TypedDict, total=False):
    """The options of a create. All are optional."""

    #: 0 to 9, higher first.
    priority: int
    #: Not before this many seconds have passed.
    delay: Seconds
    #: Not before this instant. Wins over ``delay``.
    run_at: datetime
    #: Deliveries before the task is a dead letter.
    max_attempts: int
    #: The idempotency key. One is made for the call if there is none.
    key: str
    #: Small metadata: at most 16 entries, 4 KiB.
    headers: Mapping[str, str]
    #: Where the result is posted.
    webhook: str
    #: Tasks of one lane share fairness and limits.
    lane: str
    unique: Unique
    #: A task that was not started by then fails with ``EXPIRED``.
    expires_in: Seconds
    expires_at: datetime
    #: Tasks and batches that have to end first.
    after: Sequence[str | Task | Batch]
    on_dependency_failure: Literal["cancel", "run"]
    #: The batch that the task joins.
    batch: str | Batch
    tags: Sequence[str]
    #: The longest run of one attempt.
    max_run: Seconds


def create_body(command: str, payload: Any, options: CreateOptions, key: str | None = None) -> dict[str, Any]:
    """The body of a create. It always has an idempotency key, so that it can be repeated."""
    delay, expires_in, max_run = options.get("delay"), options.get("expires_in"), options.get("max_run")
    run_at, expires_at, batch = options.get("run_at"), options.get("expires_at"), options.get("batch")
    after, tags = options.get("after"), options.get("tags")
    fields = {
        "idempotencyKey": options.get("key") or key or str(uuid.uuid4()),
        "priority": options.get("priority"),
        "delaySeconds": None if delay is None else wire.whole_seconds(delay),
        "runAt": None if run_at is None else wire.timestamp(run_at),
        "maxAttempts": options.get("max_attempts"),
        "headers": _dict(options.get("headers")),
        "webhook": options.get("webhook"),
        "lane": options.get("lane"),
        "unique": _unique(options.get("unique")),
        "expireSeconds": None if expires_in is None else wire.whole_seconds(expires_in, 1),
        "expiresAt": None if expires_at is None else wire.timestamp(expires_at),
        "after": [_id(one) for one in after] if after else None,
        "onDependencyFailure": options.get("on_dependency_failure"),
        "batchId": None if batch is None else _id(batch),
        "tags": list(tags) if tags else None,
        "maxRunSeconds": None if max_run is None else wire.whole_seconds(max_run, 1),
    }
    return {"command": command, "payload": payload, **wire.compact(fields)}


def _dict(entries: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if entries is None else dict(entries)


def _unique(unique: Unique | None) -> dict[str, Any] | None:
    if unique is None:
        return None
    wait = None if unique.max_wait is None else wire.whole_seconds(unique.max_wait)
    fields = {
        "key": unique.key,
        "until": unique.until,
        "onConflict": unique.on_conflict,
        "maxWaitSeconds": wait,
    }
    return wire.compact(fields)


def _id(one: str | Task | Batch) -> str:
    return one if isinstance(one, str) else one.id
