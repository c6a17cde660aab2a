"""A language model of your own text: train, resume, generate, export.

    python -m phasewise_studies.resnet_bk.product.language train TEXT --out RUN     the same command goes on where it stopped
    python -m phasewise_studies.resnet_bk.product.language generate RUN --prompt "def "
    python -m phasewise_studies.resnet_bk.product.language export RUN --into FOLDER

notes/own-text.md says what is in RUN and in FOLDER.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import click

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.resnet_bk.data import BYTES
from phasewise_studies.resnet_bk.product import corpus, run_folder

# AOTInductor needs a C++ compiler besides
EXPORTS = ("torch-export", "onnx", "aotinductor")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
SIZE = click.IntRange(1)
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


class Finite(click.FloatRange):
    """A number that is neither infinite nor nan, of which a range alone says nothing."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


@click.group(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
def commands() -> None:
    """A language model of your own text: train, resume, generate, export."""


@commands.command()
@click.argument("text", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="folder of the run")
@click.option("--steps", type=SIZE, default=1000, help="steps in all")
@click.option("--save-every", type=SIZE, default=100, help="steps between checkpoints")
@click.option("--vocabulary", type=click.IntRange(BYTES + 8), default=30_000, help="most bytes and words together")
@click.option("--width", type=SIZE, default=64)
@click.option("--layers", type=SIZE, default=4)
@click.option("--length", type=click.IntRange(2), default=128, help="tokens of a window")
@click.option("--batch", type=SIZE, default=128, help="windows of a step")
@click.option("--accumulate", type=SIZE, default=1, help="micro-batches of a step")
@click.option(
    "--held-out", type=Finite(0, 1, min_open=True, max_open=True), default=0.05, help="share of the text, its end"
)
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="auto", help="auto: bfloat16 on a GPU, else float32"
)
@click.option("--compile", "compiled", is_flag=True, help="torch.compile what comes before the head")
@click.option("--device", default="", help="cpu, cuda, cuda:<number>; by default the GPU where there is one")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0)
def train(text: Path, out: Path, steps: int, save_every: int, compiled: bool, device: str, **options: Any) -> None:
    """Train the causal model on TEXT, or go on where the last run in --out stopped."""
    from phasewise_studies.resnet_bk.product.fit import fit

    if options["batch"] % options["accumulate"]:
        raise UserError(
            f"--batch {options['batch']} can't be cut into --accumulate {options['accumulate']} equal parts; use a multiple"
        )
    place = choose_device(device)
    if options["precision"] == "auto":
        begun = (out / run_folder.SETTINGS).exists()
        chosen = "bfloat16" if place.type == "cuda" else "float32"
        # a run that goes on elsewhere does not choose again
        options["precision"] = run_folder.read_settings(out).precision if begun else chosen
    own = corpus.read_text(text, options["held_out"])
    words = corpus.choose_words(own, options.pop("vocabulary"))
    settings = run_folder.Settings(text_sha256=own.sha256, vocabulary=BYTES + len(words), **options)
    tokens = corpus.make_corpus(own, words, settings.length, place)
    run_folder.open_run(out, settings, words)
    fit(out, settings, tokens, steps=steps, save_every=save_every, compiled=compiled, say=click.echo)


@commands.command()
@click.argument("run", type=FOLDER)
@click.option("--prompt", required=True)
@click.option("--tokens", type=SIZE, default=100, help="tokens after the prompt")
@click.option("--temperature", type=Finite(0), default=0.8, help="0: always the likeliest token")
@click.option("--top-k", type=click.IntRange(0), default=0, help="draw among that many tokens, 0: among all")
@click.option("--device", default="", help="cpu, cuda, cuda:<number>; by default the GPU where there is one")
@click.option("--seed", type=click.IntRange(0), default=0)
def generate(run: Path, prompt: str, device: str, **options: Any) -> None:
    """Print the prompt and how the model of RUN goes on."""
    from phasewise_studies.resnet_bk.product import generate as decoding

    if not prompt:
        raise UserError("--prompt is empty; give at least one character to go on from")

    def tell(sentence: str) -> None:
        click.echo(sentence, err=True)

    click.echo(prompt + decoding.generate(run, prompt, device=choose_device(device), say=tell, **options))


@commands.command()
@click.argument("run", type=FOLDER)
@click.option("--into", type=click.Path(path_type=Path), help="new folder; by default RUN/exports")
@click.option("--target", "targets", type=click.Choice(EXPORTS), multiple=True, default=EXPORTS[:2])
def export(run: Path, into: Path | None, targets: tuple[str, ...]) -> None:
    """Write the trained model of RUN as folders that run without this project."""
    from phasewise_studies.resnet_bk.product import export as exporting

    exporting.export(run, into or run / "exports", tuple(dict.fromkeys(targets)), click.echo)


@report_errors
def main() -> None:
    """Run the command; every mistake in it is one sentence."""
    if importlib.util.find_spec("safetensors") is None:
        raise UserError("checkpoints need the package safetensors; pip install safetensors")
    try:
        commands(standalone_mode=False)
    except click.ClickException as error:
        raise UserError(" ".join(error.format_message().split())) from error
    except click.Abort:
        sys.exit(130)


if __name__ == "__main__":
    main()
