"""The BK core as programs: inputs, the build of every variant and the declared work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from phasewise import Program, Shape, Work
from phasewise.kit.graphs import capture_in_place
from phasewise_studies.bk_core import kernels
from phasewise_studies.bk_core import reference as plain
from phasewise_studies.bk_core.problem import (
    H0_DIAGONAL,
    V_MAX,
    Z,
    differentiated,
    is_backward,
    is_causal,
    name_outputs,
)
from phasewise_studies.bk_core.product.portable import PortableDiagonal
from phasewise_studies.bk_core.reference import reference
from phasewise_studies.bk_core.switches import Switches

__all__ = ["build", "make_inputs", "reference", "work"]

NO_KERNEL = "no NVIDIA GPU, the plain recursion ran instead"

Batch = dict[str, Tensor]
Core = Callable[..., Tensor]


def make_inputs(case: str, shape: Shape, seed: int) -> Batch:
    """a (B, N); b and c (N-1,) or (B, N-1), with b c >= 0; backward: dL/dG as pairs (B, N, 2); all float64."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> Tensor:
        return torch.rand(*size, dtype=torch.float64, generator=generator)

    a = H0_DIAGONAL + V_MAX * (2 * draw(shape.batch, shape.length) - 1)
    if shape.batched:
        b, c = (0.5 + draw(shape.batch, shape.length - 1) for _ in range(2))
    else:
        # the document's b = c = 1, with enough of a pattern that an index off by one shows
        b, c = (0.75 + 0.5 * draw(shape.length - 1) for _ in range(2))
    upstream = {"upstream": 2 * draw(shape.batch, shape.length, 2) - 1} if is_backward(case) else {}
    return {"a": a, "b": b, "c": c, **upstream}


def build(switches: Switches, inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """One variant: placed inputs -> complex64 diagonal (B, N), or the gradients."""
    if is_backward(case):
        return _build_backward(switches, inputs, case, shape, device)
    core, fallbacks = _choose_core(switches, inputs, case, shape, device)

    def step(placed: Batch) -> Tensor:
        return core(placed["a"], placed["b"], placed["c"], Z)

    if switches.graph:
        captured = capture_in_place(step, place_aligned(inputs, device))
        step = captured.call
        if captured.reason:
            fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}")
    # the other cases would be the same files at other shapes
    module = PortableDiagonal(Z, causal=is_causal(case)) if case in ("forward", "causal") else None
    return Program(
        step=step, place=_choose_place(switches.core == "fused", device), outputs=name_outputs, module=module,
        fallbacks=fallbacks,
    )  # fmt: skip


def rows(case: str, shape: Shape) -> int:
    """Sequences, the first dimension of every output."""
    return int(shape.batch)


def work(case: str, shape: Shape) -> Work:
    """What is read once and written once: a; b and c, by each sequence if batched; the diagonal, or dL/dG and gradients."""
    elements = shape.batch * shape.length
    couplings = 2 * (shape.batch if shape.batched else 1) * (shape.length - 1)
    size = 4 * elements + 8 * elements + 4 * couplings
    # an element: chunk product 24, replay 34, states 10, reciprocals counted as one; one direction less if causal
    flops = 50 if is_causal(case) else 70
    if is_backward(case):
        # the gradients of what was read, and the adjoint recursions
        size += 4 * elements + (4 * couplings if shape.batched else 0)
        flops = 130
    return Work(items=elements, flops=flops * elements, bytes=size, working_set_bytes=size, item="elements")


def _build_backward(switches: Switches, inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """Gradients from the operands and dL/dG: the forward pass is a part of the step where autograd needs it."""
    names = differentiated(shape)
    if not switches.analytic:
        core: Core = plain.diagonal_ratio
        if switches.core == "scan":
            from phasewise_studies.bk_core.scan import diagonal_scan

            core = diagonal_scan

        def differentiate(placed: Batch) -> Batch:
            operands = {name: placed[name].detach().requires_grad_(name in names) for name in ("a", "b", "c")}
            with torch.enable_grad():
                found = core(operands["a"], operands["b"], operands["c"], Z)
                upstream = torch.view_as_complex(placed["upstream"])
                grads = torch.autograd.grad(found, [operands[name] for name in names], upstream)
            return {f"grad/{name}": grad for name, grad in zip(names, grads, strict=True)}

        return Program(step=differentiate)
    from phasewise_studies.bk_core.kernels.prepared import prepare_gradient

    first = place_aligned(inputs, device)
    launch = None
    if switches.tuned and device.type == "cuda":
        from phasewise_studies.bk_core.kernels.tuning import tune_launch

        launch = tune_launch(
            lambda tried: kernels.gradient(
                first["a"], first["b"], first["c"], Z, torch.view_as_complex(first["upstream"]),
                couplings=shape.batched, shift=False, launch=tried,
            ),
            case, shape.batch, shape.length, eta=Z.imag, gradient=True,
        )  # fmt: skip
    run = prepare_gradient(
        first["a"], first["b"], first["c"], Z, first["upstream"], couplings=shape.batched, launch=launch
    )

    def step(placed: Batch) -> Batch:
        found = run(placed["a"], placed["b"], placed["c"], placed["upstream"])
        return {f"grad/{name}": grad for name, grad in zip(names, found, strict=True)}

    fallbacks = () if kernels.has_kernel(device) else (f"analytic-backward: {NO_KERNEL}",)
    return Program(step=step, place=_choose_place(True, device), fallbacks=fallbacks)


def _choose_place(by_kernel: bool, device: torch.device) -> Callable[[Batch], Batch] | None:
    """How a variant's inputs are placed; None for the usual way."""
    return partial(place_aligned, device=device) if by_kernel and kernels.has_kernel(device) else None


def _choose_core(
    switches: Switches, inputs: Batch, case: str, shape: Shape, device: torch.device
) -> tuple[Core, tuple[str, ...]]:
    """The function of this variant, and why it is not the one that was asked for."""
    causal = is_causal(case)
    if switches.core == "textbook":
        return plain.diagonal_textbook, ()
    if switches.core == "compiled-loop":
        from phasewise_studies.bk_core.compiled_loop import diagonal_compiled

        return diagonal_compiled, ()
    if switches.core == "scan":
        from phasewise_studies.bk_core.scan import diagonal_scan

        return partial(diagonal_scan, causal=causal), ()
    if switches.core == "mixed":
        from phasewise_studies.bk_core.mixed_precision import diagonal_mixed

        return partial(diagonal_mixed, causal=causal), ()
    if switches.core == "extension":
        from phasewise_studies.bk_core.kernels import extension

        reason = extension.why_not(device)
        return partial(extension.diagonal, causal=causal), ((f"cuda-extension: {reason}",) if reason else ())
    if switches.core != "fused":
        return plain.diagonal_causal if causal else plain.diagonal_ratio, ()
    if not kernels.has_kernel(device):
        return partial(kernels.diagonal, causal=causal), (f"triton-fused: {NO_KERNEL}",)
    from phasewise_studies.bk_core.kernels.prepared import prepare_diagonal

    placed = place_aligned(inputs, device)
    a, b, c = (placed[name] for name in ("a", "b", "c"))
    launch = None
    if switches.tuned and device.type == "cuda":
        from phasewise_studies.bk_core.kernels.tuning import tune_launch

        launch = tune_launch(
            lambda tried: kernels.diagonal(a, b, c, Z, causal=causal, launch=tried),
            case, shape.batch, shape.length, eta=Z.imag,
        )  # fmt: skip
    run = prepare_diagonal(a, b, c, Z, causal=causal, launch=launch)
    return lambda a, b, c, _: run(a, b, c), ()


def place_aligned(batch: Batch, device: torch.device) -> Batch:
    """In float32, batched couplings in rows of a multiple of 16 bytes: a kernel can load no more than 4 bytes at an odd place."""
    placed = {name: part.to(device, torch.float32) for name, part in batch.items()}
    for name in ("b", "c"):
        rows = placed[name]
        if rows.ndim == 2:
            count, width = rows.shape
            wide = rows.new_zeros(count, -(-width // 4) * 4)
            wide[:, :width] = rows
            placed[name] = wide[:, :width]
    return placed
