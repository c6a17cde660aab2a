"""What must hold of any right trainer, and the document's validation checklist."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from phasewise import Chart, CheckContext, Checked, Program, Quantity, Series, Shape
from phasewise.tensors import all_same_bits
from phasewise_studies.lior import program as lior
from phasewise_studies.lior.data import draw_batch
from phasewise_studies.lior.reference import closed_form_field, rotate
from phasewise_studies.lior.window import (
    BETA,
    COORDINATES,
    EPS,
    LAMBDA_F,
    METRIC_LEAST,
    METRIC_MOST,
    ROTOR_PLANES,
    index_layers,
    read_sizes,
    rotate_by_layers,
)

# the document's own criterion for loss curves
CLOSE = 1e-4
CURVE_WINDOWS = 100
# until caches of the allocator and of the libraries are filled
WARM_WINDOWS = 10


def field_closed_form(context: CheckContext) -> Checked:
    """The open field after a window is IFFT(prod_t (1 - i a_t Lambda) FFT(T))."""
    program, batch = context.build(), context.inputs(0)
    context.run(program, batch)
    after = torch.view_as_complex(_state(program)["field"].double().contiguous())
    start, rest = torch.view_as_complex(batch["field"]), torch.view_as_complex(batch["rest"])
    # the relaxation at the window's end taken back
    end = (after - LAMBDA_F * rest) / (1 - LAMBDA_F)
    exact = closed_form_field(start, context.shape.steps)
    return _within("field against its closed form", float((end - exact).norm() / exact.norm()), 1e-5)


def rotors_orthogonal(context: CheckContext) -> Checked:
    """The rotor keeps norms, and turning back gives what was turned."""
    program = context.build()
    context.run(program, context.inputs(0))
    theta = _state(program)["theta"].double()
    points = context.inputs(1)["tokens"]
    turned = rotate_by_layers(points, theta, index_layers(points.device))
    norms = float((turned.norm(dim=1) - points.norm(dim=1)).abs().max())
    identity = torch.eye(points.shape[1], dtype=torch.float64)
    matrix = rotate_by_layers(identity, theta, index_layers(points.device))
    back = float((turned @ matrix.T - points).abs().max())
    plain = float((turned - rotate(points, theta)).abs().max())
    inside = bool((theta >= -math.pi).all() and (theta < math.pi).all())
    found = _within("norms, the way back, and the plain loop", max(norms, back, plain), 1e-12)
    return found if inside else Checked(passed=False, message=f"an angle lies outside [-pi, pi): {theta.tolist()}")


def attention(context: CheckContext) -> Checked:
    """With no rotation, metric one and |T| = 1, retrieval is softmax attention with scores -beta * distance."""
    program, batch = context.build(), context.inputs(0)
    state = _state(program)
    state["theta"], state["metric"] = torch.zeros_like(state["theta"]), torch.ones_like(state["metric"])
    state["field"] = torch.zeros_like(state["field"])
    state["field"][..., 0] = 1.0
    program.load(state)
    found = context.run(program, batch)["retrieved"][0, 0].double()
    query = batch["tokens"] + batch["projection"].sum(1)
    distance = torch.sqrt(
        torch.cdist(query, state["bank_coords"].double(), compute_mode="donot_use_mm_for_euclid_dist").square() + EPS
    )
    scores = (-BETA * distance).masked_fill(state["bank_valid"] == 0, -torch.inf)
    blank_q, blank_k = torch.zeros(len(query), 8).double(), torch.zeros(distance.shape[1], 8).double()
    exact = torch.nn.functional.scaled_dot_product_attention(
        blank_q[None, None],
        blank_k[None, None],
        state["bank_states"].double()[None, None],
        attn_mask=scores[None, None],
    )[0, 0]
    return _within("retrieval against attention", float((found - exact).abs().max()), max(CLOSE, 10 * context.atol))


def nudge_is_linear(context: CheckContext) -> Checked:
    """LIoR of the nudged phase minus that of the free one is linear in the nudge as the nudge goes to zero."""
    program, batch = context.build(), dict(context.inputs(0))
    state = _state(program)
    pull = batch["targets"] - batch["tokens"]

    def contrast(scale: float) -> float:
        program.load(state)
        lior = context.run(program, batch | {"targets": batch["tokens"] + scale * pull})["lior"].double()
        return float(lior[1] - lior[0])

    none, small, twice = contrast(0.0), contrast(0.1), contrast(0.2)
    ratio = (twice - none) / (small - none)
    return Checked(
        passed=abs(ratio - 2) < 0.1,
        message=f"twice the nudge gives {ratio:.4f} times the contrast",
        numbers={"twice the nudge": Quantity(value=ratio, unit="x")},
    )


def loss_curves(context: CheckContext) -> Checked:
    """Loss, angles, metric, R and spd of 100 windows, free-running, lie within 1e-4 of the float64 reference."""
    on_gpu = context.device.type == "cuda"
    # 32 steps: the memory weight has reached its last value, and the reference takes 4 s
    shape = _small(context, batch=8 if on_gpu else 4, steps=32 if on_gpu else 2)
    inputs = lior.make_inputs(context.case, shape, 0)
    programs = (
        lior.build(context.switches, inputs, context.case, shape, context.device),
        lior.reference(inputs, context.case, shape),
    )
    curves: tuple[list[Tensor], list[Tensor]] = ([], [])
    for window in range(CURVE_WINDOWS):
        batch = draw_batch(read_sizes(shape), window)
        for program, curve in zip(programs, curves, strict=True):
            found = context.run(program, batch)
            metrics = [found[name].double() for name in ("lior", "curvature", "speed")]
            state = program.state()
            curve.append(torch.cat([*metrics, *(state[name].double().cpu() for name in ("metric", "theta"))]))
    ours, exact = (torch.stack(curve) for curve in curves)
    worst = measure_drift(ours, exact, read_sizes(shape).phases)
    at = tuple(float(window) for window in range(CURVE_WINDOWS))
    return Checked(
        passed=all(value <= CLOSE for value in worst.values()),
        message=", ".join(f"{name} off by {value:.1e}" for name, value in worst.items()) + f" in {CURVE_WINDOWS} windows",
        numbers={f"{name} off by": Quantity(value=value) for name, value in worst.items()},
        chart=Chart(
            title="LIoR of the free phase", x_title="window", y_title="LIoR",
            series=(Series(label="variant", x=at, y=tuple(ours[:, 0].tolist())),
                    Series(label="reference", x=at, y=tuple(exact[:, 0].tolist()))),
        ),
    )  # fmt: skip


def measure_drift(ours: Tensor, exact: Tensor, phases: int) -> dict[str, float]:
    """The worst window of each curve: windows x (LIoR, R, spd of each phase, metric, angles); relative where a value is over one."""
    apart = ours - exact
    angles = 3 * phases + COORDINATES
    # -pi and pi are one angle
    apart[:, angles:] = torch.remainder(apart[:, angles:] + math.pi, 2 * math.pi) - math.pi
    off = apart.abs() / exact.abs().clamp(min=1.0)
    lengths = {"loss": phases, "R": phases, "spd": phases, "metric": COORDINATES, "angles": ROTOR_PLANES}
    # a NaN is the largest of all
    return {
        name: float(part.max()) for name, part in zip(lengths, off.split(list(lengths.values()), dim=1), strict=True)
    }


def batch_sizes(context: CheckContext) -> Checked:
    """One window at batches of 1, 2, 8, 16 and 32 agrees with the reference."""
    worst = 0.0
    # compiling for five shapes would take a minute and tell nothing
    switches = replace(context.switches, compiled_ends=False)
    for batch in (1, 2, 8, 16, 32):
        shape = _small(context, batch=batch, steps=4)
        inputs = lior.make_inputs(context.case, shape, batch)
        found = context.run(lior.build(switches, inputs, context.case, shape, context.device), inputs)
        exact = context.run(lior.reference(inputs, context.case, shape), inputs)
        worst = max(worst, *(float((found[name].double() - exact[name]).abs().max()) for name in found))
    return _within("the worst of five batch sizes", worst, CLOSE)


def resume_is_identical(context: CheckContext) -> Checked:
    """A fresh trainer with a checkpoint of another one goes on bit for bit as that one does."""
    steady, resumed = context.build(), context.build()
    for seed in range(2):
        context.run(steady, context.inputs(seed))
    resumed.load(_state(steady))
    for seed in range(2, 4):
        batch = context.inputs(seed)
        if not all_same_bits(context.run(steady, batch), context.run(resumed, batch)):
            return Checked(passed=False, message=f"{seed - 1} windows after resuming, a bit differs")
    same = all_same_bits(_state(steady), _state(resumed))
    return Checked(passed=same, message="two windows after resuming, reports and state are the same bits")


def memory_stays_flat(context: CheckContext) -> Checked:
    """1000 windows on a GPU keep the allocated bytes where they are and stay finite; 12 windows on a CPU stay finite.

    An eager window of 64 steps takes a tenth of a second: it is watched over 200 windows of 8, at the same rate of growth.
    What it allocates does not depend on how often a step is repeated, and the cleanup comes up three times.
    """
    shape, windows = context.shape, 12
    on_gpu = context.device.type == "cuda"
    if on_gpu:
        eager = context.switches.engine == "eager"
        windows = 200 if eager else 1000
        shape = Shape(**{**dict(shape), "steps": min(shape.steps, 8)}) if eager else shape
    inputs = lior.make_inputs(context.case, shape, 0)
    program = lior.build(context.switches, inputs, context.case, shape, context.device)
    placed = [program.place(draw_batch(read_sizes(shape), seed)) for seed in range(4)]
    grown = 0
    for window in range(windows):
        raw = program.step(placed[window % 4])
        if window + 1 == WARM_WINDOWS and on_gpu:
            grown = -torch.cuda.memory_allocated(context.device)
    finite = all(
        bool(torch.isfinite(tensor).all()) for tensor in (*program.outputs(raw).values(), *_state(program).values())
    )
    said = f"{windows} windows: {'finite' if finite else 'not finite'}"
    if not on_gpu:
        # the resident set of a process says nothing over so few windows
        return Checked(passed=finite, message=f"{said}; memory is counted on a GPU only")
    grown += torch.cuda.memory_allocated(context.device)
    rate = 1000 * grown / (windows - WARM_WINDOWS)
    return Checked(
        passed=finite and rate <= 1 << 20,
        message=f"{said}, {grown} bytes more after the first {WARM_WINDOWS}",
        # of 1000 windows, however many were watched
        numbers={"memory growth": Quantity(value=rate, unit="B")},
    )


def hundred_epochs(context: CheckContext) -> Checked:
    """100 epochs of 1000 windows on a GPU (100 windows on a CPU) stay finite, the metric and the angles inside their bounds."""
    windows = 100_000 if context.device.type == "cuda" else 100
    # few steps, and the ends compiled where the variant compiles them: 130 small kernels a window would take half a minute
    shape = _small(context, batch=8, steps=4 if context.device.type == "cuda" else 2)
    inputs = lior.make_inputs(context.case, shape, 0)
    program = lior.build(context.switches, inputs, context.case, shape, context.device)
    placed = [program.place(draw_batch(read_sizes(shape), seed)) for seed in range(64)]
    for window in range(windows):
        raw = program.step(placed[window % 64])
    state = _state(program)
    finite = all(bool(torch.isfinite(tensor).all()) for tensor in (*program.outputs(raw).values(), *state.values()))
    inside = bool((state["metric"] >= METRIC_LEAST).all() and (state["metric"] <= METRIC_MOST).all())
    inside = inside and float(state["theta"].abs().max()) <= math.pi + 1e-6
    return Checked(
        passed=finite and inside,
        message=f"{windows} windows: {'finite' if finite else 'not finite'}, bounds {'kept' if inside else 'left'}",
        numbers={"windows": Quantity(value=float(windows))},
    )


def graph_equals_eager(context: CheckContext) -> Checked:
    """Replays of the captured window give the bits of the same window launched kernel by kernel, for fresh batches too."""
    if context.device.type != "cuda" or not context.switches.graph:
        return Checked(passed=True, message="there is no graph here, so nothing can differ")
    replayed, launched = context.build(), context.build(graph=False)
    if replayed.fallbacks:
        return Checked(passed=False, message=f"the capture failed: {', '.join(replayed.fallbacks)}")
    for seed in range(3):
        batch = context.inputs(seed)
        if not all_same_bits(context.run(replayed, batch), context.run(launched, batch)):
            return Checked(passed=False, message=f"window {seed}: the replay differs from the launched kernels")
    same = all_same_bits(_state(replayed), _state(launched))
    return Checked(passed=same, message="three windows and the state after them are the same bits")


def geometry_follows(context: CheckContext) -> Checked:
    """Metric and angles after three windows lie within 1e-4 of the reference, whatever precision the mix has."""
    ours, exact = context.build(), context.reference()
    for seed in range(3):
        context.run(ours, context.inputs(seed))
        context.run(exact, context.inputs(seed))
    now, then = _state(ours), exact.state()
    worst = max(float((now[name].double() - then[name]).abs().max()) for name in ("metric", "theta"))
    return _within("metric and angles", worst, CLOSE)


def no_barrier_gave_up(context: CheckContext) -> Checked:
    """All programs of the persistent kernel met at every barrier."""
    program = context.build()
    for seed in range(3):
        context.run(program, context.inputs(seed))
    flag = int(_state(program).get("barrier_gave_up", torch.zeros(())))
    return Checked(passed=flag == 0, message="a barrier gave up" if flag else "no barrier gave up")


def _small(context: CheckContext, *, batch: int, steps: int) -> Shape:
    """A shape at which hundreds of windows take seconds, in the mode of the case."""
    return Shape(
        batch=batch, steps=steps, bank=256, state=64, grid=8, inner=4, filled=200, feedback=context.shape.feedback
    )


def _state(program: Program) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in program.state().items()}


def _within(what: str, error: float, bound: float) -> Checked:
    return Checked(
        passed=error <= bound, message=f"{what}: off by {error:.1e}, at most {bound:.0e}",
        numbers={what: Quantity(value=error)},
    )  # fmt: skip
