"""Calls an API that allows so many requests: what it turns away waits as long as it says, at no attempt's cost.

codeq-worker examples.rate_limited_api:app --concurrency 4
python -m examples.rate_limited_api https://api.example.com/items/1
"""

import sys

import httpx

from codeq import App, Fail, Retry

app = App()
api = httpx.AsyncClient(timeout=20)


@app.task("api.fetch", max_attempts=10)
async def fetch(url: str) -> dict[str, object]:
    response = await api.get(url)
    if response.status_code == 429:
        wait = int(response.headers.get("retry-after", "10"))
        # The lane is the customer of the API: the others go on.
        raise Retry("the API asks for a pause", delay=wait, hold="lane")
    if 400 <= response.status_code < 500:
        raise Fail(f"the API says {response.status_code}")
    response.raise_for_status()
    return {"status": response.status_code, "bytes": len(response.content)}


if __name__ == "__main__":
    url = sys.argv[1]
    print(fetch.enqueue_sync(url, lane=httpx.URL(url).host).id)
