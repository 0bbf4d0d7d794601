"""Growing pauses with jitter."""

from __future__ import annotations

import random

from . import limits


class Backoff:
    """The pauses between repetitions of one thing."""

    def __init__(self) -> None:
        self._next = limits.BACKOFF_SECONDS[0]

    def reset(self) -> None:
        self._next = limits.BACKOFF_SECONDS[0]

    def pause(self, retry_after: float | None = None) -> float:
        """Seconds to wait: half of the pause and a random part of the other half, or what the server asks for."""
        span = self._next
        self._next = min(span * 2, limits.BACKOFF_SECONDS[1])
        pause = span / 2 + random.random() * span / 2
        if retry_after is not None:
            pause = max(pause, min(retry_after, limits.RETRY_AFTER_SECONDS))
        return pause
