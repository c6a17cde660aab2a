"""What functions take and give, as named dense tensors. The only place that knows how people write inputs and results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch

from phasewise.bench.import_function import import_function
from phasewise.records.errors import UserError
from phasewise.tensors import find_problem

# how a file says what its functions are called with; the first that it has
MAKERS = ("make_inputs", "get_inputs")
# arguments that are no tensors, as bytes of JSON beside them
PLAIN = "plain values"

Tensors = dict[str, torch.Tensor]


def load_maker(base: str) -> Callable[[int], Any]:
    """The function of the base's module that makes inputs from a seed.

    :raises UserError: there is none
    """
    source = base.rpartition(":")[0]
    for name in MAKERS:
        try:
            make = import_function(f"{source}:{name}")
        except UserError:
            continue
        if name == "make_inputs":
            return make
        return lambda seed: _seeded(make, seed)
    raise UserError(
        f"{source}: it has no inputs; define make_inputs(seed), which gives the arguments of the function as a tuple or a dict of "
        "CPU tensors, or get_inputs()"
    )


def _seeded(make: Callable[[], Any], seed: int) -> Any:
    torch.manual_seed(seed)
    return make()


def pack_arguments(given: Any) -> Tensors:
    """Arguments as one batch: tensors by name, positional ones as "0", "1", ..., and the plain values together.

    :raises UserError: an argument is neither a dense CPU tensor nor a plain value
    """
    if isinstance(given, Mapping):
        named = {str(name): value for name, value in given.items()}
    else:
        named = {
            str(index): value for index, value in enumerate(given if isinstance(given, list | tuple) else (given,))
        }
    tensors: Tensors = {}
    plain: dict[str, Any] = {}
    for name, value in named.items():
        if isinstance(value, torch.Tensor):
            if problem := find_problem(value) or ("" if value.device.type == "cpu" else f"is on {value.device}"):
                raise UserError(f"input {name!r} {problem}; inputs are dense tensors on the CPU")
            tensors[name] = value.detach()
        elif value is None or isinstance(value, bool | int | float | str):
            plain[name] = value
        else:
            raise UserError(f"input {name!r}: {type(value).__name__} is given; tensors and plain values are allowed")
    return {**tensors, PLAIN: torch.tensor(list(json.dumps(plain).encode()), dtype=torch.uint8)}


def unpack_arguments(batch: Mapping[str, torch.Tensor], plain: torch.Tensor) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments of a call."""
    named = {**batch, **json.loads(bytes(plain.tolist()))}
    positions = sorted((name for name in named if name.isdigit()), key=int)
    return [named[name] for name in positions], {name: value for name, value in named.items() if not name.isdigit()}


def name_results(raw: Any) -> Tensors:
    """Results as they were given, by name; raises UserError where there is something else than tensors."""
    if isinstance(raw, torch.Tensor):
        return {"0": raw}
    named = dict(raw) if isinstance(raw, Mapping) else dict(enumerate(raw)) if isinstance(raw, list | tuple) else None
    if not named or not all(isinstance(value, torch.Tensor) for value in named.values()):
        kind = type(raw).__name__
        raise UserError(f"results: {kind} is given; a tensor, or a tuple, list or dict of tensors is needed")
    return {str(name): value for name, value in named.items()}
