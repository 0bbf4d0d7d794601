"""Layers around handlers: ``App(middleware=[Timeout(300), OpenTelemetry()])``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from . import wire
from .context import ContextBase
from .outcome import Retry
from .wire import Seconds


class Timeout:
    """Ends an attempt that takes longer. A plain function cannot be stopped: it sees ``ctx.cancelled``."""

    def __init__(self, limit: Seconds) -> None:
        self._seconds = wire.seconds(limit)

    async def __call__(self, ctx: ContextBase, call_next: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await asyncio.wait_for(call_next(), self._seconds)
        except asyncio.TimeoutError:
            ctx.stop("timeout")
            raise Retry(f"no end after {self._seconds:g} s") from None


class OpenTelemetry:
    """A span per attempt whose parent is the create of the task. Needs ``codeq-client[otel]``."""

    def __init__(self, tracer: Any = None) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._tracer = tracer or trace.get_tracer("codeq")
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, ctx: ContextBase, call_next: Callable[[], Awaitable[Any]]) -> Any:
        parent = self._propagator.extract(carrier(ctx))
        attributes: dict[str, Any] = {
            "messaging.system": "codeq",
            "messaging.operation.type": "process",
            "messaging.destination.name": ctx.command,
            "messaging.message.id": ctx.id,
            "codeq.attempt": ctx.attempt,
        }
        kind = self._trace.SpanKind.CONSUMER
        with self._tracer.start_as_current_span(
            f"process {ctx.command}", context=parent, kind=kind, attributes=attributes
        ):
            return await call_next()


def carrier(ctx: ContextBase) -> dict[str, str]:
    """The trace context of the task: as the server kept it, or as the producer put it into the headers."""
    found = {
        name.lower(): value for name, value in ctx.headers.items() if name.lower() in ("traceparent", "tracestate")
    }
    if "traceParent" in ctx.task:
        found["traceparent"] = ctx.task["traceParent"]
    if "traceState" in ctx.task:
        found["tracestate"] = ctx.task["traceState"]
    return found
