"""Run by test_polychromic_fused.py in a process where Triton interprets: prints how far each kernel is from autograd, as JSON."""

from __future__ import annotations

import json

import torch
from torch import Tensor
from torch.nn import functional

from phasewise_studies.polychromic.kernels import gate_triton, loss_triton, norm_triton, rotary_triton
from phasewise_studies.polychromic.model.llama import rms_norm
from phasewise_studies.polychromic.model.rotary import rotate
from phasewise_studies.polychromic.model.weights import ModelShape
from phasewise_studies.polychromic.tests.fused_model import QWEN3, SHAPE, gradients, make_forwards

EPSILON = 1e-5


def draw(*size: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def widen(*tensors: Tensor) -> list[Tensor]:
    """Leaves in float64."""
    return [tensor.double().requires_grad_() for tensor in tensors]


def worst(*pairs: tuple[Tensor, Tensor]) -> float:
    """Largest error relative to the largest number, or to 1."""
    return max(float((a - b).detach().abs().max() / b.detach().abs().max().clamp_min(1)) for a, b in pairs if b.numel())


def strided(rows: int, width: int, dtype: torch.dtype) -> Tensor:
    """Room in the middle of longer rows, full of what must not be read."""
    return torch.full((rows, width + 8), torch.nan, dtype=dtype)[:, 3 : 3 + width]


def norm(rows: int, width: int, *, alone: bool = False, dtype: torch.dtype = torch.float32) -> float:
    x, y, dn, dh = (draw(rows, width, seed=seed, dtype=dtype) for seed in range(4))
    gain = 1 + draw(width, seed=5, dtype=dtype)
    n, dx = strided(rows, width, dtype), strided(rows, width, dtype)
    h, scale = norm_triton.add_norm(n, x, None if alone else y, gain, EPSILON)
    norm_triton.add_norm_backward(dx, dn, None if alone else dh, h, scale, gain)
    # of the h that was stored
    (wide,) = widen(h)
    exact = rms_norm(wide, gain.double(), EPSILON)
    (grad,) = torch.autograd.grad(exact, wide, dn.double())
    return worst((h, x if alone else x + y), (n, exact), (dx, grad if alone else grad + dh))


def turn(batch: int, length: int, heads: int, groups: int, head: int, *, normed: bool = False) -> float:
    size = (heads + 2 * groups) * head
    # heads before tokens, as attention gives gradients
    q, k, v = (
        draw(batch, count, length, head, seed=seed).transpose(1, 2)
        for seed, count in enumerate((heads, groups, groups))
    )
    angles = draw(batch * length, head // 2, seed=4)
    cos, sin = angles.cos(), angles.sin()
    out, back = strided(batch * length, size, torch.float32), strided(batch * length, size, torch.float32)
    gains = 1 + draw(2, head, seed=7)
    how = rotary_triton.HeadNorm(*gains, EPSILON) if normed else None
    rotary_triton.turn(out, q, k, v, cos, sin, how)
    leaves = widen(q, k, v)
    at = (batch, length, -1)
    queries_and_keys = [
        rms_norm(x, gain, EPSILON) if normed else x for x, gain in zip(leaves[:2], gains.double(), strict=True)
    ]
    parts = [rotate(one, cos.view(at).double(), sin.view(at).double()) for one in queries_and_keys]
    exact = torch.cat([part.flatten(2) for part in (*parts, leaves[2])], dim=2).flatten(0, 1)
    given = draw(batch * length, size, seed=6)
    grads = torch.autograd.grad(exact, leaves, given.double())
    sizes = (heads * head, groups * head, groups * head)
    dq, dk, dv = (part.unflatten(0, (batch, length)).unflatten(-1, (-1, head)) for part in given.split(sizes, 1))
    before = torch.cat([part.flatten(2) for part in (q, k, v)], dim=2).flatten(0, 1) if normed else None
    rotary_triton.turn_back(back, dq, dk, dv, cos, sin, how, before)
    return worst((out, exact), (back, torch.cat([grad.flatten(2) for grad in grads], dim=2).flatten(0, 1)))


def gate(rows: int, inner: int, dtype: torch.dtype = torch.float32) -> float:
    gate_up, da = 3 * draw(rows, 2 * inner, seed=1, dtype=dtype), draw(rows, inner, seed=2, dtype=dtype)
    a, found = strided(rows, inner, dtype), strided(rows, 2 * inner, dtype)
    gate_triton.gate(a, gate_up)
    gate_triton.gate_backward(found, da, gate_up)
    (wide,) = widen(gate_up)
    exact = functional.silu(wide[:, :inner]) * wide[:, inner:]
    (grad,) = torch.autograd.grad(exact, wide, da.double())
    return worst((a, exact), (found, grad))


def loss(rows: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> float:
    logits = strided(rows, vocabulary, dtype)
    logits.copy_(8 * draw(rows, vocabulary, seed=1))
    targets = torch.randint(vocabulary, (rows,), generator=torch.Generator().manual_seed(2))
    targets[rows // 2] = -1
    dlog_p = draw(rows, seed=3)
    (wide,) = widen(logits)
    exact = wide.log_softmax(1).gather(1, targets.clamp_min(0)[:, None])[:, 0] * (targets >= 0)
    (grad,) = torch.autograd.grad(exact, wide, dlog_p.double())
    log_p, lse = loss_triton.token_log_p(logits, targets)
    found = loss_triton.token_log_p_backward(logits, dlog_p, lse, targets)
    return worst((log_p, exact), (found, grad))


def model(shape: ModelShape) -> dict[str, float | bool]:
    """Gradients of both batches through the kernels, against the plain layers in float32."""
    plain, fused = make_forwards(shape, torch.float32)
    wanted, exact = gradients(plain)
    found, own = gradients(fused)
    _, again = gradients(fused)
    return {
        "log_p": max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True)),
        "error": worst((own, exact)),
        "cosine": float(functional.cosine_similarity(own.double(), exact.double(), dim=0)),
        "repeats": torch.equal(own, again),
    }


def main() -> None:
    """Measure all cases."""
    bfloat16 = torch.bfloat16
    found = {
        "norm": [norm(1, 48), norm(63, 48, alone=True), norm(5, 576), norm(3, 33, alone=True)],
        "norm bfloat16": [norm(7, 48, dtype=bfloat16)],
        "turn": [turn(1, 1, 3, 1, 16), turn(2, 31, 4, 2, 24), turn(1, 5, 9, 3, 64)],
        "turn with a norm": [turn(1, 1, 3, 1, 16, normed=True), turn(2, 31, 4, 2, 24, normed=True)],
        "gate": [gate(1, 80), gate(63, 33), gate(2, 700)],
        "gate bfloat16": [gate(5, 80, bfloat16)],
        "loss": [loss(1, 193), loss(63, 101), loss(3, 5000)],
        "loss bfloat16": [loss(5, 193, bfloat16)],
        "model": model(SHAPE),
        "qwen3": model(QWEN3),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
