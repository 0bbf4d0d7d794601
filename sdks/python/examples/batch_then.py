"""Counts the words of many pages at once, and adds them up when all of them have ended.

codeq-worker examples.batch_then:app
python -m examples.batch_then page-1.txt page-2.txt page-3.txt
"""

import asyncio
import sys
from pathlib import Path

from codeq import App

app = App()


@app.task("words.count", max_attempts=3)
def count(path: str) -> dict[str, int]:
    return {"words": len(Path(path).read_text().split())}


@app.task("words.sum")
async def add_up(batch: str) -> dict[str, int]:
    words = 0
    async for task in (await app.client.get_batch(batch)).members():
        words += (await task.result())["words"]
    return {"words": words}


async def main(paths: list[str]) -> None:
    client = app.client
    batch = await client.create_batch("words")
    await count.enqueue_many(paths, batch=batch)
    # Runs when the batch has ended; if a page failed it is cancelled, unless on_dependency_failure="run".
    last = await add_up.enqueue(batch.id, after=[batch])
    await batch.close()
    print(await last.result(timeout=300))
    await app.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
