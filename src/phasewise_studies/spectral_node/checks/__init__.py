"""What must hold of any right result, whatever computed it: a function for each check that phases.py names."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from phasewise import CheckContext, Checked, Quantity, Shape
from phasewise.kit.batches import find_largest
from phasewise_studies.spectral_node import data, program
from phasewise_studies.spectral_node.adjoint import adjoint_loss
from phasewise_studies.spectral_node.boundary_value import make_constants
from phasewise_studies.spectral_node.chebyshev import tail
from phasewise_studies.spectral_node.checks import gradients, proposals, quality
from phasewise_studies.spectral_node.closed_form import NODES, look_up, speed_at_nodes
from phasewise_studies.spectral_node.losses import closed_loss, unrolled_loss
from phasewise_studies.spectral_node.metric import christoffel_tangent, evaluate, take_metric
from phasewise_studies.spectral_node.product import compress
from phasewise_studies.spectral_node.shooting import integrate_geodesic, shoot
from phasewise_studies.spectral_node.transitions import all_pairs

# issue: endpoint, invariant g v^2 and v0 against the closed form; endpoint in float64; cosine of gradients
SINGLE, DOUBLE, COSINE = 1e-5, 1e-10, 0.9999
CPU = torch.device("cpu")
# transitions with a tail: more than a block of the largest kernel, one short of five of the others; the reference of 2047 takes a CPU a minute
TAILED = 639
# transitions a training step: beyond 600 million trajectories a step is seconds, and no batch of them is of use
LARGEST = 1 << 20


def leave_one_out(context: CheckContext) -> Checked:
    """Each concentration of the synthetic table left out once and predicted."""
    return quality.judge_synthetic(context)


def real_spectra(context: CheckContext) -> Checked:
    """Six of the 21 measured spectra known, the others predicted."""
    return quality.judge_measured(context)


def five_hundred_epochs(context: CheckContext) -> Checked:
    """Wall time of 500 steps over all transitions, and the training curve."""
    return quality.time_epochs(context)


def proposals_measured(context: CheckContext) -> Checked:
    """What the document proposes and no phase does, timed beside the same without it."""
    return proposals.measure_proposals(context)


def invariant(context: CheckContext) -> Checked:
    """Geodesics from the v0 that was found reach their end, and g v^2 stays what it was: followed in float64."""
    batch = context.inputs(17)
    v0 = context.run(context.build(), batch)["v0"].double()
    endpoint, drift = follow(batch, v0, context.shape)
    return Checked(
        passed=endpoint <= SINGLE and drift <= SINGLE,
        message=f"endpoints are off by up to {endpoint:.1e}, g v^2 drifts by up to {drift:.1e}",
        numbers={"endpoint error": Quantity(value=endpoint), "drift of g v^2": Quantity(value=drift)},
    )


def follow(batch, v0: Tensor, shape: Shape, *, steps: int = 40, most: int = 64) -> tuple[float, float]:
    """Endpoint error and relative drift of g v^2 over an even choice of `most` transitions, in float64 RK4."""
    metric = take_metric(batch, dtype=torch.float64, device=CPU)
    waves = data.wavelengths(shape.wavelengths)
    picked = torch.linspace(0, len(v0) - 1, min(len(v0), most)).long()
    start, stop = (batch[name][picked][:, None].expand(-1, shape.wavelengths) for name in ("start", "stop"))
    c, v = integrate_geodesic(partial(christoffel_tangent, metric, wavelength=waves), start, v0[picked], steps)
    before, after = evaluate(metric, start, waves) * v0[picked] ** 2, evaluate(metric, c, waves) * v**2
    drift = (after / before.where(before != 0, 1.0) - 1).abs().where(before != 0, 0.0)
    return float((c - stop).abs().max()), float(drift.max())


def all_transitions(context: CheckContext) -> Checked:
    """All transitions at all wavelengths: v0 against the closed form, endpoints in float32 and, by shooting, in float64."""
    batch = context.inputs(0)
    found = {name: value.double() for name, value in context.run(context.build(), batch).items()}
    exact = context.run(context.reference(), batch)
    relative = float(((found["v0"] - exact["v0"]) / exact["v0"]).abs().max())
    single, drift = follow(batch, found["v0"], context.shape)
    start, stop = (batch[name][:, None].expand_as(exact["v0"]) for name in ("start", "stop"))
    # shooting in float64 on the same grid as the kernels
    gamma = partial(look_up, make_constants(batch, context.shape, CPU, dtype=torch.float64).gamma)
    integrate = partial(integrate_geodesic, gamma, steps=context.shape.steps)
    _, end = shoot(integrate, start, stop, newton=context.shape.newton, slope="exact")
    double = float((end - stop).abs().max())
    return Checked(
        passed=max(relative, single, drift) <= SINGLE and double <= DOUBLE,
        message=(
            f"{found['v0'].numel()} problems: v0 is off by {relative:.1e} of itself, endpoints by {single:.1e} in float32 and "
            f"{double:.1e} in float64, g v^2 drifts by {drift:.1e}"
        ),
        numbers={
            "relative error of v0": Quantity(value=relative),
            "endpoint error, float32": Quantity(value=single),
            "endpoint error, float64": Quantity(value=double),
            "drift of g v^2": Quantity(value=drift),
        },
    )


def lookup_exact(context: CheckContext) -> Checked:
    """Between columns the lookup is linear interpolation: against torch.searchsorted, at 512 random places a row."""
    draw = torch.Generator().manual_seed(5)
    table = torch.randn(3, 200, dtype=torch.float64, generator=draw)
    c = 2 * torch.rand(512, 3, dtype=torch.float64, generator=draw) - 1
    grid = torch.linspace(-1, 1, 200, dtype=torch.float64)
    right = torch.searchsorted(grid, c).clamp(1, 199)
    part = (c - grid[right - 1]) / (grid[right] - grid[right - 1])
    rows = torch.arange(3)
    exact = table[rows, right - 1] + part * (table[rows, right] - table[rows, right - 1])
    found = look_up(table.to(context.device, torch.float32), c.to(context.device, torch.float32)).cpu()
    error, zeros = float((found - exact).abs().max()), int((found == 0).sum())
    # a cell is 0.01 wide: rounding c at 6e-8 moves it by 6e-6 of a cell
    return Checked(
        passed=error <= 1e-4 and zeros == 0,
        message=f"largest error {error:.1e} of values near 1; {zeros} of {found.numel()} values read as 0",
        numbers={"lookup error": Quantity(value=error)},
    )


def odd_sizes(context: CheckContext) -> Checked:
    """Single transitions, tails and standing still agree with the reference."""
    worst = 0.0
    batch = dict(context.inputs(0))
    solver = context.build(graph=False)
    exact = context.reference()
    count = len(batch["start"])
    for size in sorted({1, 2, min(3, count), min(count - 1, TAILED)}):
        cut = batch | {name: batch[name][:size] for name in ("start", "stop", "absorbance") if name in batch}
        if size == 2:
            cut["stop"] = torch.stack((cut["start"][0], cut["stop"][1]))
        one, other = context.run(solver, cut), context.run(exact, cut)
        worst = max(worst, *(float((one[name] - other[name]).abs().max().nan_to_num(float("inf"))) for name in other))
    return Checked(
        passed=worst <= 2 * SINGLE,
        message=f"largest error {worst:.1e}",
        numbers={"largest error": Quantity(value=worst)},
    )


def nodes_resolve(context: CheckContext) -> Checked:
    """The last Chebyshev coefficients of sqrt(g) are nothing beside the first: the nodes see all that there is."""
    metric = take_metric(context.inputs(3), dtype=torch.float64, device=CPU)
    waves = data.wavelengths(context.shape.wavelengths)
    rest = tail(speed_at_nodes(metric, waves, NODES))
    return Checked(
        passed=rest <= 1e-7, message=f"the tail is {rest:.1e} of the largest", numbers={"tail": Quantity(value=rest)}
    )


def closed_form_agrees(context: CheckContext) -> Checked:
    """v0 by arc length is v0 by shooting in float64 with the exact tangent: two ways with nothing in common but g."""
    small = Shape(**dict(context.shape) | {"pairs": 8, "wavelengths": min(context.shape.wavelengths, 7)})
    batch = program.make_inputs(context.case, small, 11)
    waves, metric = data.wavelengths(small.wavelengths), take_metric(batch, dtype=torch.float64, device=CPU)
    start, stop = (batch[name][:, None].expand(-1, small.wavelengths) for name in ("start", "stop"))
    gamma = partial(christoffel_tangent, metric, wavelength=waves)
    v0, end = shoot(partial(integrate_geodesic, gamma, steps=100), start, stop, newton=10, slope="exact")
    closed = program.reference(batch, context.case, small).step(batch)["v0"]
    error, gap = float(((closed - v0) / v0).abs().max()), float((end - stop).abs().max())
    return Checked(
        # RK4 with 100 steps is at 1e-9 itself
        passed=error <= 1e-7 and gap <= DOUBLE,
        message=f"v0 differs by {error:.1e} of itself; shooting ends within {gap:.1e}",
        numbers={"closed form against shooting": Quantity(value=error)},
    )


def gradients_agree(context: CheckContext) -> Checked:
    """Unrolled autograd, the adjoint, the closed form and this variant: cosines of all gradients against 50 RK4 steps.

    On a GPU over every transition and wavelength of the case; on a CPU over 6 transitions and 5 wavelengths.
    """
    few = {} if context.device.type == "cuda" else {"levels": 3, "wavelengths": 5}
    small = Shape(**dict(context.shape) | few | {"newton": 6})
    batch = program.make_inputs("train", small, 7)
    # 50 steps of 18,030 trajectories in float64 would keep 90 GB
    unrolled = partial(unrolled_loss, recompute=True)
    find = partial(gradients.find_gradients, small=small, batch=batch, device=context.device)
    exact = find(unrolled, steps=50)
    ways = {"adjoint": adjoint_loss, "closed form": closed_loss, "unrolled": unrolled}
    cosines = {name: gradients.find_worst_cosine(find(loss, steps=small.steps), exact) for name, loss in ways.items()}
    # this variant's own, from its state after one step, of the shape it was built for
    mine = context.build()
    context.run(mine, context.inputs(0))
    fresh = context.reference()
    context.run(fresh, context.inputs(0))
    one, other = (
        gradients.flatten({k: v.cpu() for k, v in p.state().items() if k.startswith("grad/")}) for p in (mine, fresh)
    )
    cosines["this variant"] = torch.cosine_similarity(one, other, dim=0).item()
    worst = min(cosines.values())
    metric = min(float(value.abs().max()) for name, value in mine.state().items() if name.startswith("grad/metric"))
    return Checked(
        passed=worst >= COSINE and metric > 0,
        message=f"{len(all_pairs(small.levels))} transitions x {small.wavelengths} wavelengths: cosines "
        + ", ".join(f"{name} {value:.7f}" for name, value in cosines.items()),
        numbers={f"cosine, {name}": Quantity(value=value) for name, value in cosines.items()},
    )


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


def compressed_holds(context: CheckContext) -> Checked:
    """INT8 weights, a pruned network and a 2-8-8-1 student against the full model, each at its own gate."""
    batch = context.inputs(0)
    whole = {name: value for name, value in batch.items() if name.startswith(("metric/", "flow/"))}
    full = 4 * sum(value.numel() for value in whole.values())
    made = {"INT8": compress.quantize(whole), "pruned": compress.prune(whole, 0.25), "student": compress.distil(whole)}
    errors = {
        name: compress.absorbance_error(whole, small, context.shape.wavelengths) for name, (small, _) in made.items()
    }
    held = [name for name, error in errors.items() if error <= compress.GATE]
    numbers = {f"error of A, {name}": Quantity(value=error) for name, error in errors.items()}
    numbers |= {f"bytes, {name}": Quantity(value=size, unit="B") for name, (_, size) in made.items()}
    return Checked(
        # INT8 has to hold; of the others the message says whether they do
        passed="INT8" in held,
        message=f"within {compress.GATE:.0%} of the spread of A: {', '.join(held) or 'none'} (of {', '.join(made)}); "
        f"the whole model has {full} bytes",
        numbers=numbers,
    )
