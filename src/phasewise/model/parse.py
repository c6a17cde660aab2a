"""One reading of all that a user hands over: each value as the annotation of its field says, or one sentence."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import sys
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from phasewise.model.fields import Number, Text, Whole
from phasewise.model.workload import Shape
from phasewise.records.base import Scalar
from phasewise.records.errors import PlanError

SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = 80
# what a field without a range of its own may hold
PLAIN = {str: Text, float: Number, int: Whole, bool: bool}
WORDS = {bool: "True or False", NoneType: "None", type: "a class"}


def parse(value: Any, hint: Any, place: str) -> Any:
    """`value` as `hint` says: lists become tuples, whole numbers floats where these are meant, subclasses what they stand for.

    `hint` is a dataclass or record of the contract, or the type of one of its fields; `place` says where the value stands.

    Raises:
        PlanError: place, value, and what is allowed, in a sentence.
    """
    kind = get_origin(hint) or hint
    if isinstance(hint, type) and _is_structure(hint) and isinstance(value, hint):
        return _parse_fields(value, hint, place)
    if kind in (Union, UnionType):
        return _parse_union(value, hint, place)
    if hint is Shape and isinstance(value, Shape):
        return Shape(**{name: parse(value[name], Scalar, f"{place}: {name}") for name in value})
    if kind is tuple and isinstance(value, list | tuple):
        return _parse_tuple(value, hint, place)
    if kind is Mapping and isinstance(value, Mapping):
        of_key, of_value = get_args(hint)
        return {parse(key, of_key, f"{place}: key"): parse(value[key], of_value, _at(place, key)) for key in value}
    if kind in PLAIN or kind in (Annotated, Literal):
        return _parse_leaf(value, PLAIN.get(kind, hint), place)
    if kind is Callable and callable(value):
        return value
    if isinstance(kind, type) and kind not in (tuple, Mapping, Callable) and isinstance(value, kind):
        return value
    raise _refuse(value, hint, place)


def _is_structure(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)


def _parse_fields(value: Any, kind: type, place: str) -> Any:
    hints = read_hints(kind)
    return kind(**{name: parse(getattr(value, name), hint, f"{place}: {name}") for name, hint in hints.items()})


@functools.cache
def read_hints(kind: type) -> dict[str, Any]:
    """The type of each field, with its range."""
    # torch is there where a program is
    return get_type_hints(kind, localns=dict(sys.modules), include_extras=True)


def _parse_union(value: Any, hint: Any, place: str) -> Any:
    members = get_args(hint)
    for member in members:
        if isinstance(member, type) and (_is_structure(member) or member is Shape) and isinstance(value, member):
            return parse(value, member, place)
    for member in members:
        try:
            return parse(value, member, place)
        except PlanError:
            continue
    raise _refuse(value, hint, place)


def _parse_tuple(value: list[Any] | tuple[Any, ...], hint: Any, place: str) -> tuple[Any, ...]:
    members = get_args(hint)
    if members[-1] is Ellipsis:
        return tuple(parse(item, members[0], _at(place, _name(item, index))) for index, item in enumerate(value))
    if len(value) != len(members):
        raise _refuse(value, hint, place)
    return tuple(parse(item, member, place) for item, member in zip(value, members, strict=True))


def _parse_leaf(value: Any, hint: Any, place: str) -> Any:
    # an enum's text or a library's float is what it stands for
    plain = next((kind for kind in (str, bool, int, float) if isinstance(value, kind)), None)
    if plain is not None and type(value) is not plain:
        value = plain.__str__(value) if plain is str else plain(value)
    try:
        return msgspec.convert(value, hint)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise _refuse(value, hint, place) from error


def _refuse(value: Any, hint: Any, place: str) -> PlanError:
    return PlanError(f"{place} = {show(value)} is not allowed; {describe(hint).removesuffix(',')} is needed")


def describe(hint: Any) -> str:
    """What a field of this type may hold, in words."""
    origin, members = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return str(next(meta.description for meta in hint.__metadata__ if isinstance(meta, msgspec.Meta)))
    if origin is Literal:
        return f"one of {', '.join(map(repr, members))}" if len(members) > 1 else repr(members[0])
    if origin in (Union, UnionType):
        return " or ".join(describe(member) for member in members)
    if origin is tuple and members[-1] is Ellipsis:
        return f"a tuple, each {describe(members[0])}"
    if origin is tuple:
        return f"({', '.join(describe(member) for member in members)})"
    if origin is Mapping:
        return f"a mapping, each value {describe(members[1])}"
    if hint in PLAIN and hint is not bool:
        return describe(PLAIN[hint])
    if origin is Callable:
        return "a function"
    return WORDS.get(hint) or f"a {'phasewise.' if hint.__module__.startswith('phasewise.') else ''}{hint.__name__}"


def show(value: Any) -> str:
    """`value` in a few characters, whatever it is."""
    try:
        return SHORT.repr(value)
    except ValueError:
        # Python writes no whole number of thousands of digits
        return f"a {type(value).__name__} too long to be written"


def _name(item: Any, index: int) -> str | int:
    """What a reader knows a phase, a risk or a target by."""
    found = next((getattr(item, name, None) for name in ("name", "title", "metric")), None)
    return found if isinstance(found, str) and found else index


def _at(place: str, key: Any) -> str:
    return f"{place}[{show(key)}]"
