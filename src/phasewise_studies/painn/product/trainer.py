"""One step of training on labelled frames: energies and forces, list and two backward passes, one CUDA graph on a GPU.

Loss: 0.1 |energy error| / sqrt(atoms) + |force error| of each atom, Adam down a cosine, an average of the weights over the last
twentieth of the steps. Errors are judged by their mean, so they are trained by it: after 700 steps of ethanol and uracil, 64 features
wide, the squares with schnetpack's rMD17 weights (0.01 and 0.99) left 97 and 85 meV/A on held-out frames, this loss 62 and 66, at rates of
1e-3 and 4e-3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise.kit.graphs import capture
from phasewise_studies.painn import neighbours, reference
from phasewise_studies.painn.engine import take_rows
from phasewise_studies.painn.layout import SPECIES, Atoms, Edges, Sizes, Weights

ENERGY_WEIGHT, FORCE_WEIGHT = 0.1, 1.0
LOWEST_RATE = 1e-6
# the weights' average goes over one step in so many
AVERAGED = 20
# square of the force error, in (eV/A)^2, below which its length has no corner
LEAST = 1e-10
CLIP = 10.0


@dataclass(frozen=True)
class Frames:
    """Labelled frames of one molecule on the device: positions (M, N, 3) float64, energies (M,) and forces (M, N, 3) float32."""

    numbers: Tensor
    positions: Tensor
    energies: Tensor
    forces: Tensor


def fit_atomref(parts: Mapping[str, Mapping[str, Tensor]]) -> Tensor:
    """Reference energies (100,) float64 by least squares: what of the energies the composition explains."""
    counts = torch.stack(
        [torch.bincount(part["numbers"].long(), minlength=SPECIES) for part in parts.values()]
    ).double()
    means = torch.stack([part["energies"].mean() for part in parts.values()])
    known = counts.sum(0) > 0
    atomref = torch.zeros(SPECIES, dtype=torch.float64)
    # the smallest solution where molecules are fewer than elements
    atomref[known] = torch.linalg.lstsq(counts[:, known], means[:, None], driver="gelsd").solution[:, 0]
    return atomref


def place_frames(part: Mapping[str, Tensor], atomref: Tensor, device: torch.device) -> Frames:
    """Frames on the device, energies less their reference."""
    numbers = part["numbers"].int()
    energies = part["energies"] - atomref[numbers.long()].sum()
    return Frames(
        numbers.to(device),
        part["positions"].double().to(device),
        energies.float().to(device),
        part["forces"].to(device),
    )


class Trainer:
    """Weights, their average, and one step on `each` frames of every molecule.

    `start` are the weights to begin with; `steps` and `rate` are the length of the cosine and what it comes down from.
    """

    def __init__(
        self, parts: Sequence[Frames], sizes: Sizes, start: Weights, *, each: int, steps: int, rate: float, seed: int
    ) -> None:
        self.device = device = parts[0].numbers.device
        self.parts, self.sizes, self.each, self.steps, self.highest, self.seed = parts, sizes, each, steps, rate, seed
        self.weights = {
            name: tensor.float().to(device).clone().requires_grad_()
            for name, tensor in start.items()
            if name != "atomref"
        }
        self.average = {name: tensor.detach().clone() for name, tensor in self.weights.items()}
        self.follow = 1 / max(1, steps // AVERAGED)
        # a tensor, so that the graph reads the rate of the moment
        self.rate = torch.tensor(rate, device=device)
        on_gpu = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=self.rate, capturable=on_gpu, foreach=True if on_gpu else None
        )
        # places for the frames with the most edges: no batch has more
        fullest = torch.tensor([fullest_frame(part, sizes.cutoff) for part in parts], device=device)
        self.atoms = self.gather(fullest[:, None].expand(-1, each))
        self.plan = neighbours.plan_list(self.atoms, sizes.cutoff, room=1.0)

    def gather(self, index: Tensor) -> Atoms:
        """Frames `index` (molecules, each) as one batch."""
        pairs = list(zip(self.parts, index.unbind(0), strict=True))
        positions = torch.cat([part.positions.index_select(0, which).flatten(0, 1) for part, which in pairs])
        numbers = torch.cat([part.numbers.repeat(self.each) for part in self.parts])
        sizes = torch.tensor([len(part.numbers) for part in self.parts]).repeat_interleave(self.each)
        system = torch.repeat_interleave(torch.arange(len(sizes)), sizes).int()
        start = torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).int()
        return Atoms(positions, numbers, system.to(index.device), start.to(index.device))

    def refill(self, index: Tensor) -> tuple[Atoms, Tensor, Tensor]:
        """The batch, its energies and its forces, nothing of it made on the host: only positions and labels differ between batches."""
        pairs = list(zip(self.parts, index.unbind(0), strict=True))
        positions = torch.cat([part.positions.index_select(0, which).flatten(0, 1) for part, which in pairs])
        forces = torch.cat([part.forces.index_select(0, which).flatten(0, 1) for part, which in pairs])
        energies = torch.cat([part.energies.index_select(0, which) for part, which in pairs])
        fixed = self.atoms
        return Atoms(positions, fixed.numbers, fixed.system, fixed.start), energies, forces

    def draw(self, step: int) -> Tensor:
        """Frames (molecules, each) of one step; they depend on seed and step only, so that a run can go on."""
        generator = torch.Generator().manual_seed((self.seed << 32) + step)
        lengths = torch.tensor([[len(part.energies)] for part in self.parts])
        return (torch.rand(len(self.parts), self.each, generator=generator) * lengths).long().to(self.device)

    def set_rate(self, step: int) -> None:
        """The rate of a step on the cosine."""
        cosine = 0.5 * (1 + math.cos(step / self.steps * math.pi))
        self.rate.fill_(LOWEST_RATE + (self.highest - LOWEST_RATE) * cosine)

    def step(self, index: Tensor) -> Tensor:
        """One update; returns the loss."""
        self.optimizer.zero_grad(set_to_none=False)
        atoms, energies, forces = self.refill(index)
        with torch.no_grad():
            edges = neighbours.in_places(atoms, self.plan)
        found_energies, found_forces = predict(self.weights, self.sizes, atoms, edges, training=True)
        count = (atoms.start[1:] - atoms.start[:-1]).float()
        loss = ENERGY_WEIGHT * ((found_energies - energies).abs() / count.sqrt()).mean()
        loss = loss + FORCE_WEIGHT * ((found_forces - forces).square().sum(1) + LEAST).sqrt().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), CLIP, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.values()), list(self.weights.values()), self.follow)
        return loss.detach()

    def make_ready(self) -> tuple[Callable[[Tensor], Tensor], str]:
        """The step to call, a CUDA graph where there is a GPU, and why it is none elsewhere; what warming up moved is put back."""
        start = {name: tensor.detach().clone() for name, tensor in self.weights.items()}
        call, reason = self.step, "no graph on a CPU"
        if self.device.type == "cuda":
            captured = capture(self.step, self.draw(0))
            call, reason = captured.call, captured.reason
        else:
            # Adam's moments come with the first step
            self.step(self.draw(0))
        fresh = {name: torch.zeros_like(tensor) for name, tensor in self.tensors().items()}
        for name, tensor in start.items():
            fresh[f"weight/{name}"] = fresh[f"average/{name}"] = tensor
        self.load(fresh)
        return call, reason

    def tensors(self) -> dict[str, Tensor]:
        """All that a run must keep to go on, where it lies: weights, their average, Adam's moments and steps."""
        found = {}
        for name, tensor in self.weights.items():
            found |= {f"weight/{name}": tensor.detach(), f"average/{name}": self.average[name]}
            found |= {f"{kind}/{name}": value for kind, value in self.optimizer.state[tensor].items()}
        return found

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy a state into place: a graph goes on reading where it read."""
        for name, tensor in self.tensors().items():
            tensor.copy_(state[name])


def predict(
    weights: Mapping[str, Tensor], sizes: Sizes, atoms: Atoms, edges: Edges, *, training: bool = False
) -> tuple[Tensor, Tensor]:
    """Energies (B,) and forces (A, 3), float32, differentiable in the weights if `training`."""
    r = edges.r.detach().requires_grad_()
    i, j = edges.i.long(), edges.j.long()
    per_atom = reference.atom_energies(atoms.numbers, r, i, j, weights, sizes, take_rows)
    (pull,) = torch.autograd.grad(per_atom.sum(), r, create_graph=training)
    zero = torch.zeros(atoms.positions.shape, device=r.device)
    forces = zero.index_add(0, i, pull).index_add(0, j, -pull)
    energies = torch.zeros(atoms.start.shape[0] - 1, device=r.device).index_add(0, atoms.system, per_atom)
    return energies, forces


def batches(frames: Frames, at_a_time: int) -> list[Atoms]:
    """The frames of a molecule, some at a time, as batches."""
    device, each = frames.numbers.device, len(frames.numbers)
    found = []
    for positions in frames.positions.split(at_a_time):
        count = len(positions)
        system = torch.arange(count, device=device).repeat_interleave(each).int()
        start = (torch.arange(count + 1, device=device) * each).int()
        found.append(Atoms(positions.flatten(0, 1), frames.numbers.repeat(count), system, start))
    return found


def fullest_frame(frames: Frames, cutoff: float) -> int:
    """Index of the frame with the most edges."""
    counts = []
    for atoms in batches(frames, 64):
        here = neighbours.near(neighbours.candidates(atoms, neighbours.plan_list(atoms, cutoff)), cutoff)
        counts.append(here.sum(1).view(-1, len(frames.numbers)).sum(1))
    return int(torch.cat(counts).argmax())


def predict_frames(
    weights: Mapping[str, Tensor], sizes: Sizes, frames: Frames, at_a_time: int = 64
) -> tuple[Tensor, Tensor]:
    """Energies (M,) less their reference and forces (M, N, 3) of all frames of a molecule, float32."""
    energies, forces = [], []
    for atoms in batches(frames, at_a_time):
        edges = neighbours.exact(atoms, neighbours.plan_list(atoms, sizes.cutoff))
        found = predict(weights, sizes, atoms, edges)
        energies.append(found[0].detach())
        forces.append(found[1].detach().view(-1, len(frames.numbers), 3))
    return torch.cat(energies), torch.cat(forces)


def measure_errors(
    weights: Mapping[str, Tensor], sizes: Sizes, frames: Frames, at_a_time: int = 64
) -> tuple[float, float]:
    """Mean absolute errors of energies (meV) and forces (meV/A)."""
    energies, forces = predict_frames(weights, sizes, frames, at_a_time)
    return 1e3 * float((energies - frames.energies).abs().mean()), 1e3 * float((forces - frames.forces).abs().mean())
