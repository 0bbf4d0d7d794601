"""Fixtures for pytest: a server per session, and one whose clock can be moved per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import DevServer


@pytest.fixture(scope="session")
def codeq_server() -> Iterator[DevServer]:
    """``codeq dev`` on a free port; ``codeq_server.url``, ``codeq_server.token``."""
    with DevServer() as server:
        yield server


@pytest.fixture
def codeq_clock_server() -> Iterator[DevServer]:
    """``codeq dev --test-clock``; ``codeq_clock_server.advance(3600)``."""
    with DevServer(test_clock=True) as server:
        yield server
