"""Run programs of the trainer over a few windows and compare what came out."""

from __future__ import annotations

from typing import Any

import torch

from phasewise import Program, Shape
from phasewise_studies.lior import program
from phasewise_studies.lior.switches import CAPTURED, Switches

# sizes that are no power of two anywhere, a bank of two blocks, rows missing in its middle and at its end
SMALL = {"batch": 3, "steps": 3, "bank": 150, "state": 40, "grid": 5, "inner": 4, "filled": 130}
# switch settings that have to give the reference's numbers, and the error that their format allows
EXACT = 2e-5
VARIANTS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "one-copy": {"metrics": "window"},
    "vectorised": {"rotor_update": "vectorised"},
    "fused-lior": {"fused_lior": True},
    "product": {"retrieval": "product"},
    "in-place": {"in_place": True},
    "adaptive": {"cleanup": "adaptive"},
    "cached": {"cached_rotation": True},
    "filled": {"bank": "filled"},
    "split": {"mix": "split"},
}
# settings that need a device with kernels: an NVIDIA GPU, or the interpreter
FUSED: dict[str, dict[str, Any]] = {
    "triton": {"retrieval": "triton"},
    "triton-bounded": {"retrieval": "triton", "bank": "bounded"},
    "fused": {"engine": "fused"},
    "fused-split": {"engine": "fused", "mix": "split"},
}
HALF: dict[str, dict[str, Any]] = {
    "triton-float16": {"retrieval": "triton", "mix": "float16"},
    "fused-float16": {"engine": "fused", "mix": "float16"},
    "fused-bfloat16": {"engine": "fused", "mix": "bfloat16"},
}
HALF_ERROR = {"triton-float16": 3e-3, "fused-float16": 3e-3, "fused-bfloat16": 3e-2}


def make_shape(*, feedback: bool, symmetric: bool = False, **changes: int) -> Shape:
    return Shape(**{**SMALL, **changes}, feedback=feedback, symmetric=symmetric)


def make_switches(settings: dict[str, Any], *, feedback: bool, **more: Any) -> Switches:
    """`engine="fused"` stands for the fused engine of the mode."""
    settings = {**settings, **more}
    if settings.get("engine") == "fused":
        settings = {**CAPTURED, "graph": False, **settings, "engine": "lockstep" if feedback else "time-parallel"}
    return Switches(**settings)


def build(switches: Switches, shape: Shape, device: str = "cpu") -> Program:
    return program.build(switches, program.make_inputs("any", shape, 0), "any", shape, torch.device(device))


def run_windows(made: Program, shape: Shape, windows: int = 2) -> dict[str, torch.Tensor]:
    """Reports of all windows and the state at the end, by name, on the CPU."""
    found = {}
    for seed in range(windows):
        raw = made.step(made.place(program.make_inputs("any", shape, seed)))
        found |= {f"{name}/{seed}": tensor.detach().cpu().clone() for name, tensor in made.outputs(raw).items()}
    return found | {name: tensor.detach().cpu().clone() for name, tensor in made.state().items()}


def run_reference(shape: Shape, windows: int = 2) -> dict[str, torch.Tensor]:
    return run_windows(program.reference(program.make_inputs("any", shape, 0), "any", shape), shape, windows)


def worst_error(found: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> float:
    """Largest absolute difference of any tensor of the reference; a NaN counts as infinite."""
    errors = [(found[name].double() - exact[name].double()).abs().max() for name in exact]
    return float(torch.stack(errors).nan_to_num(nan=float("inf")).max())
