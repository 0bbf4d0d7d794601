"""Payloads by type hints: a dataclass, a TypedDict, a pydantic model, or plain JSON values."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from .wire import parse_timestamp

Decoder = Callable[[Any], Any]


class PayloadError(ValueError):
    """The payload is not what the handler's type says."""


def decoder(kind: Any) -> Decoder:
    """What makes a value of ``kind`` out of plain JSON values. Raises :class:`PayloadError`."""
    if hasattr(kind, "model_validate"):
        return _pydantic(kind)
    return lambda value: _decode(kind, value, "payload")


def _pydantic(kind: Any) -> Decoder:
    def decode(value: Any) -> Any:
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise PayloadError(str(error)) from error

    return decode


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind in (Any, object, inspect.Parameter.empty, None):
        return value
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, where)
    if typing.is_typeddict(kind):
        return _typed_dict(kind, value, where)
    origin, args = get_origin(kind), get_args(kind)
    if origin is not None:
        return _generic(origin, args, value, where)
    if hasattr(kind, "model_validate"):
        return _pydantic(kind)(value)
    return _plain(kind, value, where)


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), kind, value, where)
    hints, known = get_type_hints(kind), {}
    for one in dataclasses.fields(kind):
        if one.name in value:
            known[one.name] = _decode(hints[one.name], value[one.name], f"{where}.{one.name}")
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise PayloadError(f"{where}.{one.name} is missing")
    return kind(**known)


def _typed_dict(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), kind, value, where)
    for name in kind.__required_keys__:
        if name not in value:
            raise PayloadError(f"{where}.{name} is missing")
    hints = get_type_hints(kind)
    return {
        name: _decode(hints[name], item, f"{where}.{name}") if name in hints else item for name, item in value.items()
    }


def _generic(origin: Any, args: tuple[Any, ...], value: Any, where: str) -> Any:
    if origin in (Union, types.UnionType):
        return _union(args, value, where)
    if origin is typing.Literal:
        _expect(value in args, f"one of {args}", value, where)
        return value
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _expect(isinstance(value, dict), "an object", value, where)
        return {name: _decode(args[1], item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(origin, type) and issubclass(origin, (Sequence, set, frozenset)):
        _expect(isinstance(value, list), "a list", value, where)
        kinds = [args[0]] * len(value) if len(args) == 1 or Ellipsis in args else list(args)
        items = [_decode(kinds[n], item, f"{where}[{n}]") for n, item in enumerate(value)]
        return origin(items) if origin in (tuple, set, frozenset) else items
    return value


def _union(args: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in args:
        return None
    reasons = []
    for kind in args:
        try:
            return _decode(kind, value, where)
        except PayloadError as error:
            reasons.append(str(error))
    raise PayloadError("; ".join(reasons))


def _plain(kind: Any, value: Any, where: str) -> Any:
    if kind is type(None):
        _expect(value is None, kind, value, where)
    elif kind is bool or kind is str or kind is dict or kind is list:
        _expect(isinstance(value, kind), kind, value, where)
    elif kind is int:
        _expect(isinstance(value, int) and not isinstance(value, bool), kind, value, where)
    elif kind is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), kind, value, where)
        return float(value)
    elif kind is datetime:
        parsed = parse_timestamp(value) if isinstance(value, str) else None
        _expect(parsed is not None, kind, value, where)
        return parsed
    elif kind is UUID or (isinstance(kind, type) and issubclass(kind, Enum)):
        try:
            return kind(value)
        except (ValueError, AttributeError, TypeError) as error:
            raise PayloadError(f"{where}: {error}") from error
    return value


def _expect(holds: bool, kind: Any, value: Any, where: str) -> None:
    if not holds:
        name = getattr(kind, "__name__", str(kind))
        raise PayloadError(f"{where} is {type(value).__name__}, not {name}")
