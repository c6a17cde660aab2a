"""How well and how fast it learns: concentrations left out, against a line and a spline; 500 epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise import Chart, CheckContext, Checked, Quantity, Series
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.product.fit import Settings, fit
from phasewise_studies.spectral_node.product.leave_one_out import leave_out, predict_spectra
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
    count, waves = context.shape.levels, data.wavelengths(context.shape.wavelengths)
    levels = data.levels(count)
    table = data.synthetic_table(count, len(waves), torch.Generator().manual_seed(1))
    truth = data.absorbance(levels[:, None], waves)
    epochs = MANY_EPOCHS if context.device.type == "cuda" else FEW_EPOCHS
    left = tuple(
        leave_out(
            data.Spectra(levels, waves, table, -1.0, 1.0, 0.0, 1.0), _settings(context), epochs=epochs,
            device=context.device, switches=_switches(context),
        )
    )  # fmt: skip
    guesses = {
        label: torch.stack([one.predicted[way] for one in left])
        for label, way in (("", "model"), ("straight line", "line"), ("spline", "spline"))
    }
    within = torch.tensor([one.within for one in left])
    compared = _compare("synthetic", guesses, truth, list(left[-1].losses), epochs, within)
    each = {
        f"MSE, {_label('synthetic', way)}, {level:.0f} ppb": Quantity(value=float((guess - exact).square().mean()))
        for way, found in guesses.items()
        for level, guess, exact in zip(data.LEVELS_PPB, found, truth, strict=False)
    }
    return replace(compared, numbers={**compared.numbers, **each})


def _label(name: str, way: str) -> str:
    return f"{name}, {way}" if way else name


def judge_measured(context: CheckContext) -> Checked:
    """Six of the 21 measured spectra are known, the other 15 are predicted."""
    spectra = data.load_real()
    if context.device.type == "cpu":
        # every 24th channel
        spectra = replace(spectra, wavelengths=spectra.wavelengths[::24], table=spectra.table[:, ::24])
    table = spectra.table
    chosen = torch.linspace(0, len(table) - 1, 6).round().long()
    rest = torch.tensor([k for k in range(len(table)) if k not in chosen.tolist()])
    known = replace(spectra, levels=spectra.levels[chosen], table=table[chosen])
    epochs = MANY_EPOCHS if context.device.type == "cuda" else FEW_EPOCHS
    parameters, losses = fit(
        known.levels, known.wavelengths, known.table, _settings(context), epochs=epochs, device=context.device,
        switches=_switches(context),
    )  # fmt: skip
    wanted = spectra.levels[rest]
    guesses = {
        "": predict_spectra(parameters, known, wanted),
        "straight line": data.interpolate_linear(known.levels, known.table, wanted),
        "spline": data.interpolate_spline(known.levels, known.table, wanted),
    }
    # the known ones hold both ends
    return _compare("measured", guesses, table[rest], losses, epochs, torch.ones(len(rest), dtype=torch.bool))


def _settings(context: CheckContext) -> Settings:
    return Settings(widths=(context.shape.first, context.shape.second))


def tell_verdicts(guesses: Mapping[str, Tensor], truth: Tensor, within: Tensor) -> str:
    """Whether the straight line and the spline through known spectra are beaten: between known concentrations, and beyond them.

    Spectra are (S, W), the model's under ""; within (S,) is True where known concentrations lie on both sides. The two are
    different tasks, and errors beyond the ends are so large that they would decide a common verdict alone.
    """
    told = []
    for where, rows in (("between known concentrations", within), ("beyond them", ~within)):
        if rows.any():
            errors = {way: score(found[rows], truth[rows]).mse for way, found in guesses.items()}
            verdicts = ", ".join(
                f"{'beats' if errors[''] < error else 'does not beat'} the {way} ({error:.3g})"
                for way, error in errors.items()
                if way
            )
            told.append(f"{where} it {verdicts} with MSE {errors['']:.3g}")
    return "; ".join(told)


def _compare(
    name: str, guesses: Mapping[str, Tensor], truth: Tensor, losses: list[float], epochs: int, within: Tensor
) -> Checked:
    """Scores of all ways, a chart of one spectrum in the middle, and whether the rivals are beaten."""
    scores = {way: score(found, truth) for way, found in guesses.items()}
    numbers = {}
    for way, found in scores.items():
        label = _label(name, way)
        numbers |= {
            f"MSE, {label}": Quantity(value=found.mse),
            f"MAE, {label}": Quantity(value=found.mae),
            f"R2, {label}": Quantity(value=found.r2),
            f"spectral angle, {label}": Quantity(value=found.angle, unit="rad"),
        }
    few = "" if epochs == MANY_EPOCHS else f" ({MANY_EPOCHS} on a GPU)"
    middle = len(truth) // 2
    channel = tuple(float(i) for i in range(truth.shape[1]))
    drawn = {"left out": truth, **{way or "predicted": found for way, found in guesses.items()}}
    lines = tuple(Series(label=label, x=channel, y=tuple(table[middle].tolist())) for label, table in drawn.items())
    return Checked(
        # not a contest: training has to have learnt, and to give spectra
        passed=losses[-1] < losses[0] and bool(guesses[""].isfinite().all()),
        message=(
            f"after {epochs} epochs{few} {tell_verdicts(guesses, truth, within)}; over all, R2 {scores[''].r2:.3f} "
            f"against {scores['straight line'].r2:.3f} of the line"
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
