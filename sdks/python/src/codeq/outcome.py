"""How a handler can end besides returning and raising, and what is reported for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import limits, wire
from .wire import Seconds


class Fail(Exception):
    """Raise it to end the task as FAILED: there is no further attempt."""


class Retry(Exception):
    """Raise it to have the task delivered again, after ``delay`` or after the backoff of the server.

    ``hold="lane"`` or ``hold="queue"`` also keeps everything else of the lane or the queue back until then, and
    the attempt does not count: for a service that asks to be left alone for a while.
    """

    def __init__(
        self,
        reason: str = "retry",
        *,
        delay: Seconds | None = None,
        hold: Literal["lane", "queue"] | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = delay
        self.hold = hold


@dataclass(frozen=True)
class Report:
    """What is told to the server about one attempt."""

    task_id: str
    attempt: int
    #: ``result``, ``nack`` or ``abandon``.
    verb: Literal["result", "nack", "abandon"]
    body: Mapping[str, Any]
    #: For the log: completed, failed, retried or given back.
    outcome: str = field(compare=False, default="")

    def text(self) -> str:
        return wire.dumps({**self.body, "attempt": self.attempt})

    def item_text(self) -> str:
        return wire.dumps({"taskId": self.task_id, **self.body, "attempt": self.attempt})


def completed(task_id: str, attempt: int, value: Any, artifacts: list[dict[str, Any]]) -> Report:
    body: dict[str, Any] = {"status": "COMPLETED", "result": as_object(value)}
    if artifacts:
        body["artifacts"] = artifacts
    return Report(task_id, attempt, "result", body, "completed")


def failed(task_id: str, attempt: int, error: str, artifacts: list[dict[str, Any]] | None = None) -> Report:
    body: dict[str, Any] = {"status": "FAILED", "error": _cut(error) or "failed"}
    if artifacts:
        body["artifacts"] = artifacts
    return Report(task_id, attempt, "result", body, "failed")


def retried(task_id: str, attempt: int, retry: Retry) -> Report:
    body: dict[str, Any] = {"reason": _cut(retry.reason)}
    if retry.delay is not None:
        body["delaySeconds"] = wire.whole_seconds(retry.delay, 1)
    if retry.hold is not None:
        body["hold"] = retry.hold
    return Report(task_id, attempt, "nack", body, "retried")


def raised(task_id: str, attempt: int, error: BaseException) -> Report:
    text = str(error)
    name = type(error).__name__
    reason = f"{name}: {text}" if text else name
    return Report(task_id, attempt, "nack", {"reason": _cut(reason)}, "retried")


def given_back(task_id: str, attempt: int) -> Report:
    return Report(task_id, attempt, "abandon", {"refund": True}, "given back")


def as_object(value: Any) -> Any:
    """Results are JSON objects: nothing becomes ``{}``, any other value ``{"value": ...}``."""
    if value is None:
        return {}
    plain = value
    if not isinstance(value, (dict, list, str, int, float, bool)):
        try:
            plain = wire._plain(value)
        except TypeError:
            plain = value
    return plain if isinstance(plain, dict) else {"value": plain}


def _cut(text: str) -> str:
    return text[: limits.ERROR_CHARACTERS].encode("utf-8", "replace").decode()
