"""The document's troubleshooting as what the command finds out itself: is the graph there, is it faster, are the numbers right."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

import torch
from torch import Tensor

from phasewise import Shape
from phasewise.records.errors import UserError
from phasewise_studies.lior.checks import measure_drift
from phasewise_studies.lior.product.trainer import Trainer
from phasewise_studies.lior.reference import reference
from phasewise_studies.lior.window import Sizes

log = logging.getLogger("phasewise.lior")

# windows of each of three rounds
TIMED = 3
# of the largest entry, or of one: the document's bound
CLOSE = 1e-4

Batch = dict[str, Tensor]


def tell_capture(trainer: Trainer, sizes: Sizes, warmup: int, device: torch.device) -> bool:
    """Say whether the window is a graph, and what may help if it is not; True if it is one."""
    failed = [reason for reason in trainer.fallbacks if reason.startswith("cuda-graph")]
    if not failed:
        log.info("[CUDAGRAPH] Captured after %d warm-up windows, for batches of %d tokens", warmup, sizes.batch)
        return True
    if device.type == "cuda":
        log.warning(
            "[CUDAGRAPH] Try --warmup_steps 20 to 50; nothing in a window may wait for the device or change its shape"
        )
    return False


def compare_speed(
    graph: Trainer, eager: Trainer, batch: Batch, now: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """Milliseconds a window with the graph and without, the least of three rounds; states are as they were."""
    times = {}
    for name, trainer in (("graph", graph), ("eager", eager)):
        saved = {field: tensor.clone() for field, tensor in trainer.window.state().items()}
        trainer.run(batch)
        times[name] = min(_time(trainer, batch, now) for _ in range(3))
        trainer.window.load(saved)
    return times["graph"], times["eager"]


def _time(trainer: Trainer, batch: Batch, now: Callable[[], float]) -> float:
    _wait(batch)
    started = now()
    for _ in range(TIMED):
        trainer.run(batch)
    _wait(batch)
    return 1e3 * (now() - started) / TIMED


def _wait(batch: Batch) -> None:
    if batch["tokens"].is_cuda:
        torch.cuda.synchronize(batch["tokens"].device)


def tell_speed(with_graph: float, without: float, batch: int) -> None:
    """Say both times, and warn where the graph is the slower one."""
    log.info("[CUDAGRAPH] %.3f ms a window, %.3f ms without a graph", with_graph, without)
    if with_graph > without:
        log.warning(
            "[CUDAGRAPH] Slower with the graph: leave --use_cudagraphs out, or take batches of more than %d tokens; if another process "
            "uses this GPU, look again without it",
            batch,
        )


def verify(trainer: Trainer, start: Mapping[str, Tensor], batches: list[Batch], sizes: Sizes) -> None:
    """Run the batches here and in float64 plain loops from the same start, and say how far they are apart; the state is as it was.

    :raises UserError: a curve is off by more than 1e-4
    """
    exact = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in start.items()}
    shape = Shape(**asdict(sizes))
    plain = reference(exact, "own", shape)
    saved = {name: tensor.clone() for name, tensor in trainer.window.state().items()}
    ours, theirs = [], []
    for batch in batches:
        report = trainer.run(batch)
        ours.append(_join(report, trainer.window.state()))
        report = plain.step({name: tensor.cpu().double() for name, tensor in batch.items()})
        theirs.append(_join(report, plain.state()))
    trainer.window.load(saved)
    trainer.progress.clear()
    drift = measure_drift(torch.stack(ours), torch.stack(theirs), sizes.phases)
    told = ", ".join(f"{name} off by {value:.1e}" for name, value in drift.items())
    # a NaN is over every bound
    if not all(value <= CLOSE for value in drift.values()):
        raise UserError(
            f"--verify: {told} in {len(batches)} windows against float64, and at most {CLOSE:.0e} is allowed; train without "
            "--use_cudagraphs, and bring tokens, targets and values to a size near 1."
        )
    log.info("[VERIFY] %s in %d windows against plain loops in float64", told, len(batches))


def _join(report: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> Tensor:
    parts = [report[name] for name in ("lior", "curvature", "speed")] + [state[name] for name in ("metric", "theta")]
    return torch.cat([part.detach().cpu().double() for part in parts])
