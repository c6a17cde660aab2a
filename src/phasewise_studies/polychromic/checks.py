"""What must hold of any right trainer: its texts, its gradients, its embeddings, and a diversity that really rises."""

from __future__ import annotations

import importlib.util
import time
from contextlib import suppress
from dataclasses import replace
from statistics import fmean, median

import torch
from torch import Tensor
from torch.nn import functional

from phasewise import Chart, CheckContext, Checked, Quantity, Series
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.gradients import exact_gradient, run_hundred_steps, step_once
from phasewise_studies.polychromic.model import diversity
from phasewise_studies.polychromic.model.encoder import encode, encode_each
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.replies import generate_growing
from phasewise_studies.polychromic.model.sampling import GREEDY, Sampling, nucleus_floor
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.model.weights import TINY, draw_weights
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.teacher_forcing import SHAPE, log_probability_errors
from phasewise_studies.polychromic.variants.diversity import choose_diversity
from phasewise_studies.polychromic.variants.generation import make_generator

# the document's own tolerance of a diversity
DIVERSITY = 1e-4
# of embeddings in float32, polychromic specification section 3.A
EMBEDDING = 2e-4
COSINE = 0.999
# nats. In bfloat16 the specification wants 2e-2 at most and 1e-3 on average. The first is less than bfloat16 has: transformers'
# own pass is off by 0.13 at most and 0.025 (rms) on the tiny model. So the error is held to that of a plain bfloat16 pass
FLOAT32_ERROR, TIMES_PLAIN, SHIFT = 1e-3, 1.25, 1e-3
DRAWS = 100_000
SMALL = Sizes(prompts=2, replies=3, prompt_length=12, tokens=10)
# steps at either end of a curve, and nats by which a loss may differ and still hold: its texts alone move it by 0.1
WINDOW, HOLDS = 20, 0.1
# optimizer steps of the document's training
DOCUMENT_STEPS = 556


def greedy_as_plain(context: CheckContext) -> Checked:
    """In float32 the greedy tokens of this variant are those of the plain loop, one reply after another."""
    weights = draw_weights(TINY).to(context.device, torch.float32)
    batch = _small_batch(context.device)
    generator = make_generator(replace(context.switches, half=False), weights, None, SMALL, GREEDY)
    with torch.no_grad():
        found = generator.generate(*batch).tokens_RT
        wanted = generate_growing(Forward(weights=weights), *batch, GREEDY, 1).tokens_RT
    same = int((found == wanted).sum())
    return Checked(
        passed=same == wanted.numel(),
        message=f"{same} of {wanted.numel()} tokens are the same",
        numbers={"greedy tokens that differ": Quantity(value=wanted.numel() - same)},
    )


def as_the_library(context: CheckContext) -> Checked:
    """Greedy tokens in float32 against `generate` of transformers, on the same random model."""
    if importlib.util.find_spec("transformers") is None:
        return Checked(passed=True, message="not compared: transformers is not installed")
    from phasewise_studies.polychromic.model.hugging_face import generate_greedy, make_library_model

    weights = draw_weights(TINY)
    model = make_library_model(weights).to(context.device)
    prompts, lengths, uniforms = _small_batch(context.device)
    generator = make_generator(
        replace(context.switches, half=False), weights.to(context.device, torch.float32), None, SMALL, GREEDY
    )
    with torch.no_grad():
        found = generator.generate(prompts, lengths, uniforms).tokens_RT[:: SMALL.replies]
    wanted = generate_greedy(model, prompts, lengths, SMALL.tokens)
    same = int((found == wanted).sum())
    return Checked(
        passed=same == wanted.numel(), message=f"{same} of {wanted.numel()} tokens are those of transformers"
    )


def log_probabilities(context: CheckContext) -> Checked:
    """What the decode loop says of its own tokens' log-probabilities, in float32 and in bfloat16, against one pass in float64."""
    exact = log_probability_errors(replace(context.switches, half=False), context.device)
    worst = float(exact.own.abs().max())
    numbers = {"log-probability error, float32": Quantity(value=worst)}
    if not context.switches.half:
        return Checked(passed=worst <= FLOAT32_ERROR, message=f"largest error {worst:.1e}", numbers=numbers)
    half = log_probability_errors(context.switches, context.device)
    own, plain = (float(errors.square().mean().sqrt()) for errors in (half.own, half.plain))
    shift = float(half.own.mean())
    return Checked(
        passed=worst <= FLOAT32_ERROR
        and own <= TIMES_PLAIN * plain
        and abs(shift) <= SHIFT + 4 * own / len(half.own) ** 0.5,
        message=f"largest error in float32 {worst:.1e}; in bfloat16 {own:.4f} (rms; one plain pass over the same tokens "
        f"{plain:.4f}), {shift:+.5f} on average over {len(half.own)} tokens",
        numbers=numbers
        | {
            "log-probability error, bfloat16, rms": Quantity(value=own),
            "log-probability error, plain bfloat16, rms": Quantity(value=plain),
            "log-probability error, bfloat16, mean": Quantity(value=shift),
        },
    )


def sampled_frequencies(context: CheckContext) -> Checked:
    """Chi-square of 100,000 tokens, sampled as this variant does, against the nucleus of one distribution."""
    generator = torch.Generator().manual_seed(5)
    logits = 2 * torch.randn(SHAPE.vocabulary, generator=generator)
    uniforms = torch.rand(DRAWS, generator=generator, dtype=torch.float64)
    sampling = Sampling()
    rows = logits.to(context.device).expand(DRAWS, -1).contiguous()
    tokens, _ = sample_as(context.switches, rows, uniforms.to(context.device), sampling)
    p = (logits.double() / sampling.temperature).softmax(-1)
    kept = p * (p >= nucleus_floor(p, sampling.top_p))
    expected = DRAWS * kept / kept.sum()
    counts = torch.bincount(tokens.cpu(), minlength=len(p)).double()
    outside = float(counts[kept == 0].sum())
    # the usual rule: cells of fewer than five expected are put together
    rare = (expected < 5) & (kept > 0)
    cells = [*zip(counts[~rare & (kept > 0)].tolist(), expected[~rare & (kept > 0)].tolist(), strict=True)]
    if bool(rare.any()):
        cells.append((float(counts[rare].sum()), float(expected[rare].sum())))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    # the upper tail of chi-square with k degrees of freedom is Q(k / 2, x / 2); scipy.stats takes seconds to import
    halves = torch.tensor([(len(cells) - 1) / 2, statistic / 2], dtype=torch.float64)
    probability = float(torch.special.gammaincc(*halves))
    return Checked(
        passed=probability > 1e-4 and outside == 0,
        message=f"chi-square {statistic:.1f} over {len(cells)} cells, p = {probability:.3f}",
        numbers={"p of chi-square": Quantity(value=probability), "tokens outside the nucleus": Quantity(value=outside)},
    )


def sample_as(switches: Switches, logits_RV: Tensor, uniforms_R: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """`sampling.sample` by raw CUDA where this variant decodes by it, else by what PyTorch and Triton have."""
    from phasewise_studies.polychromic.kernels import decode_cuda
    from phasewise_studies.polychromic.kernels.cuda_library import NotBuilt
    from phasewise_studies.polychromic.kernels.sampler_triton import sample_on_device

    if switches.fused_decode and logits_RV.is_cuda:
        capability = torch.cuda.get_device_capability(logits_RV.device)
        # without a compiler the loop falls back too
        with suppress(NotBuilt):
            if decode_cuda.can_sample(capability, SHAPE.vocabulary):
                return decode_cuda.sample(logits_RV, uniforms_R, sampling, SHAPE)
    return sample_on_device(logits_RV, uniforms_R, sampling)


def lora_gradients(context: CheckContext) -> Checked:
    """The direction of the adapters' gradient against float64, for the program's own replies."""
    program, batch = context.build(), context.inputs(11)
    assert program.place is not None and program.state is not None, "a learning program has both"
    raw = step_once(program, batch)
    found = program.state()["grad/lora"].double()
    exact = exact_gradient(context.shape, raw, context.switches.mode)
    cosine = float(functional.cosine_similarity(found, exact.to(found.device), dim=0))
    return Checked(
        passed=cosine >= COSINE,
        message=f"cosine {cosine:.6f}",
        numbers={"cosine of LoRA gradients": Quantity(value=cosine)},
    )


def gradient_of_diversity(context: CheckContext) -> Checked:
    """How much of the gradient is the diversity's: nothing at all under `faithful`."""
    program, batch = context.build(), context.inputs(11)
    assert program.place is not None, "a learning program has it"
    raw = step_once(program, batch)
    whole = exact_gradient(context.shape, raw, context.switches.mode)
    alone = exact_gradient(context.shape, raw, "faithful")
    share = float((whole - alone).norm() / alone.norm())
    expected = share == 0 if context.switches.mode == "faithful" else share > 0
    return Checked(
        passed=expected,
        message=f"the diversity's gradient is {share:.2e} of the loss's",
        numbers={"gradient of diversity over that of the loss": Quantity(value=share)},
    )


def diversity_trains(context: CheckContext) -> Checked:
    """100 steps on a small model and its own texts: under set_pg the diversity rises while the loss holds, under faithful it stays.

    Both modes meet the same texts and uniform numbers, and begin where `faithful` stands in its first steps.
    """
    curves = {}
    for mode in ("set_pg", "faithful"):
        curves[mode] = run_hundred_steps(replace(context.switches, half=False, mode=mode), context.device)
    first = fmean(curves["faithful"]["diversity"][:WINDOW])
    risen = {mode: fmean(curve["diversity"][-WINDOW:]) - first for mode, curve in curves.items()}
    cost = fmean(curves["set_pg"]["quality"][-WINDOW:]) - fmean(curves["faithful"]["quality"][-WINDOW:])
    steps = tuple(map(float, range(len(curves["set_pg"]["diversity"]))))
    return Checked(
        passed=risen["set_pg"] > 0.1 and risen["set_pg"] > 3 * abs(risen["faithful"]) and abs(cost) < HOLDS,
        message=f"diversity changes by {risen['set_pg']:+.3f} under set_pg, by {risen['faithful']:+.3f} under faithful; "
        f"the loss ends {cost:+.3f} nats from that under faithful",
        numbers={f"diversity gained, {mode}": Quantity(value=value) for mode, value in risen.items()},
        chart=Chart(
            title="Diversity over 100 steps", x_title="step", y_title="diversity",
            series=tuple(Series(label=mode, x=steps, y=tuple(curve["diversity"])) for mode, curve in curves.items()),
        ),
    )  # fmt: skip


def embeddings_apart(context: CheckContext) -> Checked:
    """In float32 a text's vector is the same alone in float64, whatever it is batched with."""
    weights, _ = data.load_encoder(context.shape.encoder)
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(3, weights.shape.vocabulary, (6, 20), generator=generator).to(context.device)
    lengths = torch.tensor([20, 3, 7, 20, 12, 2], device=context.device)
    found = encode(weights.to(context.device, torch.float32), tokens, lengths, sdpa=context.switches.sdpa)
    exact = encode_each(weights.to(context.device, torch.float64), tokens, lengths)
    error = float((found - exact).abs().max())
    return Checked(
        passed=error <= EMBEDDING,
        message=f"largest error {error:.1e}",
        numbers={"embedding error": Quantity(value=error)},
    )


def pairs_agree(context: CheckContext) -> Checked:
    """Against all pairs in float64 at the document's (10, 384) and others; 0 for equal texts, within [0, 1] for vectors in one orthant."""
    compute, _ = choose_diversity(context.switches, context.device)
    worst, generator = 0.0, torch.Generator().manual_seed(7)
    for groups, n, width in ((1, 10, 384), (3, 2, 384), (5, 3, 100), (2, 64, 384), (7, 1, 8)):
        e = functional.normalize(torch.randn(groups, n, width, generator=generator, dtype=torch.float64), dim=-1)
        found = compute(e.float().to(context.device))
        exact = diversity.diversity_broadcast(e) if n > 1 else diversity.diversity_closed(e)
        worst = max(worst, *(float((a.cpu().double() - b).abs().max()) for a, b in zip(found, exact, strict=True)))
    equal = functional.normalize(torch.randn(1, 1, 384, generator=generator), dim=-1).expand(4, 5, 384).contiguous()
    same = float(compute(equal.to(context.device))[0].abs().max())
    positive = functional.normalize(torch.rand(64, 5, 384, generator=generator), dim=-1)
    score = compute(positive.to(context.device))[0]
    inside = bool(((score >= -DIVERSITY) & (score <= 1 + DIVERSITY)).all())
    return Checked(
        passed=worst <= DIVERSITY and same <= DIVERSITY and inside,
        message=f"largest error {worst:.1e}; {same:.1e} for equal texts",
        numbers={"diversity error": Quantity(value=worst)},
    )


def document_hours(context: CheckContext) -> Checked:
    """Hours of the document's 556 optimizer steps, EXTRAPOLATED from the seconds of one step of this variant."""
    program, batch = context.build(), context.inputs(0)
    assert program.place is not None, "a learning program has it"
    seconds = []
    for _ in range(4):
        _wait(context.device)
        start = time.perf_counter()
        program.step(program.place(batch))
        _wait(context.device)
        seconds.append(time.perf_counter() - start)
    hours = median(seconds[1:]) / context.shape.steps * DOCUMENT_STEPS / 3600
    return Checked(
        passed=True,
        message=f"{hours:.3f} h for {DOCUMENT_STEPS} steps, extrapolated from one step of {context.shape.model} in bfloat16; "
        "the document's 12 h are of Qwen3-8B in NF4 on a GPU that it does not name",
        numbers={"hours for 556 steps, extrapolated": Quantity(value=hours, unit="h")},
    )


def _small_batch(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(9)
    prompts = torch.randint(3, TINY.vocabulary, (SMALL.prompts, SMALL.prompt_length), generator=generator)
    uniforms = torch.rand(SMALL.rows, SMALL.tokens, generator=generator)
    return prompts.to(device), torch.tensor([12, 7], device=device), uniforms.to(device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
