"""JSON as the server reads it, times, and the names of things on the wire."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from typing import Any
from uuid import UUID

#: Seconds as a number, or a span.
Seconds = float | int | timedelta


def dumps(value: Any) -> str:
    """Compact JSON text. Dataclasses and pydantic models are objects; NaN and infinity are refused."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def seconds(value: Seconds) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def whole_seconds(value: Seconds, least: int = 0) -> int:
    """Whole seconds, rounded up: never earlier than asked for."""
    span = seconds(value)
    return max(least, int(span) if span == int(span) else int(span) + 1)


def timestamp(value: datetime) -> str:
    """RFC 3339. A time without a zone is local time."""
    return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def parse_timestamp(text: str | None) -> datetime | None:
    """A time of the server, to the microsecond. None for anything that is none."""
    if not text:
        return None
    head, dot, tail = text.partition(".")
    if dot:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def compact(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}
