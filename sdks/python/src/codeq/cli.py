"""``codeq-worker module:app``: runs a worker for an app."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys

from . import limits
from ._version import __version__
from .app import App
from .errors import CodeqError


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="codeq-worker", description="Runs the handlers of a codeQ app.")
    parser.add_argument("app", metavar="MODULE:APP", help="where the app is: package.module:name")
    parser.add_argument("--concurrency", type=int, default=16, help="handlers at once (16)")
    parser.add_argument("--lease", type=float, default=60, help="seconds that a task is lent for (60)")
    parser.add_argument("--grace", type=float, default=limits.GRACE_SECONDS, help="seconds to end in (25)")
    parser.add_argument("--name", help="name of the worker; host and process if not given")
    parser.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="COMMAND=N",
        help="how often a command comes first, 1 to 100",
    )
    parser.add_argument("--log-level", default="info", help="debug, info, warning or error (info)")
    parser.add_argument("--version", action="version", version=__version__)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # httpx tells every request.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        weights = {command: int(weight) for command, _, weight in (one.partition("=") for one in options.weight)}
        load(options.app).run(
            concurrency=options.concurrency,
            lease=options.lease,
            grace=options.grace,
            name=options.name,
            weights=weights or None,
        )
    except (CodeqError, ValueError) as error:
        sys.exit(f"codeq-worker: {error}")


def load(place: str) -> App:
    """The app at ``package.module:name``; the name is ``app`` if it is left out."""
    module, _, name = place.partition(":")
    sys.path.insert(0, os.getcwd())
    found = importlib.import_module(module)
    app = getattr(found, name or "app", None)
    if not isinstance(app, App):
        raise ValueError(f"{place} is not a codeq.App")
    return app


if __name__ == "__main__":
    main()
