"""Two functions as a workload: `base` with the inputs of its module, and a switch that names who is called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from phasewise.bench.import_function import import_function
from phasewise.match.values import PLAIN, Tensors, load_maker, name_results, pack_arguments, unpack_arguments
from phasewise.model.program import Program
from phasewise.model.workload import Case, Shape, Workload
from phasewise.records.errors import UserError

CASE = "call"
HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Switches:
    """Who is called: "file.py:function" or "package.module:function"."""

    target: str = ""


workload = Workload(
    summary="Two functions", program=__name__, switches=Switches, cases={CASE: Case(inputs="resident")}, phases=()
)


def make_inputs(case: str, shape: Shape, seed: int) -> Tensors:
    """The arguments of a call, in the dtypes that the user gives."""
    return pack_arguments(load_maker(shape.base)(seed))


def build(switches: Switches, inputs: Tensors, case: str, shape: Shape, device: torch.device) -> Program:
    """The function, on its arguments on the device."""
    function = import_function(switches.target)

    def place(batch: Mapping[str, torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
        tensors = {name: x.to(device, copy=True) for name, x in batch.items() if name != PLAIN}
        return unpack_arguments(tensors, batch[PLAIN])

    def outputs(raw: Any) -> Tensors:
        found = name_results(raw)
        for name, wanted in json.loads(shape.results).items():
            if name in found and (kind := name_dtype(found[name])) != wanted:
                raise UserError(f"result {name!r} is {kind}; the base's is {wanted}")
        return found

    return Program(step=lambda placed: function(*placed[0], **placed[1]), place=place, outputs=outputs)


def reference(inputs: Tensors, case: str, shape: Shape, items: torch.Tensor | None = None) -> Program:
    """The base on the CPU in the shape's `dtype`, whose results are given in float64."""
    function = import_function(shape.base)
    wanted = getattr(torch, shape.dtype) if shape.dtype else None

    def place(batch: Mapping[str, torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
        return unpack_arguments(convert(batch, wanted), batch[PLAIN])

    def outputs(raw: Any) -> Tensors:
        return {name: widen(x) for name, x in name_results(raw).items()}

    return Program(step=lambda placed: function(*placed[0], **placed[1]), place=place, outputs=outputs)


def probe(payload: dict[str, str]) -> dict[str, Any]:
    """What is to be known of {base} before it is planned: {dtype} of its reference, "" for that of its inputs; {results}, the dtype of
    each; {half}, whether one of them is in half precision.

    :raises UserError: it can't be called with its own inputs
    """
    function, batch = import_function(payload["base"]), pack_arguments(load_maker(payload["base"])(0))
    given = _call(function, batch, None)
    known = {
        "results": {name: name_dtype(x) for name, x in given.items()},
        "half": any(x.dtype in HALVES for x in given.values()),
    }
    try:
        found = _call(function, batch, torch.float64)
    except (RuntimeError, TypeError, NotImplementedError, AssertionError):
        return known | {"dtype": ""}
    is_wide = all(x.dtype in (torch.float64, torch.complex128) or not is_real(x) for x in found.values())
    return known | {"dtype": "float64" if is_wide else ""}


def name_dtype(x: torch.Tensor) -> str:
    """As torch spells it, without "torch."."""
    return str(x.dtype).removeprefix("torch.")


def convert(batch: Mapping[str, torch.Tensor], dtype: torch.dtype | None) -> Tensors:
    """Copies of the tensors, real ones in `dtype`."""
    return {
        name: x.to(dtype, copy=True) if dtype is not None and x.is_floating_point() else x.clone()
        for name, x in batch.items()
        if name != PLAIN
    }


def widen(x: torch.Tensor) -> torch.Tensor:
    """In float64 or complex128."""
    if x.is_complex():
        return x.to(torch.complex128)
    return x.double() if x.is_floating_point() else x


def is_real(x: torch.Tensor) -> bool:
    """Whether it holds numbers that are rounded."""
    return x.is_floating_point() or x.is_complex()


def _call(function: Any, batch: Tensors, dtype: torch.dtype | None) -> Tensors:
    positional, named = unpack_arguments(convert(batch, dtype), batch[PLAIN])
    return name_results(function(*positional, **named))
