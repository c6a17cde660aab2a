"""One training step over all transitions: gradients, clipping, Adam with a group for each network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phasewise import Program
from phasewise.kit import ranks
from phasewise.kit.accumulate import accumulate
from phasewise.kit.amp import AmpStep
from phasewise.kit.graphs import capture
from phasewise.kit.kernels import has_kernel
from phasewise_studies.spectral_node.losses import closed_loss, fused_loss, metric_terms, unrolled_loss
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.transitions import Transitions

# the flow learns ten times as fast as the metric that bends its paths: notes/learning.md has what other rates give
METRIC_RATE, FLOW_RATE = 3e-4, 3e-3
# the longest gradient: the specification, 2.A
LONGEST = 1.0
# larger than Adam's 1e-8: a gradient of the size of float32's rounding must not decide the direction of a whole step
EPSILON = 1e-5
# the user's document, cell 2; the backoff of 0.5 is torch's own
FIRST_SCALE = 2.0**16

Loss = Callable[[Transitions, Mapping[str, Tensor], Tensor, Tensor], tuple[Tensor, Tensor]]
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class Network(torch.nn.Module):
    """Parameters and loss as one module, for DistributedDataParallel; names keep their slash through `names`."""

    def __init__(self, parameters: Mapping[str, Tensor], transitions: Transitions, loss: Loss) -> None:
        super().__init__()
        self.names = tuple(parameters)
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(parameters[name].clone()) for name in self.names])
        self.transitions, self.loss = transitions, loss

    def forward(self, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Loss over the transitions `rows`, and A(1) of each, (R, W)."""
        return self.loss(self.transitions, self.named(), table, rows)

    def named(self) -> dict[str, Tensor]:
        """The parameters by name, such as "metric/w1"; the tensors themselves, not copies."""
        return dict(zip(self.names, self.weights, strict=True))


def choose_loss(switches: Switches, device: torch.device) -> tuple[Loss, tuple[str, ...]]:
    """The loss of this variant, and why it is not the one that was asked for."""
    if switches.gradient == "fused":
        if has_kernel(device):
            if not switches.compiled:
                return fused_loss, ()
            return partial(fused_loss, terms=torch.compile(metric_terms, dynamic=False, fullgraph=True)), ()
        return closed_loss, ("fused-training: no NVIDIA GPU, the closed form under autograd ran instead",)
    if switches.gradient == "closed":
        return closed_loss, ()
    if switches.gradient == "adjoint":
        from phasewise_studies.spectral_node.adjoint import adjoint_loss

        return adjoint_loss, ()
    return partial(unrolled_loss, recompute=switches.recompute), ()


def make_optimizer(
    network: Network, *, fused: bool, capturable: bool, rates: tuple[float, float] = (METRIC_RATE, FLOW_RATE)
) -> torch.optim.Adam:
    """Adam with a group and a rate for each network; its state stands from the start, so that it can be captured."""
    groups = [
        {"params": [weight for name, weight in network.named().items() if name.startswith(part)], "lr": rate}
        for part, rate in zip(("metric/", "flow/"), rates, strict=True)
    ]
    optimizer = torch.optim.Adam(groups, eps=EPSILON, fused=fused, capturable=capturable)
    for weight in network.weights:
        on_device = fused or capturable
        optimizer.state[weight] = {
            "step": torch.zeros((), device=weight.device if on_device else "cpu"),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
        }
        weight.grad = torch.zeros_like(weight)
    return optimizer


def build_training(
    switches: Switches,
    parameters: Mapping[str, Tensor],
    transitions: Transitions,
    *,
    rates: tuple[float, float] = (METRIC_RATE, FLOW_RATE),
) -> Program:
    """A program whose step takes {"table": (L, W), "order": (T,)} and returns the loss and A(1) of every transition.

    `rates` are those of the metric and of the flow.
    """
    return build_training_with(
        switches, parameters, transitions, *choose_loss(switches, transitions.levels.device), rates=rates
    )


def build_training_with(
    switches: Switches,
    parameters: Mapping[str, Tensor],
    transitions: Transitions,
    loss: Loss,
    fallbacks: tuple[str, ...] = (),
    *,
    rates: tuple[float, float] = (METRIC_RATE, FLOW_RATE),
) -> Program:
    """`build_training` with a loss of one's own."""
    device = transitions.levels.device
    is_cuda = device.type == "cuda"
    network = Network(parameters, transitions, loss)
    optimizer = make_optimizer(
        network, fused=switches.fused_adam and is_cuda, capturable=switches.graph and is_cuda, rates=rates
    )
    amp = None
    if switches.autocast:
        amp = AmpStep(
            optimizer, device=device, dtype=DTYPES[switches.autocast], max_norm=LONGEST, first_scale=FIRST_SCALE
        )
    run = _choose_step(switches, network, optimizer, amp)
    initial = {name: tensor.clone() for name, tensor in _read(network, optimizer, amp).items()}
    if switches.graph:
        example = {"table": torch.rand(len(transitions.levels), len(transitions.wavelengths), device=device)}
        example["order"] = torch.arange(len(transitions.pairs), device=device)
        captured = capture(run, example)
        run = captured.call
        # the warm-up trained
        _write(network, optimizer, amp, initial)
        fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}") if captured.reason else fallbacks
    return Program(
        step=run,
        place=partial(_place, switches, device),
        state=partial(_read, network, optimizer, amp),
        load=partial(_write, network, optimizer, amp),
        fallbacks=fallbacks,
        facts={"autocast": switches.autocast} if switches.autocast else {},
    )


def _place(switches: Switches, device: torch.device, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"table": batch["table"].to(device, torch.get_default_dtype()), "order": batch["order"].to(device)}


def _choose_step(
    switches: Switches, network: Network, optimizer: torch.optim.Adam, amp: AmpStep | None
) -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    if switches.streams and network.transitions.levels.is_cuda:
        return _streamed_step(network, optimizer)
    model = ranks.wrap(network) if switches.ranks > 1 else network
    me = ranks.find_rank() if switches.ranks > 1 else ranks.Rank()
    # the canonical order is dealt to the ranks, and cut into micro-batches, without replacement
    every = torch.arange(len(network.transitions.pairs), device=network.transitions.levels.device)

    def step(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        order = ranks.shard({"order": batch["order"]}, me)["order"] if switches.ranks > 1 else batch["order"]
        rows = order if switches.micro or switches.ranks > 1 else every
        parts = [{"rows": part} for part in rows.split(switches.micro or len(rows))]
        ends = []

        def loss(part: Mapping[str, Tensor]) -> Tensor:
            value, end = model(batch["table"], part["rows"])
            ends.append(end.detach())
            return value

        torch._foreach_zero_([weight.grad for weight in network.weights if weight.grad is not None])
        if amp is None:
            value = accumulate(parts, loss, replicas=[model] if switches.ranks > 1 else [])
            torch.nn.utils.clip_grad_norm_(list(network.weights), LONGEST)
            optimizer.step()
        else:
            value = amp(lambda: loss({"rows": rows}))
        found = torch.cat(ends)
        if switches.ranks > 1:
            value, rows, found = _gather(value, rows, found, batch["order"])
        # back from the order in which they were taken
        return {
            "loss": value,
            "absorbance": found if rows is every else torch.empty_like(found).index_copy_(0, rows, found),
        }

    return step


def _gather(value: Tensor, rows: Tensor, found: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean loss, and the transitions of all ranks with their A(1); every rank has the same number of them."""
    world = torch.distributed.get_world_size()
    everything = found.new_empty((world * len(found), *found.shape[1:]))
    torch.distributed.all_gather_into_tensor(everything, found.contiguous())
    return ranks.average({"loss": value})["loss"], order, everything


def _streamed_step(
    network: Network, optimizer: torch.optim.Adam
) -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    """Forward, backward and update on a stream each, as the user's document asks: each waits for the one before."""
    forward, backward, update = (torch.cuda.Stream() for _ in range(3))
    every = torch.arange(len(network.transitions.pairs), device=network.transitions.levels.device)

    def step(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        forward.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(forward):
            torch._foreach_zero_([weight.grad for weight in network.weights])
            value, end = network(batch["table"], every)
        backward.wait_stream(forward)
        with torch.cuda.stream(backward):
            value.backward()
        # autograd runs each operator's backward on the stream of its forward
        update.wait_stream(forward)
        update.wait_stream(backward)
        with torch.cuda.stream(update):
            torch.nn.utils.clip_grad_norm_(list(network.weights), LONGEST)
            optimizer.step()
        torch.cuda.current_stream().wait_stream(update)
        return {"loss": value.detach(), "absorbance": end.detach()}

    return step


def _read(network: Network, optimizer: torch.optim.Adam, amp: AmpStep | None) -> dict[str, Tensor]:
    """Parameters, gradients and Adam's state by name."""
    found: dict[str, Tensor] = {}
    for name, weight in network.named().items():
        held = optimizer.state[weight]
        found[name] = weight.detach()
        found[f"grad/{name}"] = torch.zeros_like(weight) if weight.grad is None else weight.grad
        found[f"first/{name}"], found[f"second/{name}"] = held["exp_avg"], held["exp_avg_sq"]
        found[f"steps/{name}"] = held["step"]
    if amp is not None:
        found |= {f"scaler/{name}": value for name, value in amp.state_dict().items()}
    return found


@torch.no_grad()
def _write(network: Network, optimizer: torch.optim.Adam, amp: AmpStep | None, state: Mapping[str, Any]) -> None:
    """What `_read` gave, into the same memory: a captured graph goes on using it."""
    for name, weight in network.named().items():
        held = optimizer.state[weight]
        weight.copy_(state[name])
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        weight.grad.copy_(state[f"grad/{name}"])
        held["exp_avg"].copy_(state[f"first/{name}"])
        held["exp_avg_sq"].copy_(state[f"second/{name}"])
        held["step"].copy_(state[f"steps/{name}"])
    if amp is not None:
        amp.load_state_dict({name.removeprefix("scaler/"): state[name] for name in state if name.startswith("scaler/")})
