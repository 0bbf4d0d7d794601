"""A report every night at half past two in Berlin, and a heartbeat every minute.

codeq-worker examples.cron:app
python -m examples.cron  # puts the schedules; putting equal ones again changes nothing
"""

import asyncio

from codeq import App, Context

app = App()


@app.task("report.nightly", max_attempts=3)
async def nightly(kind: str, ctx: Context) -> dict[str, str]:
    # The instant of the plan, which is the same in every attempt.
    return {"kind": kind, "for": ctx.headers["codeq-scheduled-for"]}


@app.task("health.ping")
async def ping(url: str) -> None:
    print("ping", url)


async def main() -> None:
    client = app.client
    await client.put_schedule(
        "nightly-report", nightly.command, "sales", cron="30 2 * * *", timezone="Europe/Berlin", catch_up="one"
    )
    await client.put_schedule("ping", ping.command, "https://example.com", every=60, overlap="skip")
    for tick in (await client.next_ticks("nightly-report", 3))["items"]:
        print("next", tick)
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
