"""Train on own data: python -m phasewise_studies.lior.product.train DATA --out RUN

DATA is a .safetensors, .npz, .pt or .pth file of tokens (N, 8), targets (N, 8) and values (N, d). RUN gets run.json, curves.jsonl (a line
a window) and checkpoint.safetensors. Ctrl-C ends after the window in hand; the same command goes on from there, bit for bit.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError, report_errors
from phasewise_studies.lior.product import advice
from phasewise_studies.lior.product.dataset import Dataset, read_dataset
from phasewise_studies.lior.product.files import Parser, hash_file, log_to_stdout
from phasewise_studies.lior.product.options import add_config, read_config
from phasewise_studies.lior.product.run_folder import (
    CHECKPOINT,
    Curves,
    open_run,
    read_checkpoint,
    save,
)
from phasewise_studies.lior.product.settings import TrainConfig, check_config, open_configured, train
from phasewise_studies.lior.product.start import make_start
from phasewise_studies.lior.product.trainer import Trainer
from phasewise_studies.lior.window import METRIC_LEAST, METRIC_MOST, Sizes

log = logging.getLogger("phasewise.lior")

BATCH_SIZE = 8
# a shell's code for a process that Ctrl-C ended
STOPPED = 130


@dataclass
class Wish:
    """Whether somebody wants the training to end; the only thing that a signal changes."""

    stop: bool = False


def make_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = Parser(prog="train", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder of this training")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument(
        "--batch_size", type=int, help=f"tokens of a window; default capture_batch_size, else {BATCH_SIZE}"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of rows")
    parser.add_argument("--bank", type=Path, help="a bank to begin with: coords (K, 8), states (K, d)")
    parser.add_argument("--start", type=Path, help="own field, rest, metric, theta, projection, lift; or a checkpoint")
    parser.add_argument(
        "--mode", choices=("feedback", "open"), default="feedback", help="whether retrieval drives the field"
    )
    parser.add_argument("--steps", type=int, default=64, help="steps of a phase")
    parser.add_argument("--bank_rows", type=int, default=2048)
    parser.add_argument("--grid", type=int, default=28, help="the field has grid x grid points")
    parser.add_argument("--inner", type=int, default=16, help="of inner x inner components")
    parser.add_argument("--save_every", type=int, default=100, help="windows between checkpoints")
    parser.add_argument("--log_every", type=int, default=10, help="windows between lines")
    parser.add_argument("--verify", type=int, default=0, help="windows to compare with float64 before training")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: cuda where there is one")
    add_config(parser)
    return parser


@report_errors
def main() -> None:
    """Entry point; exit code 0 when done, 2 on a mistake, 130 after Ctrl-C."""
    log_to_stdout()
    try:
        stopped = run(make_parser().parse_args())
    except KeyboardInterrupt:
        log.info("stopped at once; the same command goes on from the last checkpoint")
        stopped = True
    if stopped:
        sys.exit(STOPPED)


def run(options: argparse.Namespace) -> bool:
    """Train as the arguments say; True if it was stopped before its end."""
    config = read_config(options)
    sizes, data, device = read_all(options, config)
    form = {
        "data": hash_file(options.data),
        "bank": hash_file(options.bank) if options.bank else "",
        "start": hash_file(options.start) if options.start else "",
        "seed": options.seed,
        **asdict(sizes),
    }
    start = make_start(sizes, data.deal(0), options.start, options.bank)
    open_run(options.out, form)
    done, end = 0, options.epochs * data.windows
    if (options.out / CHECKPOINT).is_file():
        done, start = read_checkpoint(options.out)
    if done >= end:
        log.info("%s: %d of %d windows are done; more --epochs go on", options.out, done, end)
        return False
    log.info(
        "%s: windows %d to %d of %d, batches of %d, on %s", options.out, done, end - 1, end, sizes.batch, device.type
    )
    trainer = open_trainer(config, start, sizes, device, data, options.verify, done)
    return train_windows(options, config, trainer, start, data, done, end, device)


def read_all(options: argparse.Namespace, config: TrainConfig) -> tuple[Sizes, Dataset, torch.device]:
    """Sizes, data and device, with everything checked that can be before anything is written.

    :raises UserError: something doesn't fit
    """
    batch = options.batch_size if options.batch_size is not None else config.capture_batch_size or BATCH_SIZE
    counts = {
        name: getattr(options, name)
        for name in ("epochs", "steps", "bank_rows", "grid", "inner", "save_every", "log_every")
    }
    for name, value in {**counts, "batch_size": batch}.items():
        if value < 1:
            raise UserError(f"--{name} is {value}; it has to be 1 or more.")
    if options.verify < 0:
        raise UserError(f"--verify is {options.verify}; it has to be 0 or more.")
    if options.bank_rows < batch:
        raise UserError(
            f"--bank_rows is {options.bank_rows}, under a batch of {batch}; every token leaves a row: set {batch} or more."
        )
    if options.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device is cuda, and torch finds no NVIDIA GPU here; leave it out to train on the CPU.")
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    data = read_dataset(options.data, batch, options.seed)
    sizes = Sizes(
        batch=batch, steps=options.steps, bank=options.bank_rows, state=data.rows["values"].shape[1], grid=options.grid, inner=options.inner,
        filled=0, feedback=options.mode == "feedback", symmetric=config.symmetric_nudging,
    )  # fmt: skip
    check_config(config, sizes)
    return sizes, data, device


def open_trainer(
    config: TrainConfig,
    start: dict[str, Tensor],
    sizes: Sizes,
    device: torch.device,
    data: Dataset,
    verified: int,
    done: int,
) -> Trainer:
    """The trainer, with what the document's troubleshooting asks for said: captured, faster, right."""
    (example,) = data.place(done, done + 1, device)
    trainer = open_configured(config, start, sizes, device, example)
    if config.use_cudagraphs and advice.tell_capture(trainer, sizes, config.warmup_steps, device):
        eager = open_configured(replace(config, use_cudagraphs=False), start, sizes, device, example)
        advice.tell_speed(*advice.compare_speed(trainer, eager, example), sizes.batch)
    if verified:
        advice.verify(trainer, start, list(data.place(done, done + verified, device)), sizes)
    return trainer


def train_windows(
    options: argparse.Namespace, config: TrainConfig, trainer: Trainer, start: dict[str, Tensor], data: Dataset, done: int, end: int,
    device: torch.device, now: Callable[[], float] = time.perf_counter,
) -> bool:  # fmt: skip
    """Run windows `done` to `end`, with lines and checkpoints; True if it was stopped."""
    curves = Curves(options.out, data.windows)
    curves.cut(done)
    began, first = now(), done
    with listening() as wish:
        for window in train(config, trainer, data.place(done, end, device), first=done):
            curves.note(window)
            done = window.index + 1
            # asked once: a signal between here and the end of the loop is for the next window
            stop = wish.stop
            last = stop or done == end
            if last or done % options.log_every == 0:
                tell(curves.flush(), end, (done - first) / (now() - began))
            if last or done % options.save_every == 0:
                curves.flush()
                state = trainer.window.state()
                save(options.out, done, state, start)
                warn_of_bounds(state["metric"])
            if stop:
                break
    stopped = done < end
    log.info(
        "%s: %s",
        options.out,
        f"stopped after {done} of {end} windows; the same command goes on" if stopped else f"{end} windows done",
    )
    return stopped


@contextmanager
def listening() -> Iterator[Wish]:
    """Ctrl-C and SIGTERM become a wish that the window in hand ends first; a second Ctrl-C ends at once, with the last checkpoint kept."""
    wish = Wish()

    def hear(number: int, frame: object) -> None:
        wish.stop = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(line: dict[str, Any] | None, end: int, rate: float) -> None:
    """A line of the log: LIoR of each phase, R and spd of the free one."""
    if line is not None:
        lior = " ".join(f"{value:.5f}" for value in line["lior"])
        free = f"R {line['curvature'][0]:.5f} spd {line['speed'][0]:.5f}"
        log.info(
            "window %d of %d, epoch %d: LIoR %s %s, %.1f windows/s",
            line["window"],
            end,
            line["epoch"],
            lior,
            free,
            rate,
        )


def warn_of_bounds(metric: Tensor) -> None:
    """Say where the metric has stopped to learn."""
    stuck = int(((metric <= METRIC_LEAST) | (metric >= METRIC_MOST)).sum())
    if stuck > len(metric) // 2:
        log.warning(
            "%d of %d entries of the metric lie at a bound (%g, %g): targets pull too hard one way; bring them closer to the tokens",
            stuck, len(metric), METRIC_LEAST, METRIC_MOST,
        )  # fmt: skip


if __name__ == "__main__":
    main()
