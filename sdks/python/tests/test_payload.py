"""Payloads are what the handler's type says, or the task has failed."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal, Optional, TypedDict

import pytest
from pydantic import BaseModel

from codeq.payload import PayloadError, decoder


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    street: str


@dataclass
class Email:
    to: str
    retries: int = 3
    sent: Optional[datetime] = None  # noqa: UP045
    address: Address | None = None
    tags: list[str] = field(default_factory=list)
    colour: Colour = Colour.RED


class Resize(TypedDict):
    width: int
    mode: Literal["fit", "fill"]


class Model(BaseModel):
    image: int
    width: int = 800


def test_dataclass_is_made_with_its_nested_parts() -> None:
    raw = {"to": "a@b", "sent": "2026-03-01T12:00:00.123456789Z", "address": {"street": "x"}, "tags": ["t"]}
    email = decoder(Email)({**raw, "unknown": 1})
    assert email.address == Address("x")
    assert email.sent is not None
    assert email.sent.microsecond == 123456
    assert (email.retries, email.tags, email.colour) == (3, ["t"], Colour.RED)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Email, {}, "payload.to is missing"),
        (Email, {"to": 1}, "payload.to is int, not str"),
        (Email, {"to": "a", "address": {"street": None}}, "payload.address.street is NoneType, not str"),
        (Email, [], "payload is list, not Email"),
        (Resize, {"width": True, "mode": "fit"}, "payload.width is bool, not int"),
        (Resize, {"width": 1, "mode": "crop"}, "payload.mode is str"),
        (dict[str, int], {"a": "b"}, "payload.a is str, not int"),
        (Model, {"image": "x"}, "image"),
    ],
)
def test_other_shapes_are_refused_with_the_place(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(PayloadError, match=text.replace(".", r"\.").replace("[", r"\[")):
        decoder(kind)(value)


def test_typed_dicts_models_and_plain_values_pass() -> None:
    assert decoder(Resize)({"width": 2**60, "mode": "fit"}) == {"width": 2**60, "mode": "fit"}
    assert decoder(Model)({"image": 1}).width == 800
    assert decoder(tuple[int, ...])([1, 2]) == (1, 2)
    assert decoder(Any)([None]) == [None]
