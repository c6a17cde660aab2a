"""A training step put together from switches: forward and backward in parts, clip, AdamW; eager, captured, on one or several GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from phasewise import Program, Unsupported
from phasewise.kit.accumulate import accumulate, count_rows, split
from phasewise.kit.amp import AmpStep
from phasewise.kit.batches import Attempt, run_halving
from phasewise.kit.graphs import capture
from phasewise.kit.ranks import Rank, average, find_rank, shard, wrap
from phasewise.kit.regions import region
from phasewise_studies.resnet_bk.model import LanguageModel, Sizes, choose_ways, make_model
from phasewise_studies.resnet_bk.offload import CpuOptimizer, offload
from phasewise_studies.resnet_bk.reference import parameters_in
from phasewise_studies.resnet_bk.state import TrainingState, gather_state
from phasewise_studies.resnet_bk.switches import Switches

Batch = Mapping[str, Tensor]
# the document's optimizer
LEARNING_RATE, CLIP = 1e-3, 0.5
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# cuBLAS and Triton want 16 bytes, 8 numbers of half precision; 64 classes are also whole tiles of its kernels
CLASSES_MULTIPLE = 64


@dataclass
class Fitted:
    """The micro-batch that fits into memory, and every try that led to it; the only state that a step keeps beside training's."""

    rows: int
    history: list[Attempt] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Training:
    """A step over placed batches, and its state."""

    step: Callable[[Batch], dict[str, Tensor]]
    state: TrainingState
    model: LanguageModel
    amp: AmpStep
    fitted: Fitted
    rank: Rank
    fallbacks: tuple[str, ...] = ()


def build_training(
    switches: Switches, inputs: Batch, sizes: Sizes, device: torch.device, fallbacks: tuple[str, ...]
) -> Program:
    """The training step as the program of a variant; `fallbacks` are those found before."""
    rank = find_rank() if switches.ranks > 1 else Rank()
    example = place_rows(inputs, rank, device)
    training = make_training(switches, parameters_in(inputs), example, sizes, device)
    return Program(
        step=training.step,
        place=lambda batch: place_rows(batch, rank, device),
        load=training.state.load,
        state=training.state.read,
        fallbacks=(*fallbacks, *training.fallbacks),
        facts={} if switches.precision == "float32" else {"autocast": switches.precision},
    )


def make_training(
    switches: Switches, parameters: Batch, example: Batch, sizes: Sizes, device: torch.device
) -> Training:
    """The training program of these switches; `example` is a placed batch, which a capture runs and then takes back.

    Raises:
        Unsupported: the switches exclude each other.
    """
    _check(switches)
    model = make_model(sizes, choose_ways(switches), parameters, device)
    if switches.padded:
        from phasewise_studies.resnet_bk.padding import PaddedClasses

        model.head = PaddedClasses(model.head, CLASSES_MULTIPLE)
    if switches.compiled:
        model.run_body = torch.compile(model.body, fullgraph=True, dynamic=False)
    rank = find_rank() if switches.ranks > 1 else Rank()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = _make_optimizer(switches, trained)
    amp = AmpStep(optimizer, device=device, dtype=PRECISIONS[switches.precision], max_norm=CLIP, parameters=trained)
    fitted = Fitted(count_rows(example) // switches.accumulate)
    exchanging = rank.world > 1 and switches.graph
    # a program of one rank stays alone, even in a process that belongs to a group
    wrapped = wrap(model, gradient_as_bucket_view=True) if rank.world > 1 and not exchanging else model
    gradients = _make_gradients(switches, wrapped, amp, fitted, rank)
    state = gather_state(model, optimizer, amp)
    fallbacks: tuple[str, ...] = ()
    if not switches.graph:
        step = _join(gradients, amp, rank)
    else:
        initial = {name: tensor.clone() for name, tensor in state.read().items()}
        if exchanging:
            step, reason = _capture_ranks(gradients, amp, trained, example, rank)
        else:
            captured = capture(_join(gradients, amp, rank), dict(example))
            step, reason = captured.call, captured.reason
        state.load(initial)
        fallbacks = (f"cuda-graph: {reason}",) if reason else ()
    return Training(step=step, state=state, model=model, amp=amp, fitted=fitted, rank=rank, fallbacks=fallbacks)


def place_rows(batch: Batch, rank: Rank, device: torch.device) -> dict[str, Tensor]:
    """tokens, targets and keep on the device. Of several ranks each takes its own share of rows, as often as fills its batch.

    So every rank does the work of a whole batch, no two see the same rows, and the mean over ranks is that of the batch.
    """
    rows = {name: batch[name] for name in ("tokens", "targets", "keep")}
    if rank.world > 1:
        total = count_rows(rows)
        if total % rank.world:
            raise Unsupported(f"{total} rows can't be dealt evenly to {rank.world} ranks; use a batch divisible by it")
        rows = {name: torch.cat([share] * rank.world) for name, share in shard(rows, rank).items()}
    return {name: tensor.to(device, non_blocking=True) for name, tensor in rows.items()}


def _check(switches: Switches) -> None:
    if switches.experts == "loop" and (switches.graph or switches.compiled):
        raise Unsupported("the loop over experts has shapes that depend on values; a graph needs experts='wide'")
    if switches.graph and (switches.offload or switches.adapt or switches.precision == "float16"):
        raise Unsupported("offload, adapt and float16 read values back in a step; a graph can't hold that")


def _make_optimizer(switches: Switches, trained: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer | CpuOptimizer:
    if switches.offload:
        offloaded = offload(trained, torch.optim.AdamW, torchao=False, lr=LEARNING_RATE)
        assert isinstance(offloaded, CpuOptimizer), "torchao is left out"
        return offloaded
    captured = switches.graph and trained[0].is_cuda
    # None lets torch choose its multi-tensor form
    fused = switches.fused_update or None
    return torch.optim.AdamW(trained, lr=LEARNING_RATE, fused=fused, capturable=captured)


def _make_gradients(
    switches: Switches, model: torch.nn.Module, amp: AmpStep, fitted: Fitted, rank: Rank
) -> Callable[[Batch], Tensor]:
    """batch -> mean loss, with the gradients left in the parameters."""

    def loss(part: Batch) -> Tensor:
        with amp.autocast():
            return model(part["tokens"], part["targets"], part["keep"])

    def by_rows(batch: Batch, rows: int) -> Tensor:
        # a try that ran out of memory leaves gradients behind
        amp.optimizer.zero_grad(set_to_none=True)
        replicas = [model] if isinstance(model, torch.nn.parallel.DistributedDataParallel) else []
        return accumulate(split(batch, rows), loss, backward=amp.scale_backward, replicas=replicas)

    def gradients(batch: Batch) -> Tensor:
        if not switches.adapt:
            return by_rows(batch, fitted.rows)
        found = run_halving(lambda rows: by_rows(batch, rows), fitted.rows)
        if len(found.history) > 1 or not fitted.history:
            fitted.history.extend(found.history)
        fitted.rows = found.size
        return found.result

    return gradients


def _join(gradients: Callable[[Batch], Tensor], amp: AmpStep, rank: Rank) -> Callable[[Batch], dict[str, Tensor]]:
    def step(batch: Batch) -> dict[str, Tensor]:
        loss = gradients(batch)
        return _finish(amp, average({"loss": loss})["loss"] if rank.world > 1 else loss)

    return step


def _finish(amp: AmpStep, loss: Tensor) -> dict[str, Tensor]:
    with region("update"):
        amp.update()
    assert amp.norm is not None, "gradients are clipped"
    return {"loss": loss, "grad_norm": amp.norm}


def _capture_ranks(
    gradients: Callable[[Batch], Tensor],
    amp: AmpStep,
    trained: Sequence[torch.nn.Parameter],
    example: Batch,
    rank: Rank,
) -> tuple[Callable[[Batch], dict[str, Tensor]], str]:
    """Two graphs, and between them one all-reduce over the loss and all gradients in one row: nothing else is launched."""

    def forward_backward(batch: Batch) -> Tensor:
        loss = gradients(batch)
        return torch.cat([loss.reshape(1), *(parameter.grad.flatten() for parameter in trained)])

    def update(row: Tensor) -> dict[str, Tensor]:
        parts = row[1:].split([parameter.numel() for parameter in trained])
        for parameter, part in zip(trained, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        return _finish(amp, row[0])

    first = capture(forward_backward, dict(example))
    row = first.call(dict(example)).clone()
    last = capture(update, row)

    def step(batch: Batch) -> dict[str, Tensor]:
        row = first.call(batch)
        torch.distributed.all_reduce(row, op=torch.distributed.ReduceOp.SUM)
        return last.call(row.div_(rank.world))

    return step, first.reason or last.reason
