"""What must hold of the language model, whatever computed it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import distributed

from phasewise import Chart, CheckContext, Checked, Quantity, Series
from phasewise.kit.ranks import Rank
from phasewise_studies.resnet_bk import data, program
from phasewise_studies.resnet_bk.checks import layers
from phasewise_studies.resnet_bk.checks.runs import (
    STEPS,
    curve_shape,
    inference_model,
    reference_parameters,
    run_out_once,
    train,
    train_curve,
)
from phasewise_studies.resnet_bk.inference import Forward, Streaming
from phasewise_studies.resnet_bk.reference import parameters_in
from phasewise_studies.resnet_bk.switches import Switches
from phasewise_studies.resnet_bk.train import make_training, place_rows

# losses are compared as means over this many steps at the end
TAIL = 40
# nats by which the end of a curve may lie off float32's: seeds of the data differ by more
CURVE_SLACK = 0.05
RESUME_STEPS = 5
# of what later logits change by: a kernel's order of operations may depend on all of a row, which moves float32's last digit;
# the bidirectional model moves its earlier logits by a tenth of that and more
ROUNDING = 1e-4


def loss_curve(context: CheckContext) -> Checked:
    """200 steps end where those of the float32 baseline end."""
    shape = curve_shape(context)
    curves = {"this variant": train_curve(context, context.switches, shape)}
    # the baseline's own curve is not run a second time
    same = context.switches == Switches()
    curves["float32 baseline"] = curves["this variant"] if same else train_curve(context, Switches(), shape)
    now, base = (sum(curve[-TAIL:]) / TAIL for curve in curves.values())
    apart = max(abs(one - other) for one, other in zip(*curves.values(), strict=True))
    return Checked(
        passed=math.isfinite(now) and abs(now - base) <= CURVE_SLACK,
        message=f"after {STEPS} steps the loss is {now:.4f}, float32's {base:.4f}; at most {apart:.4f} apart on the way",
        numbers={
            "loss": Quantity(value=now, unit="nats"),
            "off float32": Quantity(value=abs(now - base), unit="nats"),
            "largest gap": Quantity(value=apart, unit="nats"),
        },
        chart=Chart(
            title="Loss over 200 steps", x_title="step", y_title="nats a token",
            series=tuple(Series(label=label, x=tuple(map(float, range(STEPS))), y=tuple(curve)) for label, curve in curves.items()),
        ),
    )  # fmt: skip


def losses_fall(context: CheckContext) -> Checked:
    """Bits per byte of text fall over 200 steps."""
    shape = curve_shape(context)
    curve = train_curve(context, context.switches, shape)
    scale = 1 / math.log(2) / data.bytes_per_token(shape.vocabulary)
    first, last = curve[0] * scale, sum(curve[-TAIL:]) / TAIL * scale
    return Checked(
        passed=last < 0.9 * first,
        message=f"{first:.3f} bits a byte at the start, {last:.3f} after {STEPS} steps",
        numbers={"first": Quantity(value=first, unit="bit/B"), "last": Quantity(value=last, unit="bit/B")},
    )


def ranks_agree(context: CheckContext) -> Checked:
    """200 steps on all ranks leave the same parameters on each, and end where those of one rank end."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return Checked(passed=False, message="there is no process group: one process alone has nobody to agree with")
    shape = curve_shape(context)
    together, trained = train(context, context.switches, shape)
    alone = train_curve(context, replace(context.switches, ranks=1), shape)
    assert trained.state is not None, "a training program has a state"
    # names with a slash are moments and gradients
    lowest = torch.cat([tensor.flatten() for name, tensor in trained.state().items() if "/" not in name])
    highest = lowest.clone()
    distributed.all_reduce(lowest, op=distributed.ReduceOp.MIN)
    distributed.all_reduce(highest, op=distributed.ReduceOp.MAX)
    apart = float((highest - lowest).abs().max())
    now, one = (sum(curve[-TAIL:]) / TAIL for curve in (together, alone))
    return Checked(
        # a step moves a parameter by up to 1e-3
        passed=apart <= 1e-6 and math.isfinite(now) and abs(now - one) <= CURVE_SLACK,
        message=f"after {STEPS} steps the parameters of the ranks are at most {apart:.1e} apart, the loss is {now:.4f}, one rank's {one:.4f}",
        numbers={
            "parameters apart": Quantity(value=apart),
            "off one rank": Quantity(value=abs(now - one), unit="nats"),
        },
    )


def parameters_follow(context: CheckContext) -> Checked:
    """After three steps the parameters have moved as the float64 reference's have, in the L2 norm over all of them.

    Elementwise they can't be held: where a gradient is rounding noise AdamW moves a parameter by lr in the noise's direction.
    """
    batches = [context.inputs(seed) for seed in range(3)]
    variant, reference = context.build(), reference_parameters(context, batches)
    start = parameters_in(batches[0])
    for batch in batches:
        context.run(variant, batch)
    assert variant.state is not None, "a training program has a state"
    found = variant.state()
    gap, way = 0.0, 0.0
    for name, end in reference.items():
        gap += float((found[name].double().cpu() - end).square().sum())
        way += float((end - start[name]).square().sum())
    share = math.sqrt(gap / way)
    # half precision turns the sign of small gradients; a missing or doubled step would be off by a third or more
    allowed = 0.3 if context.switches.precision != "float32" else 0.02
    return Checked(
        passed=share <= allowed,
        message=f"the parameters end {100 * share:.2f} % of the way off",
        numbers={"off the way": Quantity(value=share)},
    )


def future(context: CheckContext) -> Checked:
    """A later token changes earlier logits if, and only if, the model is the bidirectional one."""
    batch = context.inputs(5)
    tokens = batch["tokens"][:2].to(context.device)
    model = inference_model(context)
    other = tokens.clone()
    half = tokens.shape[1] // 2
    other[:, half:] = (other[:, half:] + 1) % context.shape.vocabulary
    with torch.no_grad():
        change = (model.logits(tokens) - model.logits(other)).abs()
    before, after = float(change[:, :half].max()), float(change[:, half:].max())
    leak = before / after
    causal = bool(context.shape.causal)
    return Checked(
        passed=(leak <= ROUNDING) == causal,
        message=f"earlier logits change by {before:.2g} at most with the text's second half, later ones by {after:.2g}; "
        f"this model is {'causal' if causal else 'bidirectional, as documented'}",
        numbers={"leak": Quantity(value=leak)},
    )


def same_losses_after_resume(context: CheckContext) -> Checked:
    """Five steps after a checkpoint was written and read, a fresh program has the losses of the one that went on."""
    batches = [context.inputs(seed) for seed in range(RESUME_STEPS)]
    steady = context.build()
    for batch in batches:
        context.run(steady, batch)
    assert steady.state is not None, "a training program has a state"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save(dict(steady.state()), path)
        saved = torch.load(path, weights_only=True)
    resumed = context.build()
    assert resumed.load is not None, "a training program can be loaded"
    resumed.load(saved)
    pairs = [(float(context.run(p, batch)["loss"]) for p in (steady, resumed)) for batch in batches]
    apart = max(abs(one - other) for one, other in pairs)
    # atomic additions into the embedding's gradient come in another order each time
    return Checked(
        passed=apart <= 1e-4, message=f"losses are at most {apart:.1e} apart", numbers={"apart": Quantity(value=apart)}
    )


def overflow_is_counted(context: CheckContext) -> Checked:
    """A scale that is too large costs steps that are counted and not taken; the scale falls until gradients are finite."""
    batch = context.inputs(0)
    fresh = context.build()
    assert fresh.state is not None and fresh.load is not None, "a training program has a state"
    state = {name: tensor.clone() for name, tensor in fresh.state().items()}
    # float32 reaches 3.4e38; float16 gradients of a loss times this do not exist
    state["scaler/scale"] = torch.tensor(2.0**40, dtype=torch.float64)
    fresh.load(state)
    before = fresh.state()["head.weight"].clone()
    context.run(fresh, batch)
    after = fresh.state()
    counted, scale = int(after["scaler/overflows"]), float(after["scaler/scale"])
    untouched = torch.equal(after["head.weight"], before)
    return Checked(
        passed=counted == 1 and scale == 2.0**39 and untouched,
        message=f"{counted} overflow counted, the scale fell to 2^{math.log2(scale):.0f}, parameters {'stayed' if untouched else 'moved'}",
        numbers={"overflows": Quantity(value=counted)},
    )


def halving(context: CheckContext) -> Checked:
    """The micro-batch that fits gives loss and gradient of the same micro-batch asked for; the tries are told."""
    batch = context.inputs(0)
    sizes = program.sizes_of(context.shape)
    example = place_rows(batch, Rank(), context.device)
    training = make_training(context.switches, parameters_in(batch), example, sizes, context.device)
    if context.device.type == "cpu":
        # the gate has no cap on a CPU
        run_out_once(training.model.head.weight)
    found = training.step(example)
    parts = context.shape.batch // training.fitted.rows
    asked = context.run(context.build(adapt=False, accumulate=max(1, parts)), batch)
    apart = max(abs(float(found[name]) - float(asked[name])) for name in ("loss", "grad_norm"))
    tries = ", ".join(
        f"{attempt.size} {'failed' if attempt.error else 'fitted'}" for attempt in training.fitted.history
    )
    return Checked(
        passed=apart <= 1e-4 and training.fitted.rows >= 1,
        message=f"rows a micro-batch: {tries}; loss and gradient's norm are at most {apart:.1e} apart",
        numbers={"rows": Quantity(value=training.fitted.rows), "tries": Quantity(value=len(training.fitted.history))},
    )


def streaming_matches(context: CheckContext) -> Checked:
    """A text decoded token by token from nothing has the logits of the full pass at every position."""
    batch = context.inputs(7)
    tokens = batch["tokens"].to(context.device)
    model = inference_model(context)
    stream, features_now = Streaming(model), torch.zeros(context.shape.layers, len(tokens), 2, device=context.device)
    worst = 0.0
    with torch.no_grad():
        full = Forward(model)(tokens)
        for index in range(tokens.shape[1]):
            out = stream(tokens[:, index], torch.tensor([index], device=context.device), features_now)
            features_now = out["features"]
            worst = max(worst, float((out["logits"] - full[:, index]).abs().max()))
    return layers.within("logits", worst, 1e-4)


def core_gradient(context: CheckContext) -> Checked:
    """dL/da of the core against float64 autograd."""
    return layers.core_gradient(context)


def routing(context: CheckContext) -> Checked:
    """The wide network gives each token what its expert alone gives."""
    return layers.routing(context)


def fused_loss(context: CheckContext) -> Checked:
    """Loss and gradients of the fused head against float64."""
    return layers.fused_loss(context)


def padding(context: CheckContext) -> Checked:
    """Classes that do not exist change nothing and learn nothing."""
    return layers.padding(context)
