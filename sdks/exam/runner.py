"""The Python runner of the exam; see exam.py."""

import asyncio
import json
import os
import sys
import time
from typing import Any

from codeq import App, Client, Context, Fail, Refused, Unique


def token_of(order: dict[str, Any]) -> Any:
    tokens = list(order["tokens"])
    return tokens[0] if len(tokens) == 1 else lambda: tokens.pop(0) if len(tokens) > 1 else tokens[0]


def work(order: dict[str, Any]) -> None:
    app = App(order["url"], token_of(order))
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND)

    def note(event: str, ctx: Context) -> None:
        os.write(
            log,
            (
                json.dumps({"event": event, "task": ctx.id, "attempt": ctx.attempt, "worker": order["worker"]}) + "\n"
            ).encode(),
        )

    @app.task("exam")
    async def exam(payload: dict[str, Any], ctx: Context) -> Any:
        note("start", ctx)
        try:
            return await act(payload, ctx)
        except asyncio.CancelledError:
            note("stopped", ctx)
            raise
        finally:
            note("end", ctx)

    async def act(payload: dict[str, Any], ctx: Context) -> Any:
        match payload["do"]:
            case "flaky" if ctx.attempt < payload["until"]:
                raise RuntimeError("not yet")
            case "raise":
                raise RuntimeError(payload["text"])
            case "fail":
                raise Fail(payload["text"])
            case "sleep":
                await asyncio.sleep(payload["seconds"])
            case "heed":
                try:
                    await asyncio.sleep(payload["seconds"])
                except asyncio.CancelledError:
                    note("stopped", ctx)
                    return {"heeded": ctx.stop_reason == "cancelled" and ctx.cancel_deadline is not None}
            case "resume" if ctx.saved is None:
                await ctx.checkpoint({"at": payload["value"]})
                raise RuntimeError("the next attempt goes on")
            case "resume":
                return {"from": ctx.saved["at"]}
            case "report":
                await ctx.progress(payload["value"])
                await asyncio.sleep(payload["seconds"])
            case "block":
                time.sleep(payload["seconds"])  # noqa: ASYNC251 it is what is tried
        return payload

    settings = {name: order[name] for name in ("concurrency", "lease", "grace") if name in order}
    app.run(**settings)


async def produce(order: dict[str, Any]) -> None:
    async with Client(order["url"], token_of(order)) as client:
        tasks = order["tasks"]
        if cancel := order.get("cancel"):
            for one in cancel["ids"]:
                await client.cancel(one, grace=cancel["grace"], reason=cancel["reason"])
            return
        if plan := order.get("schedule"):
            await client.put_schedule(plan["name"], "exam", plan["payload"], cron=plan["cron"])
            return
        if batch := order.get("batch"):
            made = await create_batch(client, batch)
        elif order["many"]:
            made = await client.create_many(tasks[0].get("command", "exam"), [one["payload"] for one in tasks])
        else:
            made = [await create(client, one) for one in tasks]
    for one in made:
        refusal = {"type": type(one).__name__, "code": one.code} if isinstance(one, Refused) else {"id": one.id}
        print(json.dumps(refusal))


async def create_batch(client: Client, batch: dict[str, Any]) -> list[Any]:
    opened = await client.create_batch()
    made = await client.create_many("exam", batch["members"], batch=opened)
    last = await client.create("exam", batch["then"], after=[opened])
    await opened.close()
    return [*made, last]


async def create(client: Client, one: dict[str, Any]) -> Any:
    options: dict[str, Any] = {"max_attempts": one["maxAttempts"]} if "maxAttempts" in one else {}
    options |= {"lane": one["lane"]} if "lane" in one else {}
    options |= {"webhook": one["webhook"]} if "webhook" in one else {}
    options |= {"unique": Unique(one["unique"])} if "unique" in one else {}
    try:
        return await client.create(one.get("command", "exam"), one["payload"], **options)
    except Refused as refused:
        return refused


with open(sys.argv[2]) as file:
    given = json.load(file)
if sys.argv[1] == "worker":
    work(given)
else:
    asyncio.run(produce(given))
