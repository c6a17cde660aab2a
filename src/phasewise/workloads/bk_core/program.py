"""The BK core as programs: inputs, the build of every variant, the reference and the declared work."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape, Work
from phasewise.kit.graphs import capture
from phasewise.workloads.bk_core import reference as plain
from phasewise.workloads.bk_core.phases import Switches
from phasewise.workloads.bk_core.scan import diagonal_scan

# the shift z = E + i eta of the user's document
Z = 1j
# diagonal of the document's H0, and the bound of what a layer adds to it
H0_DIAGONAL, V_MAX = -2.0, 3.0


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, Tensor]:
    """a (B, N); b and c (N-1,) or (B, N-1), with b c >= 0; float64."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> Tensor:
        return torch.rand(*size, dtype=torch.float64, generator=generator)

    a = H0_DIAGONAL + V_MAX * (2 * draw(shape.batch, shape.length) - 1)
    if shape.batched:
        b, c = (0.5 + draw(shape.batch, shape.length - 1) for _ in range(2))
    else:
        # the document's b = c = 1, with enough of a pattern that an index off by one shows
        b, c = (0.75 + 0.5 * draw(shape.length - 1) for _ in range(2))
    return {"a": a, "b": b, "c": c}


def build(switches: Switches, inputs: dict[str, Tensor], case: str, shape: Shape, device: torch.device) -> Program:
    """One variant: placed inputs -> complex64 diagonal (B, N)."""
    core, fallbacks = _choose_core(switches, device)

    def step(placed: dict[str, Tensor]) -> Tensor:
        return core(placed["a"], placed["b"], placed["c"], Z)

    if switches.graph:
        example = {name: tensor.to(device, torch.float32) for name, tensor in inputs.items()}
        captured = capture(step, example)
        step = _replay_where_it_fits(captured.call, step, example["a"].shape)
        if captured.reason:
            fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}")
    return Program(step=step, outputs=_name_output, module=Diagonal(), fallbacks=fallbacks)


def reference(inputs: dict[str, Tensor], case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """The ratio recursion in complex128, for all sequences or for the sequences `items`."""

    def step(placed: dict[str, Tensor]) -> Tensor:
        a, b, c = placed["a"], placed["b"], placed["c"]
        if items is not None:
            a = a[items]
            b, c = (part[items] if part.dim() == 2 else part for part in (b, c))
        return plain.diagonal_ratio(a, b, c, Z)

    return Program(step=step, outputs=_name_output)


def work(case: str, shape: Shape) -> Work:
    """a is read and the complex diagonal written once; b and c are read once, by each sequence if batched."""
    elements = shape.batch * shape.length
    couplings = 2 * (shape.batch if shape.batched else 1) * (shape.length - 1)
    size = 4 * elements + 8 * elements + 4 * couplings
    # about 80 operations an element, reciprocals counted as one each: chunk product 24, scan 8, two replays of 20, output 8
    return Work(items=elements, flops=80 * elements, bytes=size, working_set_bytes=size, item="elements")


class Diagonal(torch.nn.Module):
    """What export writes: the scan, since a loop over the length does not export; real (B, N, 2), since complex does not travel."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.view_as_real(diagonal_scan(a, b, c, Z))


def _replay_where_it_fits(replay: Any, eager: Any, shape: torch.Size) -> Any:
    """A step that replays the graph for inputs of the captured shape, and launches eagerly for others."""

    def step(placed: dict[str, Tensor]) -> Tensor:
        return (replay if placed["a"].shape == shape else eager)(placed)

    return step


def _choose_core(switches: Switches, device: torch.device) -> tuple[Any, tuple[str, ...]]:
    """The function of this variant, and why it is not the one that was asked for."""
    if switches.core == "textbook":
        return plain.diagonal_textbook, ()
    if switches.core == "compiled-loop":
        from phasewise.workloads.bk_core.compiled import diagonal_compiled

        return diagonal_compiled, ()
    if switches.core == "scan":
        return diagonal_scan, ()
    if switches.core == "fused":
        from phasewise.workloads.bk_core import kernels

        reason = () if kernels.has_kernel(device) else ("triton-fused: no NVIDIA GPU, the plain recursion ran instead",)
        return kernels.diagonal, reason
    return plain.diagonal_ratio, ()


def _name_output(raw: Tensor) -> dict[str, Tensor]:
    return {"diagonal": raw}
