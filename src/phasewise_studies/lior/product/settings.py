"""The trainer as a user configures it: the document's names and presets, progress lines, timing, and a loop over windows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise.records.errors import UserError
from phasewise_studies.lior.product.trainer import Trainer, open_trainer
from phasewise_studies.lior.switches import Switches
from phasewise_studies.lior.window import Sizes

log = logging.getLogger("phasewise.lior")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The document's configuration. `cudnn_benchmark` is not here: there is no convolution for cuDNN to choose for."""

    # steps between progress lines; 0 = none
    step_progress_every: int = 0
    # wait after each window and log its milliseconds
    timing_debug: bool = False
    use_cudagraphs: bool = False
    # promises that every batch has capture_batch_size tokens
    static_shapes: bool = False
    capture_batch_size: int = 0
    # windows that run eagerly before the capture
    warmup_steps: int = 3
    symmetric_nudging: bool = False


DEVELOPMENT = TrainConfig(step_progress_every=8)
PRODUCTION = TrainConfig(use_cudagraphs=True, static_shapes=True, capture_batch_size=32, warmup_steps=10)
PROFILING = TrainConfig(timing_debug=True)


@dataclass(frozen=True)
class WindowReport:
    """One window: its report on the device, and its milliseconds where they were asked for."""

    index: int
    report: dict[str, Tensor]
    milliseconds: float | None = None


def check_config(config: TrainConfig, sizes: Sizes) -> None:
    """Raise UserError where the document's constraints on graphs don't hold."""
    if config.use_cudagraphs and not config.static_shapes:
        raise UserError(
            "use_cudagraphs=True needs static_shapes=True: a graph replays the shapes it was captured with."
        )
    if config.use_cudagraphs and config.capture_batch_size != sizes.batch:
        raise UserError(
            f"capture_batch_size is {config.capture_batch_size}, the batches have {sizes.batch} tokens: they must be equal; "
            f"set capture_batch_size={sizes.batch}."
        )
    if config.use_cudagraphs and config.step_progress_every:
        raise UserError(
            f"step_progress_every is {config.step_progress_every} with use_cudagraphs=True: a replay can't stop to print; "
            "set it to 0."
        )
    if config.use_cudagraphs and config.warmup_steps < 1:
        raise UserError(f"warmup_steps is {config.warmup_steps}: at least 1 window has to run before a capture.")


def choose_switches(config: TrainConfig, sizes: Sizes, device: torch.device) -> Switches:
    """Every improvement that suits the configuration; progress lines need the eager window."""
    quick = Switches(
        metrics="window", progress_every=0, rotor_update="vectorised", fused_lior=True, retrieval="product",
        in_place=True, cleanup="adaptive", cached_rotation=True, graph=config.use_cudagraphs,
    )  # fmt: skip
    if config.step_progress_every:
        return replace(quick, metrics="item", progress_every=config.step_progress_every)
    engine = "lockstep" if sizes.feedback else "time-parallel"
    if not has_kernel(device):
        return quick
    # to compile takes a minute, which many replays pay back
    return replace(
        quick, engine=engine, mix="split", compiled_ends=config.use_cudagraphs,
        overlap=sizes.feedback and config.use_cudagraphs and is_hopper(device),
    )  # fmt: skip


def is_hopper(device: torch.device) -> bool:
    """Whether kernels may overlap here: compute capability 9.0 or newer."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def open_configured(
    config: TrainConfig, inputs: Mapping[str, Tensor], sizes: Sizes, device: torch.device, example: dict[str, Tensor]
) -> Trainer:
    """The trainer of a configuration; `example` is a placed batch."""
    sizes = replace(sizes, symmetric=config.symmetric_nudging)
    check_config(config, sizes)
    switches = choose_switches(config, sizes, device)
    return open_trainer(switches, inputs, sizes, device, example=example, warmup=config.warmup_steps)


def train(
    config: TrainConfig,
    trainer: Trainer,
    batches: Iterable[dict[str, Tensor]],
    *,
    first: int = 0,
    now: Callable[[], float] = time.perf_counter,
) -> Iterator[WindowReport]:
    """Run a window for each placed batch, counted from `first`. Without `timing_debug` nothing here waits for the device."""
    for index, batch in enumerate(batches, first):
        tokens = len(batch["tokens"])
        if config.static_shapes and tokens != config.capture_batch_size:
            raise UserError(
                f"batch {index} has {tokens} tokens, static_shapes=True promised {config.capture_batch_size}: "
                "drop the last, smaller batch or set static_shapes=False."
            )
        started = now() if config.timing_debug else 0.0
        report = trainer.run(batch)
        elapsed = None
        if config.timing_debug:
            if batch["tokens"].is_cuda:
                torch.cuda.synchronize(batch["tokens"].device)
            elapsed = 1e3 * (now() - started)
            log.info("[TIMING] window %d: %.3f ms", index, elapsed)
        for step, lior, curvature, speed in trainer.progress:
            log.info("window %d step %d: LIoR %.5f R %.5f spd %.5f", index, step, lior, curvature, speed)
        trainer.progress.clear()
        yield WindowReport(index, report, elapsed)
