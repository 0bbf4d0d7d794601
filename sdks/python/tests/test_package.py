"""What the package asks of those who install it."""

import sysconfig
from importlib.metadata import requires, version
from pathlib import Path

import pytest

import codeq
from codeq.testing import find_binary

#: One for HTTP, and room for one more.
DEPENDENCIES_MAX = 2


def test_package_has_few_dependencies() -> None:
    needed = [one for one in requires("codeq-client") or [] if "extra ==" not in one]
    assert 1 <= len(needed) <= DEPENDENCIES_MAX, needed


def test_package_and_module_have_the_same_version() -> None:
    assert version("codeq-client") == codeq.__version__


def test_the_server_beside_this_python_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also when its virtual environment is not activated."""
    binary = tmp_path / "codeq"
    binary.touch(0o755)
    monkeypatch.delenv("CODEQ_BIN", raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    assert find_binary() == str(binary)
    monkeypatch.setenv("CODEQ_BIN", "/elsewhere/codeq")
    assert find_binary() == "/elsewhere/codeq"
