"""A pipeline: one task makes a picture and keeps it as an artifact, the next one takes it from there.

codeq-worker examples.image_pipeline:app
python -m examples.image_pipeline
"""

import asyncio
from typing import TypedDict

from codeq import App, Context

app = App()


class Size(TypedDict):
    width: int
    height: int


class Source(TypedDict):
    task: str
    artifact: str


@app.task("image.render")
async def render(size: Size, ctx: Context) -> Source:
    """Draws a gradient as a PGM file."""
    pixels = bytes(x * 255 // max(1, size["width"] - 1) for _ in range(size["height"]) for x in range(size["width"]))
    header = f"P5 {size['width']} {size['height']} 255\n".encode()
    ctx.artifact("image.pgm", header + pixels, content_type="image/x-portable-graymap")
    return {"task": ctx.id, "artifact": "image.pgm"}


@app.task("image.invert")
async def invert(source: Source, ctx: Context) -> Source:
    """Takes the picture of another task and keeps its negative."""
    data = await app.client.artifact(source["task"], source["artifact"])
    header, _, pixels = data.partition(b"\n")
    negative = bytes(255 - pixel for pixel in pixels)
    ctx.artifact("negative.pgm", header + b"\n" + negative, content_type="image/x-portable-graymap")
    return {"task": ctx.id, "artifact": "negative.pgm"}


async def main() -> None:
    rendered = await (await render.enqueue({"width": 64, "height": 64})).result()
    source: Source = {"task": rendered["task"], "artifact": rendered["artifact"]}
    inverted = await (await invert.enqueue(source)).result()
    print(len(await app.client.artifact(inverted["task"], inverted["artifact"])), "bytes")
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
