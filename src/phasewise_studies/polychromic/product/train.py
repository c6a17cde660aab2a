"""Fine-tune your own model on your own JSONL, stop, resume, evaluate, export.

    python -m phasewise_studies.polychromic.product.train run --model MODEL --data DATA.jsonl --out OUT --steps 100
    python -m phasewise_studies.polychromic.product.train run ...same command...       goes on where it stopped
    python -m phasewise_studies.polychromic.product.train evaluate --out OUT --data HELD.jsonl
    python -m phasewise_studies.polychromic.product.train export --out OUT --into FOLDER

Ctrl-C ends after the step at hand and saves. `OUT/log.jsonl` has one line a step, with
the seconds of each component, `OUT/checkpoint.pt` the adapters and the
optimizer, `OUT/options.json` what the run was started with.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.polychromic import trainer
from phasewise_studies.polychromic.model.diversity import diversity_closed
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.lora import ALPHA, RANK
from phasewise_studies.polychromic.model.optimizer import LEARNING_RATE, make_update
from phasewise_studies.polychromic.product.components import Components
from phasewise_studies.polychromic.product.evaluate import evaluate_run
from phasewise_studies.polychromic.product.export_run import export_run
from phasewise_studies.polychromic.product.open_model import open_run
from phasewise_studies.polychromic.product.run_folder import (
    LOG,
    remember,
    resume,
    save,
    write_options,
)
from phasewise_studies.polychromic.product.text_encoder import open_encoder
from phasewise_studies.polychromic.product.texts import choose_batch, make_batch, read_examples

# of the document's schedule
WARMUP_SHARE = 0.03


class Finite(click.FloatRange):
    """A number that is neither infinite nor nan, of which a range alone says nothing."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


@click.group()
def main() -> None:
    """LoRA fine-tuning with a semantic diversity that trains."""


@main.command()
@click.option(
    "--model",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Hugging Face model folder",
)
@click.option(
    "--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True, help="JSONL of examples"
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="folder of the run")
@click.option("--steps", type=click.IntRange(1), default=100, show_default=True, help="optimizer steps in all")
@click.option("--micro", type=click.IntRange(1), default=2, show_default=True, help="examples of one forward pass")
@click.option("--accumulate", type=click.IntRange(1), default=8, show_default=True, help="forward passes of one step")
@click.option("--replies", type=click.IntRange(2), default=3, show_default=True, help="sampled replies an example")
@click.option("--tokens", type=click.IntRange(1), default=100, show_default=True, help="most tokens of a reply")
@click.option("--length", type=click.IntRange(4), default=512, show_default=True, help="most tokens of an example")
@click.option(
    "--prompt",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="most tokens of a prompt that is replied to",
)
@click.option("--mode", type=click.Choice(("set_pg", "faithful")), default="set_pg", show_default=True)
@click.option("--weight", type=Finite(), default=trainer.LAMBDA, show_default=True, help="of the diversity")
@click.option("--rate", type=Finite(0), default=LEARNING_RATE, show_default=True, help="learning rate")
@click.option("--rank", type=click.IntRange(1), default=RANK, show_default=True, help="of the adapters")
@click.option("--alpha", type=Finite(), default=ALPHA, show_default=True)
@click.option(
    "--dropout",
    type=Finite(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="of the adapters' inputs; above 0 the plain layers learn, not the fused ones",
)
@click.option("--temperature", type=Finite(0, min_open=True), default=0.9, show_default=True)
@click.option("--top-p", type=Finite(0, 1), default=0.9, show_default=True)
@click.option("--encoder", default="minilm", show_default=True, help="minilm, own, or the folder of a BERT encoder")
@click.option(
    "--decode",
    type=click.Choice(("own", "library")),
    default="own",
    show_default=True,
    help="own: Llama, Mistral and Qwen3; library: any causal model",
)
@click.option(
    "--attention",
    type=click.Choice(("sdpa", "eager", "flash_attention_2")),
    default="sdpa",
    show_default=True,
    help="of transformers, with --decode library; flash_attention_2 needs flash-attn",
)
@click.option("--dtype", type=click.Choice(("auto", "float32", "bfloat16")), default="auto", show_default=True)
@click.option("--device", type=click.Choice(("auto", "cpu", "cuda")), default="auto", show_default=True)
@click.option(
    "--checkpointing",
    is_flag=True,
    help="compute layers again in the backward pass: less memory, about a third more time",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--save-every", type=click.IntRange(1), default=50, show_default=True, help="steps between checkpoints")
@report_errors
def run(**options: Any) -> None:
    """Train, or go on where the last run in OUT stopped."""
    train(options)


@main.command()
@click.option(
    "--out", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True, help="folder of the run"
)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), required=True, help="folder to write")
@report_errors
def export(out: Path, into: Path) -> None:
    """Write the merged model: safetensors, tokenizer, settings and generate.py; with --decode own a torch.export program too.

    The folder adapter/ in it holds the adapters alone, as PEFT reads them.
    """
    click.echo(f"wrote {', '.join(export_run(out, into))}")


@main.command()
@click.option(
    "--out", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True, help="folder of the run"
)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="JSONL that was held out",
)
@click.option("--device", type=click.Choice(("auto", "cpu", "cuda")), default="auto", show_default=True)
@report_errors
def evaluate(out: Path, data: Path, device: str) -> None:
    """Loss, diversity and samples on held-out examples, before and after the training; OUT/evaluation.json holds them."""
    evaluate_run(out, data, choose_device("" if device == "auto" else device), click.echo)


def train(options: dict[str, Any]) -> int:
    """Steps done in all."""
    out: Path = options["out"]
    out.mkdir(parents=True, exist_ok=True)
    device = choose_device("" if options["device"] == "auto" else options["device"])
    plain = remember(options, out, device)
    user, tokenizer = open_run(plain, device)
    data = read_examples(Path(plain["data"]), tokenizer, user.ends[0], plain["length"])
    embed = open_encoder(plain["encoder"], tokenizer, user, device)
    # which way an exported model is prompted
    write_options(plain | {"chat": data.chat}, out)
    examples = data.examples
    update = make_update(user.lora, flat=True, rate=options["rate"])
    done = resume(update, out, click.echo)
    clock = Components(device)
    watched = replace(update, step=clock.watch("update", update.step))
    parts = trainer.Parts(
        forward=user.forward, lora=user.lora, generate=clock.watch("generation", user.generate),
        embed=clock.watch("encoding", embed), diversity=clock.watch("diversity", diversity_closed), update=watched,
        micro=options["micro"], together=options["micro"] * options["accumulate"], mode=options["mode"], weight=options["weight"],
        ends=user.ends,
    )  # fmt: skip
    micro_step = None
    stop = _watch_interrupt()
    click.echo(f"{len(examples)} examples, from step {done}, {user.note}")
    if data.cut:
        click.echo(f"{data.cut} examples are longer than --length {options['length']} and were cut")
    if done >= options["steps"]:
        click.echo(f"nothing to do: {done} steps are done and --steps is {options['steps']}; give more to go on.")
    for step in range(done, options["steps"]):
        started = time.perf_counter()
        update.set_rate(schedule(step, options["steps"], options["rate"]))
        chosen = choose_batch(len(examples), options["micro"] * options["accumulate"], step, options["seed"])
        batch = make_batch(
            [examples[index] for index in chosen], step, options["seed"], replies=options["replies"], tokens=options["tokens"],
            prompt_length=options["prompt"], length=options["length"],
        )  # fmt: skip
        placed = {name: tensor.to(device) for name, tensor in batch.items()}
        if micro_step is None:
            micro_step = clock.watch("learning", _choose_micro_step(parts, options["replies"], placed))
        # dropout too is the same after a resume
        torch.manual_seed(options["seed"] * 1_000_003 + step)
        result = trainer.train_step(parts, micro_step, placed)
        line = {"step": step, "loss": float(result["loss"]), "quality": float(result["quality"])}
        line |= {"diversity": float(result["diversity"].mean()), "seconds": time.perf_counter() - started}
        line["components"] = clock.take()
        if not math.isfinite(line["loss"]) or not bool(user.lora.flat.isfinite().all()):
            raise UserError(
                f"step {step}: the loss is {line['loss']} and the adapters are lost; they are not saved, the last checkpoint stays. "
                "Use a smaller --rate in another --out."
            )
        with (out / LOG).open("a") as log:
            log.write(json.dumps(line) + "\n")
        done = step + 1
        if done % options["save_every"] == 0 or done == options["steps"] or stop():
            save(update, done, out)
            click.echo(f"step {done}: loss {line['loss']:.4f}, diversity {line['diversity']:.4f}, saved")
        if stop():
            click.echo("stopped; the same command goes on from here")
            break
    return done


def _choose_micro_step(
    parts: trainer.Parts, replies: int, batch: dict[str, torch.Tensor]
) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    """As a CUDA graph where the fused layers learn: all batches have the shape of the first."""
    if not isinstance(parts.forward, Forward) or parts.forward.joined is None:
        return trainer.make_micro_step(parts, replies)
    micro_step, reason = trainer.capture_micro_step(parts, replies, batch)
    if reason:
        click.echo(f"a micro-step runs without a CUDA graph: {reason}")
    return micro_step


def schedule(step: int, steps: int, rate: float) -> float:
    """Linear warm-up over 3 % of the steps, then half a cosine."""
    warmup = max(1, round(WARMUP_SHARE * steps))
    if step < warmup:
        return rate * (step + 1) / warmup
    return rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def _watch_interrupt() -> Any:
    """A function that says whether Ctrl-C was pressed; a second one ends at once."""
    pressed: list[int] = []

    def note(number: int, _: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, note)
    return lambda: bool(pressed)


if __name__ == "__main__":
    main()
