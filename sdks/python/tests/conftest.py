"""A server for the tests: the binary of this repository unless CODEQ_BIN says otherwise."""

import os
from pathlib import Path

BINARY = Path(__file__).parents[3] / "target/debug/codeq"
os.environ.setdefault("CODEQ_BIN", str(BINARY))
