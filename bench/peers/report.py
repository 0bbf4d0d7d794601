"""What came out of a race, as a table and as a chart."""

from collections.abc import Iterable
from html import escape
from typing import Any

COLUMNS = (
    *("Queue", "Client", "Durability", "Syncs per enqueue", "Cycles/s", "Ratio to codeQ"),
    *("Enqueue p50 / p99", "Server, client µs per cycle", "Server memory"),
)
#: What the others are compared with.
BASELINE = "codeQ (Go streams, fsync)"
#: An answer that was given before the disk had the job: fewer syncs than this per job enqueued alone.
SYNCED = 0.9

BAR, GAP, LEFT, WIDTH = 18, 6, 350, 900


def table(report: dict[str, Any]) -> str:
    parts = []
    for shape in report["shapes"]:
        rows = sorted(rows_of(report, shape), key=lambda row: -row["cyclesPerSecond"])
        first = baseline(rows)
        parts += [
            f"**{shape}**",
            "",
            cells(COLUMNS),
            "|---" * len(COLUMNS) + "|",
            *(line(row, first) for row in rows),
            "",
        ]
    failed = [f"- {one['title']}, {one['shape']}: {' '.join(one['error'].split())}" for one in report["failed"]]
    missing = [f"- {name}: {reason}" for name, reason in report["missing"].items()]
    parts += ["Failed:", *failed, ""] if failed else []
    parts += ["Missing on this machine:", *missing, ""] if missing else []
    return "\n".join(parts)


def rows_of(report: dict[str, Any], shape: str) -> list[dict[str, Any]]:
    return [row for row in report["rows"] if row["shape"] == shape]


def baseline(rows: list[dict[str, Any]]) -> float | None:
    """codeQ as it comes, over streams."""
    mine = [row for row in rows if row["title"] == BASELINE]
    return mine[0]["cyclesPerSecond"] if mine else None


def line(row: dict[str, Any], first: float | None) -> str:
    ratio = f"{row['cyclesPerSecond'] / first:.2f}" if first else "-"
    waits = f"{row['enqueueP50Us'] / 1000:.1f} / {row['enqueueP99Us'] / 1000:.1f} ms"
    costs = f"{row['serverUsPerCycle']:.0f}, {row['clientUsPerCycle']:.0f}"
    syncs = "?" if row["syncsPerEnqueue"] is None else f"{row['syncsPerEnqueue']:.2f}"
    speed, memory = f"{row['cyclesPerSecond']:,.0f}", f"{row['memoryMib']:.0f} MiB"
    texts = (row["name"], row["language"], row["durability"], syncs, speed, ratio, waits, costs, memory)
    return cells(texts)


def cells(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def chart(report: dict[str, Any]) -> str:
    """Bars of every shape, the fastest first; what answers before it syncs is pale."""
    body, top = [], 10
    for shape in report["shapes"]:
        rows = sorted(rows_of(report, shape), key=lambda row: -row["cyclesPerSecond"])
        if not rows:
            continue
        body.append(f'<text x="10" y="{top + 16}" class="shape">{escape(shape)}: cycles a second</text>')
        top += 28
        most = max(row["cyclesPerSecond"] for row in rows)
        for row in rows:
            body += bar(row, top, most)
            top += BAR + GAP
        top += 16
    body.append(f'<text x="10" y="{top + 12}">pale: the answer comes before the disk has the job</text>')
    style = (
        "text{font:12px system-ui,sans-serif;fill:#444}.shape{font-weight:600}.ours{fill:#2f6fde}.theirs{fill:#7a8699}"
        ".pale{opacity:.4}@media(prefers-color-scheme:dark){text{fill:#ccc}}"
    )
    size = f'viewBox="0 0 {WIDTH} {top + 24}" width="{WIDTH}" height="{top + 24}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">', f"<style>{style}</style>", *body, "</svg>"]
    return "\n".join(lines) + "\n"


def bar(row: dict[str, Any], top: int, most: float) -> list[str]:
    length = max(row["cyclesPerSecond"] / most * (WIDTH - LEFT - 90), 1)
    is_synced = row["syncsPerEnqueue"] is None or row["syncsPerEnqueue"] >= SYNCED
    kind = ("ours" if row["name"] == "codeQ" else "theirs") + ("" if is_synced else " pale")
    middle = top + BAR - 5
    return [
        f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(row["title"])}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2" class="{kind}"/>',
        f'<text x="{LEFT + length + 6:.1f}" y="{middle}">{row["cyclesPerSecond"]:,.0f}</text>',
    ]
