"""What functions take and give, as named dense tensors. The only place that knows how people nest inputs and results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from phasewise.records.errors import UserError
from phasewise.tensors import find_problem, read_plainly

# the arguments with their tensors left out, as bytes of JSON beside these
PLAIN = "plain values"
# keys of objects in that JSON that stand for a tensor and for a tuple
TENSOR, TUPLE = "tensor", "tuple"

Tensors = dict[str, torch.Tensor]


def pack_arguments(given: Any) -> Tensors:
    """Arguments as one batch: tensors by their place, such as "0" or "mask" or "1/0", and everything else together.

    A list or tuple is what a call gets by position, a mapping what it gets by name.

    :raises UserError: there is something else than dense tensors and plain values in it
    """
    if not isinstance(given, list | tuple | Mapping):
        given = (given,)
    tensors: Tensors = {}
    outline = _outline(given, "", tensors)
    return {**tensors, PLAIN: torch.tensor(list(json.dumps(outline).encode()), dtype=torch.uint8)}


def unpack_arguments(tensors: Mapping[str, torch.Tensor], plain: torch.Tensor) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments of a call."""
    found = _fill(json.loads(bytes(plain.tolist())), tensors)
    return ([], found) if isinstance(found, dict) else (list(found), {})


def name_results(raw: Any) -> Tensors:
    """Results as they were given, by their place; raises UserError where there is something else than tensors."""
    found = dict(_walk(raw, ""))
    if not found:
        raise UserError(
            f"results: {type(raw).__name__} without a tensor is given; a tensor, or tensors in tuples, lists or dicts are needed"
        )
    return {name or "0": value for name, value in found.items()}


def _walk(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict | list | tuple):
        for key, item in read_plainly(value):
            yield from _walk(item, _join(path, key))
    elif value is not None:
        where = f" at {path!r}" if path else ""
        raise UserError(
            f"results: {type(value).__name__} is given{where}; a tensor, or tensors in tuples, lists or dicts are needed"
        )


def _outline(value: Any, path: str, tensors: Tensors) -> Any:
    """`value` as JSON has it; its tensors go into `tensors`."""
    if isinstance(value, torch.Tensor):
        if problem := find_problem(value):
            raise UserError(f"input {path!r} {problem}; inputs are dense tensors and plain values")
        tensors[path] = value.detach().cpu()
        return {TENSOR: path}
    if isinstance(value, Mapping):
        return {"dict": {str(key): _outline(item, _join(path, key), tensors) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        items = [_outline(item, _join(path, index), tensors) for index, item in enumerate(value)]
        return {TUPLE: items} if isinstance(value, tuple) else items
    if value is None or isinstance(value, bool | int | float | str):
        return value
    cure = "give it as a tensor" if hasattr(value, "__array__") else "make it in the __init__ of a class of yours"
    raise UserError(f"input {path!r}: {type(value).__name__} is given; tensors and plain values are allowed, {cure}")


def _fill(outline: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(outline, list):
        return [_fill(item, tensors) for item in outline]
    if not isinstance(outline, dict):
        return outline
    kind, inner = next(iter(outline.items()))
    if kind == TENSOR:
        return tensors[inner]
    if kind == TUPLE:
        return tuple(_fill(item, tensors) for item in inner)
    return {key: _fill(item, tensors) for key, item in inner.items()}


def _join(path: str, key: Any) -> str:
    return f"{path}/{key}" if path else str(key)
