"""The two sides of a match as one workload: `base` with the inputs of its module, and a switch that names who is called."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from phasewise.match.load import load_callable, make_batch
from phasewise.match.side import read_side
from phasewise.match.values import PLAIN, Tensors, name_results, unpack_arguments
from phasewise.model.program import Program
from phasewise.model.workload import Case, Shape, Workload
from phasewise.records.errors import UserError

CASE = "call"


@dataclass(frozen=True)
class Switches:
    """Who is called: a `Side` as JSON."""

    side: str = ""


workload = Workload(
    summary="Two sides", program=__name__, switches=Switches, cases={CASE: Case(inputs="resident")}, phases=()
)


def make_inputs(case: str, shape: Shape, seed: int) -> Tensors:
    """The arguments of a call, in the dtypes that the user gives."""
    return make_batch(read_side(shape.base), json.loads(shape.overrides), seed)


def build(switches: Switches, inputs: Tensors, case: str, shape: Shape, device: torch.device) -> Program:
    """The function or module, on its arguments on the device."""
    call, _ = load_callable(read_side(switches.side), Path(shape.start), evaluates=shape.evaluates)
    call = move(call, device, None)

    def outputs(raw: Any) -> Tensors:
        found = name_results(raw)
        for name, wanted in json.loads(shape.results).items():
            if name in found and (kind := name_dtype(found[name])) != wanted:
                raise UserError(f"result {name!r} is {kind}; the base's is {wanted}")
        return found

    return Program(
        step=lambda placed: call(*placed[0], **placed[1]),
        place=lambda batch: place(batch, device, None),
        outputs=outputs,
    )


def reference(inputs: Tensors, case: str, shape: Shape, items: torch.Tensor | None = None) -> Program:
    """The base in the `dtype` and on the device that the shape names, with its results in float64."""
    device = torch.device(shape.where)
    call, _ = load_callable(read_side(shape.base), Path(shape.start), evaluates=shape.evaluates)
    return make_reference(call, device, find_dtype(shape.dtype))


def make_reference(call: Callable[..., Any], device: torch.device, dtype: torch.dtype | None) -> Program:
    """A program that gives the results of `call` in that dtype; None is that of its inputs."""
    call = move(call, device, dtype)

    def step(placed: tuple[list[Any], dict[str, Any]]) -> Any:
        with in_precision(dtype):
            return call(*placed[0], **placed[1])

    def outputs(raw: Any) -> Tensors:
        return {name: widen(x) for name, x in name_results(raw).items()}

    def close() -> None:
        # the candidate's gate needs the room
        if device.type == "cuda":
            torch.cuda.empty_cache()

    return Program(step=step, place=lambda batch: place(batch, device, dtype), outputs=outputs, close=close)


def place(
    batch: Mapping[str, torch.Tensor], device: torch.device, dtype: torch.dtype | None
) -> tuple[list[Any], dict[str, Any]]:
    """Copies of the arguments on the device, real and complex ones in `dtype`."""
    tensors = {name: cast(x, device, dtype, copy=True) for name, x in batch.items() if name != PLAIN}
    return unpack_arguments(tensors, batch[PLAIN])


def move(call: Callable[..., Any], device: torch.device, dtype: torch.dtype | None) -> Callable[..., Any]:
    """A module on the device, its real and complex numbers in `dtype`; a function as it is."""
    if not isinstance(call, torch.nn.Module):
        return call
    if dtype is None or not any(x.is_complex() for x in (*call.parameters(), *call.buffers())):
        return call.to(device, dtype)
    # `to` with a real dtype drops imaginary parts
    return call.to(device)._apply(partial(cast, device=device, dtype=dtype))


def cast(x: torch.Tensor, device: torch.device, dtype: torch.dtype | None, *, copy: bool = False) -> torch.Tensor:
    """On the device, real numbers in `dtype` and complex ones of such parts; in its own where `dtype` is None."""
    wanted = x.dtype
    if dtype is not None and x.is_complex():
        wanted = dtype.to_complex()
    elif dtype is not None and x.is_floating_point():
        wanted = dtype
    return x.to(device, wanted, copy=copy)


@contextlib.contextmanager
def in_precision(dtype: torch.dtype | None) -> Iterator[None]:
    """What is made without a dtype is of this one, and float32 is not rounded to shorter formats."""
    before = torch.get_default_dtype(), torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    torch.set_default_dtype(dtype or before[0])
    try:
        yield
    finally:
        torch.set_default_dtype(before[0])
        torch.set_float32_matmul_precision(before[2])
        torch.backends.cudnn.allow_tf32 = before[1]


def find_dtype(name: str) -> torch.dtype | None:
    """None for ""."""
    return getattr(torch, name) if name else None


def name_dtype(x: torch.Tensor) -> str:
    """As torch spells it, without "torch."."""
    return str(x.dtype).removeprefix("torch.")


def widen(x: torch.Tensor) -> torch.Tensor:
    """In float64 or complex128."""
    if x.is_complex():
        return x.to(torch.complex128)
    return x.double() if x.is_floating_point() else x
