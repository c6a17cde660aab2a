"""From switches to a window that can be called: engine, graph with its fallback, progress lines, host copy, cleanup."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise.kit.graphs import capture
from phasewise.kit.kernels import has_kernel
from phasewise.model.workload import Unsupported
from phasewise_studies.lior import eager
from phasewise_studies.lior.state import Memory, load_state, place_memory, read_state
from phasewise_studies.lior.switches import Switches
from phasewise_studies.lior.window import Sizes, Window

log = logging.getLogger("phasewise.lior")

WARMUP = 3
# progress lines that are kept until somebody reads them
MOST_LINES = 1024
METRICS = ("lior", "curvature", "speed")


@dataclass(frozen=True)
class Trainer:
    """A trainer on its device. `run(batch)` is one window pair; everything else is there to look at it."""

    run: Callable[[dict[str, Tensor]], dict[str, Tensor]]
    window: Window
    # lines of (step, LIoR, curvature, speed) of the last windows, newest last
    progress: deque[tuple[int, float, float, float]]
    # (3, P): LIoR, curvature and speed of the last window, on the host once the device is done
    host: Tensor | None
    fallbacks: tuple[str, ...]


def copy_to_host(report: dict[str, Tensor], host: Tensor | None, history: Tensor | None) -> None:
    """The window's one copy: queued, not waited for. Progress lines, where wanted, are the second half of it."""
    if host is not None:
        host.copy_(torch.stack([report[name] for name in METRICS]), non_blocking=True)
    if history is not None and "history" in report:
        history.copy_(report["history"], non_blocking=True)


def open_trainer(
    switches: Switches,
    inputs: Mapping[str, Tensor],
    sizes: Sizes,
    device: torch.device,
    *,
    example: dict[str, Tensor] | None = None,
    warmup: int = WARMUP,
) -> Trainer:
    """The trainer that these switches describe. `example` is a placed batch to capture the graph with."""
    set_precision()
    memory = place_memory(inputs, device)
    window, fallbacks = choose_window(switches, memory, sizes, device)
    on_host, pinned = switches.metrics == "window", device.type == "cuda"
    lines = _count_lines(switches, sizes)
    host = torch.zeros(3, sizes.phases, pin_memory=pinned, dtype=memory.metric.dtype) if on_host else None
    history = torch.zeros(lines, 3, pin_memory=pinned) if on_host and lines else None
    progress: deque[tuple[int, float, float, float]] = deque(maxlen=MOST_LINES)

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        if switches.engine == "eager" or not has_kernel(device):
            report = eager.run_window(memory, batch, sizes, switches, note)
        else:
            report = window.run(batch)
        copy_to_host(report, host, history)
        return report

    def note(step: int, lior: float, curvature: float, speed: float) -> None:
        progress.append((step, lior, curvature, speed))
        log.debug("step %d: LIoR %.4f R %.4f spd %.4f", step, lior, curvature, speed)

    step = run
    if switches.graph:
        if switches.metrics == "item" or switches.rotor_update == "loops":
            raise Unsupported(
                "a captured window can't wait for the device: set metrics='window' and rotor_update='vectorised'"
            )
        assert example is not None, "a graph is captured from an example"
        step, reason = capture_window(run, window, example, warmup)
        if reason:
            fallbacks = (*fallbacks, f"cuda-graph: {reason}")
    # no function above holds the trainer: a cycle would keep a dropped one's memory until Python looks for cycles
    return Trainer(_with_cleanup(step, switches.cleanup, device), window, progress, host, fallbacks)


def choose_window(
    switches: Switches, memory: Memory, sizes: Sizes, device: torch.device
) -> tuple[Window, tuple[str, ...]]:
    """The window of the engine asked for, or the eager one and why."""
    if switches.engine != "eager" and (switches.engine == "time-parallel") == sizes.feedback:
        mode = "feedback" if sizes.feedback else "open"
        raise Unsupported(f"engine {switches.engine!r} does not run the {mode} mode")
    plain = Window(
        lambda batch: eager.run_window(memory, batch, sizes, switches),
        lambda: read_state(memory),
        lambda tensors: load_state(memory, tensors),
    )
    missing = list_missing(switches, device)
    if missing:
        return plain, missing
    if switches.engine == "eager" and (switches.overlap or switches.compiled_ends):
        raise Unsupported("overlap and compiled_ends belong to the fused engines, and this window is eager")
    if switches.engine == "eager":
        return plain, ()
    mix, compiled = switches.mix, switches.compiled_ends
    if switches.engine == "persistent":
        from phasewise_studies.lior.kernels.persistent import make_persistent_window

        return make_persistent_window(memory, sizes, mix=mix, compiled=compiled), ()
    if switches.engine == "time-parallel":
        from phasewise_studies.lior.kernels.time_parallel import make_time_parallel_window

        return make_time_parallel_window(memory, sizes, mix=mix, compiled=compiled), ()
    from phasewise_studies.lior.kernels.lockstep import make_lockstep_window

    return make_lockstep_window(memory, sizes, mix=mix, overlap=switches.overlap, compiled=compiled), ()


def list_missing(switches: Switches, device: torch.device) -> tuple[str, ...]:
    """What the switches ask of the kernels where there are none, and that the eager window answers instead."""
    if has_kernel(device):
        return ()
    asked = {
        switches.engine: switches.engine != "eager",
        "fused-retrieval": switches.retrieval == "triton",
        "sparse-bank": switches.bank == "bounded",
        "compiled-ends": switches.compiled_ends,
        "overlap": switches.overlap,
    }
    return tuple(f"{name}: no NVIDIA GPU, the eager window ran instead" for name, wanted in asked.items() if wanted)


def capture_window(
    run: Callable[[dict[str, Tensor]], dict[str, Tensor]], window: Window, example: dict[str, Tensor], warmup: int
) -> tuple[Callable[[dict[str, Tensor]], dict[str, Tensor]], str]:
    """The window as one graph, or as it is with the reason; the state is what it was before."""
    saved = {name: tensor.clone() for name, tensor in window.state().items()}
    captured = capture(run, example, warmup=warmup)
    window.load(saved)
    if captured.reason:
        log.warning("[CUDAGRAPH] Capture failed: %s", captured.reason)
        log.warning("[CUDAGRAPH] Falling back to eager mode")
    return captured.call, captured.reason


def set_precision() -> None:
    """Flags in both directions: float32 means float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def _count_lines(switches: Switches, sizes: Sizes) -> int:
    return sizes.phases * (sizes.steps // switches.progress_every) if switches.progress_every else 0


def is_cleanup_due(kind: str, windows: int, device: torch.device) -> bool:
    """Every tenth window, or every fiftieth and only if over 90 % of what is reserved is in use."""
    if device.type != "cuda":
        return False
    if kind == "every-10":
        return windows % 10 == 0
    if windows % 50:
        return False
    return torch.cuda.memory_allocated(device) > 0.9 * torch.cuda.memory_reserved(device)


def _with_cleanup(
    step: Callable[[dict[str, Tensor]], dict[str, Tensor]], kind: str, device: torch.device
) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """The document's two ways to empty the allocator's cache between windows."""
    windows = 0

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        nonlocal windows
        if windows and is_cleanup_due(kind, windows, device):
            torch.cuda.empty_cache()
        windows += 1
        return step(batch)

    return run
