"""What the package asks of those who install it."""

from importlib.metadata import requires, version

import codeq

#: One for HTTP, and room for one more.
DEPENDENCIES_MAX = 2


def test_package_has_few_dependencies() -> None:
    needed = [one for one in requires("codeq-client") or [] if "extra ==" not in one]
    assert 1 <= len(needed) <= DEPENDENCIES_MAX, needed


def test_package_and_module_have_the_same_version() -> None:
    assert version("codeq-client") == codeq.__version__
