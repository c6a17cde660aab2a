"""The training loop: the phases' own step over batches of the user's text, with checkpoints and the held-out loss."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from phasewise.kit.accumulate import count_rows, split
from phasewise.records.errors import UserError
from phasewise_studies.resnet_bk.model import draw_parameters
from phasewise_studies.resnet_bk.product import run_folder
from phasewise_studies.resnet_bk.product.corpus import Corpus, cut_held_out, draw_batch
from phasewise_studies.resnet_bk.product.run_folder import Settings
from phasewise_studies.resnet_bk.program import find_fallbacks
from phasewise_studies.resnet_bk.switches import Switches
from phasewise_studies.resnet_bk.train import Training, make_training


def choose_switches(settings: Settings, compiled: bool) -> Switches:
    """The stack of the case `causal`, one GPU; with float16, whose scaler reads values back, without the graph."""
    return Switches(
        core="fused",
        experts="wide",
        precision=settings.precision,
        fused_update=True,
        compiled=compiled,
        graph=settings.precision != "float16",
        accumulate=settings.accumulate,
    )


def fit(
    out: Path,
    settings: Settings,
    corpus: Corpus,
    *,
    steps: int,
    save_every: int,
    compiled: bool,
    say: Callable[[str], None],
) -> int:
    """Train to `steps` steps in all, from the checkpoint in `out` if there is one; the steps done.

    Ctrl-C ends after the step at hand, with a checkpoint.

    Raises:
        UserError: the loss is no longer finite, or memory ran out.
    """
    device = corpus.training.device
    switches = choose_switches(settings, compiled)
    drawn = draw_parameters(settings.sizes(), torch.Generator().manual_seed(settings.seed))
    interrupted = watch_interrupt()
    try:
        training = make_training(switches, drawn, draw_batch(corpus, settings, 0), settings.sizes(), device)
        for fallback in (*find_fallbacks(switches, device), *training.fallbacks):
            say(f"fallback: {fallback}")
        done = _resume(out, settings, training)
        say(f"{len(corpus.training)} tokens, {settings.vocabulary} of vocabulary, from step {done} on {device.type}")
        if done >= steps:
            say(f"nothing to do: {done} steps are done and --steps is {steps}; give more to go on")
        losses: list[Tensor] = []
        started = time.perf_counter()
        stop = interrupted()
        while done < steps and not stop:
            # a graph writes each loss to the same place
            losses.append(training.step(draw_batch(corpus, settings, done))["loss"].clone())
            done += 1
            stop = interrupted()
            if done % save_every == 0 or done == steps or stop:
                mean = float(torch.stack(losses).mean())
                speed = len(losses) * settings.batch * settings.length / (time.perf_counter() - started)
                _keep(out, training, corpus, settings, done, mean, speed, say)
                losses.clear()
                started = time.perf_counter()
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"--batch {settings.batch} ran out of memory; use a smaller one or --accumulate {2 * settings.accumulate} in another --out"
        ) from error
    if stop and done < steps:
        say("stopped; the same command goes on from here")
    return done


def measure_held_out(training: Training, corpus: Corpus, settings: Settings) -> float:
    """Mean loss in nats a token over the held-out windows, without dropout."""
    windows, model = cut_held_out(corpus, settings.length), training.model
    total = 0.0
    with torch.no_grad():
        for part in split(windows, settings.batch // settings.accumulate):
            with training.amp.autocast():
                x = model.body(part["tokens"], None)
                loss = model.loss(x.flatten(0, 1), model.head, part["targets"].flatten())
            total += float(loss) * count_rows(part)
    return total / count_rows(windows)


def watch_interrupt() -> Callable[[], bool]:
    """A function that says whether Ctrl-C was pressed; a second one ends at once."""
    pressed: list[int] = []

    def note(number: int, _: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, note)
    return lambda: bool(pressed)


def _resume(out: Path, settings: Settings, training: Training) -> int:
    if not (out / run_folder.CHECKPOINT).exists():
        return 0
    saved, done = run_folder.load(out)
    run_folder.check_shapes(saved, settings, out)
    training.state.load(saved)
    run_folder.cut_log(out, done)
    return done


def _keep(
    out: Path,
    training: Training,
    corpus: Corpus,
    settings: Settings,
    done: int,
    mean: float,
    tokens_per_s: float,
    say: Callable[[str], None],
) -> None:
    state: Mapping[str, Tensor] = training.state.read()
    held_out = measure_held_out(training, corpus, settings)
    if not (math.isfinite(mean) and math.isfinite(held_out)):
        raise UserError(
            f"step {done}: the mean loss is {mean} and the held-out loss {held_out}; nothing was saved, the last checkpoint stays: "
            "use --precision float32 or a larger --batch in another --out"
        )
    run_folder.save(out, state, done)
    bits = held_out / math.log(2) / corpus.bytes_per_token
    line = {"step": done, "loss": mean, "held_out": held_out, "held_out_bits_per_byte": bits}
    run_folder.append_log(out, {**line, "tokens_per_s": tokens_per_s, "overflows": training.amp.overflows})
    say(f"step {done}: loss {mean:.4f}, held-out loss {held_out:.4f} ({bits:.3f} bits a byte), saved")
