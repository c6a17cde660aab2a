"""What must hold of a training step: its gradients by every way, its largest batch, its overflows in half precision."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from phasewise import CheckContext, Checked, Quantity, Shape
from phasewise.kit.batches import find_largest
from phasewise_studies.spectral_node import data, program
from phasewise_studies.spectral_node.adjoint import adjoint_loss
from phasewise_studies.spectral_node.flow import draw_flow
from phasewise_studies.spectral_node.losses import closed_loss, unrolled_loss
from phasewise_studies.spectral_node.metric import draw_metric
from phasewise_studies.spectral_node.transitions import all_pairs, make_transitions

# issue: the cosine of gradients
COSINE = 0.9999
# transitions a training step: beyond 600 million trajectories a step is seconds, and no batch of them is of use
LARGEST = 1 << 20


def gradients_agree(context: CheckContext) -> Checked:
    """Unrolled autograd, the adjoint, the closed form and this variant: cosines of all gradients against 50 RK4 steps.

    On a GPU over every transition and wavelength of the case; on a CPU over 6 transitions and 5 wavelengths.
    """
    few = {} if context.device.type == "cuda" else {"levels": 3, "wavelengths": 5}
    small = Shape(**dict(context.shape) | few | {"newton": 6})
    batch = program.make_inputs("train", small, 7)
    # 50 steps of 18,030 trajectories in float64 would keep 90 GB
    unrolled = partial(unrolled_loss, recompute=True)
    find = partial(_gradient, small=small, batch=batch, device=context.device)
    exact = find(unrolled, steps=50)
    ways = {"adjoint": adjoint_loss, "closed form": closed_loss, "unrolled": unrolled}
    cosines = {name: _cosine(find(loss, steps=small.steps), exact) for name, loss in ways.items()}
    # this variant's own, from its state after one step, of the shape it was built for
    mine = context.build()
    context.run(mine, context.inputs(0))
    fresh = context.reference()
    context.run(fresh, context.inputs(0))
    one, other = (_flat({k: v.cpu() for k, v in p.state().items() if k.startswith("grad/")}) for p in (mine, fresh))
    cosines["this variant"] = torch.cosine_similarity(one, other, dim=0).item()
    worst = min(cosines.values())
    metric = min(float(value.abs().max()) for name, value in mine.state().items() if name.startswith("grad/metric"))
    return Checked(
        passed=worst >= COSINE and metric > 0,
        message=f"{len(all_pairs(small.levels))} transitions x {small.wavelengths} wavelengths: cosines "
        + ", ".join(f"{name} {value:.7f}" for name, value in cosines.items()),
        numbers={f"cosine, {name}": Quantity(value=value) for name, value in cosines.items()},
    )


def _gradient(loss, *, small: Shape, batch, device: torch.device, steps: int) -> dict[str, Tensor]:
    """Gradients of all parameters in float64, computed on `device`, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    drawn = draw_metric((small.first, small.second), generator) | draw_flow(small.wavelengths, generator)
    weights = {name: value.to(device, copy=True).requires_grad_() for name, value in drawn.items()}
    pairs = all_pairs(small.levels)
    made = make_transitions(
        data.levels(small.levels), data.wavelengths(small.wavelengths), pairs, steps=steps, newton=small.newton,
        dtype=torch.float64, device=device,
    )  # fmt: skip
    loss(made, weights, batch["table"].to(device), torch.arange(len(pairs), device=device))[0].backward()
    return {name: weight.grad.cpu() for name, weight in weights.items()}


def _flat(gradients) -> Tensor:
    return torch.cat([gradients[name].double().flatten() for name in sorted(gradients)])


def _cosine(one, other) -> float:
    """The worst over the two networks, so that a large flow can't hide a wrong metric."""
    parts = [{k: v for k, v in g.items() if k.startswith(p)} for p in ("metric/", "flow/") for g in (one, other)]
    flat = [_flat(part) for part in parts]
    return min(torch.cosine_similarity(flat[i], flat[i + 1], dim=0).item() for i in (0, 2))


def largest_batch(context: CheckContext) -> Checked:
    """The automatic batch-size finder: a training step, doubled until out of memory, then halved between.

    By the closed form under autograd: the fused kernel has all transitions of a wavelength in one program's registers, so a
    larger batch is for it a matter of micro-batches and not of memory.
    """
    batch = context.inputs(0)
    few = len(batch["order"])
    most = LARGEST if context.device.type == "cuda" else 4 * few
    # one micro-batch of whatever `order` holds: transitions drawn with replacement
    training = context.build(gradient="closed", micro=most, compiled=False, graph=False, streams=False, ranks=1)
    found = find_largest(
        lambda size: context.run(training, {**batch, "order": torch.arange(size) % few}), first=few, most=most
    )
    least = "at least " if found.capped else ""
    numbers = {"largest batch (the cap)" if found.capped else "largest batch": Quantity(value=found.size)}
    return Checked(
        passed=found.size >= few,
        message=f"a training step of {least}{found.size} transitions ({found.size * context.shape.wavelengths} trajectories) "
        f"fits; sizes tried: {', '.join(str(attempt.size) for attempt in found.history)}",
        numbers=numbers,
    )


def overflow_is_counted(context: CheckContext) -> Checked:
    """float16 with a gradient scaler: overflows of ten steps from the document's scale, and of one from a scale far too high."""
    batch = context.inputs(0)
    training = context.build(
        gradient="closed", autocast="float16", fused_adam=False, compiled=False, graph=False, streams=False, ranks=1
    )
    for _ in range(10):
        context.run(training, batch)
    state = {name: value.clone() for name, value in training.state().items()}
    usual, weights = int(state["scaler/overflows"]), state["metric/w2"]
    # float32 reaches 3.4e38, float16 65504: gradients of a loss times this do not exist
    state["scaler/scale"] = torch.tensor(2.0**40, dtype=torch.float64)
    training.load(state)
    context.run(training, batch)
    after = training.state()
    forced, scale = int(after["scaler/overflows"]) - usual, float(after["scaler/scale"])
    stayed = torch.equal(after["metric/w2"], weights)
    return Checked(
        passed=forced == 1 and scale == 2.0**39 and stayed,
        message=f"ten steps from a scale of 2^16: {usual} overflows; one from 2^40: {forced}, the scale fell to {scale:.3g}, "
        f"weights {'stayed' if stayed else 'moved'}",
        numbers={"overflows from 2^16": Quantity(value=usual), "overflows from 2^40": Quantity(value=forced)},
    )
