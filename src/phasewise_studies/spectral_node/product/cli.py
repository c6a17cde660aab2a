"""Train on your own spectra, predict spectra at other concentrations, judge that, export it: the commands of the README."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.spectral_node.data import REAL, normalise
from phasewise_studies.spectral_node.product import run_folder
from phasewise_studies.spectral_node.product.export import FORMS, export_run
from phasewise_studies.spectral_node.product.fit import Settings
from phasewise_studies.spectral_node.product.leave_one_out import WAYS, leave_out
from phasewise_studies.spectral_node.product.spectrum import Spectrum
from phasewise_studies.spectral_node.product.train import train as train_run
from phasewise_studies.spectral_node.spectra_file import SpectraFile, read_spectra, write_spectra

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


class Rate(click.FloatRange):
    """A finite number above 0."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


def _learning(command: Any) -> Any:
    """The options that decide a training."""
    for option in reversed(
        (
            click.option("--every", type=click.IntRange(1), default=1, show_default=True, help="keep each so many-th channel"),
            click.option("--epochs", type=click.IntRange(1), default=500, show_default=True, help="in all"),
            click.option("--widths", type=(click.IntRange(1), click.IntRange(1)), default=Settings().widths, show_default=True,
                         help="hidden units of the metric"),
            click.option("--metric-rate", type=Rate(), default=Settings().metric_rate, show_default=True, help="learning rate of the metric"),
            click.option("--flow-rate", type=Rate(), default=Settings().flow_rate, show_default=True, help="learning rate of the flow"),
            click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True),
            click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:<number>"),
        )
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def main() -> None:
    """Spectra between concentrations, by geodesics of a learnt metric."""


@main.command()
@click.argument("file", type=FILE)
@report_errors
def example(file: Path) -> None:
    """Write the shipped glucose spectra to FILE, as an example of the form."""
    if file.exists():
        raise UserError(f"{file}: it is there already; give a new name")
    if not file.absolute().parent.is_dir():
        raise UserError(f"{file}: there is no such folder; make it first")
    file.write_text(REAL.read_text(encoding="utf-8"), encoding="utf-8")
    click.echo(f"wrote {file}")


@main.command()
@click.argument("data", type=FILE)
@click.option("--out", type=FOLDER, required=True, help="folder of the training")
@_learning
@click.option("--save-every", type=click.IntRange(1), default=50, show_default=True, help="epochs between checkpoints")
@report_errors
def train(data: Path, out: Path, **options: Any) -> None:
    """Train on the spectra of DATA, or go on where the last training in OUT stopped."""
    spectra = _open(data, options["every"])
    plain = run_folder.describe_options(data, {**options, "widths": list(options["widths"])})
    device = _choose(options["device"])
    click.echo(f"{_tell(spectra)}, on {device}")
    train_run(spectra, out, plain, _settings(options), device=device, say=click.echo)


@main.command()
@click.argument("run", type=FOLDER)
@click.argument("concentrations", type=float, nargs=-1, required=True)
@click.option("--out", type=FILE, required=True, help="CSV to write, in the form of the training's data")
@report_errors
def predict(run: Path, concentrations: tuple[float, ...], out: Path) -> None:
    """Write spectra at CONCENTRATIONS, in the unit of the data, by the training in RUN."""
    checkpoint = run_folder.load(run)
    known = checkpoint.spectra
    low, high = float(known.concentrations[0]), float(known.concentrations[-1])
    for value in concentrations:
        if not low <= value <= high:
            raise UserError(
                f"{known.quantity} {value:g}: it was trained from {low:g} to {high:g}; give one between them"
            )
    wanted = torch.tensor(concentrations, dtype=torch.float64)
    with torch.no_grad():
        found = Spectrum(checkpoint.networks(), normalise(known), dtype=torch.float64)(wanted)
    write_spectra(out, replace(known, concentrations=wanted, absorbance=found))
    click.echo(
        f"wrote {len(wanted)} spectra of {found.shape[1]} channels to {out}, after {len(checkpoint.losses)} epochs"
    )


@main.command()
@click.argument("data", type=FILE)
@_learning
@report_errors
def evaluate(data: Path, **options: Any) -> None:
    """Leave each concentration of DATA out once: the model that never saw it, a straight line and a spline through the others."""
    spectra = _open(data, options["every"])
    device = _choose(options["device"])
    normal = normalise(spectra)
    click.echo(
        f"{_tell(spectra)}, on {device}: a training for each; mean squared errors in variances of all absorbances"
    )
    click.echo(f"{spectra.quantity:>16} " + " ".join(f"{way:>9}" for way in WAYS))
    errors = []
    for left in leave_out(normal, _settings(options), epochs=options["epochs"], device=device):
        found = left.errors(normal.table[left.index])
        level = f"{float(spectra.concentrations[left.index]):g}"
        ends = "" if left.within else "  beyond the others"
        click.echo(f"{level:>16} " + " ".join(f"{found[way]:9.4f}" for way in WAYS) + ends)
        if left.within:
            errors.append(found)
    means = {way: sum(found[way] for found in errors) / len(errors) for way in WAYS}
    click.echo(f"{'mean between':>16} " + " ".join(f"{means[way]:9.4f}" for way in WAYS))
    for rival in WAYS[1:]:
        won = sum(found["model"] < found[rival] for found in errors)
        verdict = "beats" if means["model"] < means[rival] else "does not beat"
        click.echo(
            f"between known concentrations the model {verdict} the {rival} in the mean; it is nearer at {won} of {len(errors)}"
        )


@main.command()
@click.argument("run", type=FOLDER)
@click.option("--into", type=FOLDER, required=True, help="folder to write; a folder for each form")
@click.option(
    "--form", "forms", type=click.Choice(FORMS), multiple=True, default=FORMS, help="one or more; all by default"
)
@report_errors
def export(run: Path, into: Path, forms: tuple[str, ...]) -> None:
    """Write the networks trained in RUN, each form with its script, a manifest and example inputs."""
    for line in export_run(run_folder.load(run), into, forms):
        click.echo(line)


def _open(data: Path, every: int) -> SpectraFile:
    spectra = read_spectra(data)
    if len(spectra.channels) <= every:
        raise UserError(
            f"--every {every}: {data} has {len(spectra.channels)} channels, and two or more must be left; give less"
        )
    return spectra.thin(every)


def _tell(spectra: SpectraFile) -> str:
    again = f" ({spectra.repeats} of equal concentration averaged)" if spectra.repeats else ""
    return f"{len(spectra.concentrations)} concentrations{again}, {len(spectra.channels)} channels"


def _settings(options: dict[str, Any]) -> Settings:
    return Settings(
        widths=tuple(options["widths"]),
        metric_rate=options["metric_rate"],
        flow_rate=options["flow_rate"],
        seed=options["seed"],
    )


def _choose(device: str) -> torch.device:
    return choose_device("" if device == "auto" else device)


if __name__ == "__main__":
    main()
