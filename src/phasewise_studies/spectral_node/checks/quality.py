"""How well and how fast it learns: concentrations left out, against a straight line between their neighbours; 500 epochs."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise import Chart, CheckContext, Checked, Quantity, Series
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.product.fit import fit, predict_spectra
from phasewise_studies.spectral_node.switches import Switches

# the user's document; one step here is all of its transitions
EPOCHS = 500
# for the predictions: ten times the document's, which the fused step affords
MANY_EPOCHS = 5000
# on a CPU, as much as a check may cost
FEW_EPOCHS = 40
# parts in which both numbers are timed
BLOCKS = 10


@dataclass(frozen=True)
class Scores:
    """Errors of predicted spectra."""

    mse: float
    mae: float
    r2: float
    # radians, mean over spectra
    angle: float


def score(found: Tensor, exact: Tensor) -> Scores:
    """Scores over (spectra, wavelengths); R2 against each wavelength's mean over the spectra."""
    gap = found - exact
    spread = (exact - exact.mean(0)).square().sum()
    cosine = torch.cosine_similarity(found, exact, dim=-1).clamp(-1, 1)
    r2 = 1 - gap.square().sum() / spread
    return Scores(float(gap.square().mean()), float(gap.abs().mean()), float(r2), float(torch.arccos(cosine).mean()))


def _switches(context: CheckContext) -> Switches:
    """This variant's gradients, without what does not change them."""
    gradient = context.switches.gradient if context.switches.gradient in ("closed", "fused") else "closed"
    is_cuda = context.device.type == "cuda"
    return Switches(gradient=gradient, fused_adam=is_cuda, graph=is_cuda)


def judge_synthetic(context: CheckContext) -> Checked:
    """Six (or fewer) models, each without one concentration of the synthetic table, which it then predicts."""
    generator = torch.Generator().manual_seed(1)
    table = data.synthetic_table(context.shape.levels, context.shape.wavelengths, generator)
    levels = data.levels(context.shape.levels)
    truth = data.absorbance(levels[:, None], data.wavelengths(context.shape.wavelengths))
    return _judge(context, "synthetic", levels, table, truth, list(range(context.shape.levels)))


def judge_measured(context: CheckContext) -> Checked:
    """Six of the 21 measured spectra are known, the other 15 are predicted."""
    spectra = data.load_real()
    table = spectra.table
    if context.device.type == "cpu":
        # every 24th channel
        table = table[:, ::24]
    known = torch.linspace(0, len(table) - 1, 6).round().long()
    rest = torch.tensor([k for k in range(len(table)) if k not in known.tolist()])
    epochs = MANY_EPOCHS if context.device.type == "cuda" else FEW_EPOCHS
    parameters, losses = fit(
        spectra.levels[known],
        table[known],
        _switches(context),
        widths=_widths(context),
        epochs=epochs,
        device=context.device,
    )
    found = predict_spectra(parameters, spectra.levels[known], table[known], spectra.levels[rest])
    line = data.interpolate_linear(spectra.levels[known], table[known], spectra.levels[rest])
    # the known ones hold both ends
    return _compare("measured", found, line, table[rest], losses, epochs, torch.ones(len(rest), dtype=torch.bool))


def _judge(
    context: CheckContext, name: str, levels: Tensor, table: Tensor, truth: Tensor, left_out: list[int]
) -> Checked:
    epochs = MANY_EPOCHS if context.device.type == "cuda" else FEW_EPOCHS
    found, line, losses = [], [], []
    for k in left_out:
        kept = torch.tensor([i for i in range(len(levels)) if i != k])
        parameters, losses = fit(
            levels[kept], table[kept], _switches(context), widths=_widths(context), epochs=epochs, device=context.device
        )
        found.append(predict_spectra(parameters, levels[kept], table[kept], levels[k : k + 1])[0])
        line.append(data.interpolate_linear(levels[kept], table[kept], levels[k : k + 1])[0])
    known = data.LEVELS_PPB[: len(levels)]
    within = torch.tensor([0 < k < len(levels) - 1 for k in left_out])
    compared = _compare(name, torch.stack(found), torch.stack(line), truth[left_out], losses, epochs, within)
    each = {
        f"MSE, {way}, {known[k]:.0f} ppb": Quantity(value=float((guess - truth[k]).square().mean()))
        for way, guesses in ((name, found), (f"{name}, straight line", line))
        for k, guess in zip(left_out, guesses, strict=True)
    }
    return replace(compared, numbers={**compared.numbers, **each})


def _widths(context: CheckContext) -> tuple[int, int]:
    return context.shape.first, context.shape.second


def tell_verdicts(found: Tensor, line: Tensor, truth: Tensor, within: Tensor) -> str:
    """Whether the straight line through known spectra is beaten: between known concentrations, and beyond them.

    Spectra are (S, W); within (S,) is True where known concentrations lie on both sides. The two are different tasks, and
    errors beyond the ends are so large that they would decide a common verdict alone.
    """
    told = []
    for where, way, rows in (
        ("between known concentrations", "interpolation", within),
        ("beyond them", "extrapolation", ~within),
    ):
        if rows.any():
            mine, straight = score(found[rows], truth[rows]).mse, score(line[rows], truth[rows]).mse
            verdict = "beats" if mine < straight else "does not beat"
            told.append(f"{where} it {verdict} linear {way}: MSE {mine:.3g} against {straight:.3g}")
    return "; ".join(told)


def _compare(
    name: str, found: Tensor, line: Tensor, truth: Tensor, losses: list[float], epochs: int, within: Tensor
) -> Checked:
    """Scores of both ways, a chart of one spectrum in the middle, and whether the straight line is beaten."""
    mine, straight = score(found, truth), score(line, truth)
    numbers = {}
    for label, scores in ((name, mine), (f"{name}, straight line", straight)):
        numbers |= {
            f"MSE, {label}": Quantity(value=scores.mse),
            f"MAE, {label}": Quantity(value=scores.mae),
            f"R2, {label}": Quantity(value=scores.r2),
            f"spectral angle, {label}": Quantity(value=scores.angle, unit="rad"),
        }
    few = "" if epochs == MANY_EPOCHS else f" ({MANY_EPOCHS} on a GPU)"
    middle = len(truth) // 2
    channel = tuple(float(i) for i in range(truth.shape[1]))
    drawn = (("left out", truth), ("predicted", found), ("straight line", line))
    lines = tuple(Series(label=label, x=channel, y=tuple(table[middle].tolist())) for label, table in drawn)
    return Checked(
        # not a contest: training has to have learnt, and to give spectra
        passed=losses[-1] < losses[0] and bool(found.isfinite().all()),
        message=(
            f"after {epochs} epochs{few} {tell_verdicts(found, line, truth, within)}; over all, R2 {mine.r2:.3f} "
            f"against {straight.r2:.3f}"
        ),
        numbers=numbers,
        chart=Chart(
            title=f"A spectrum that was left out ({name})", x_title="channel", y_title="absorbance", series=lines
        ),
    )


def time_epochs(context: CheckContext) -> Checked:
    """Wall time of 500 steps over all transitions with this variant's program, and its loss.

    The steps are timed in blocks, each ended by a synchronisation: the bounds are what 500 take at the pace of the fastest
    block and of the slowest.
    """
    program = context.build()
    batch = context.inputs(0)
    epochs = EPOCHS if context.device.type == "cuda" else FEW_EPOCHS
    placed = program.place(batch)
    context.run(program, batch)
    losses, blocks = [], []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for _ in range(epochs // BLOCKS):
            losses.append(program.step(placed)["loss"].clone())
        if context.device.type == "cuda":
            torch.cuda.synchronize()
        blocks.append((time.perf_counter() - start) * BLOCKS * EPOCHS / epochs)
    seconds = sum(blocks) / BLOCKS
    values = torch.stack(losses).tolist()
    line = Series(label="loss", x=tuple(map(float, range(epochs))), y=tuple(values))
    return Checked(
        passed=values[-1] < values[0],
        message=f"500 epochs take {seconds:.3g} s" + ("" if epochs == EPOCHS else f", by {epochs} of them"),
        numbers={
            "seconds of 500 epochs": Quantity(value=seconds, unit="s", low=min(blocks), high=max(blocks)),
            "last loss": Quantity(value=values[-1]),
        },
        chart=Chart(title="Training", x_title="epoch", y_title="loss", series=(line,), log_y=True),
    )
