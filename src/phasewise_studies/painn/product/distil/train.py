"""Train the student on the teacher's frames: energies and forces, one model for all molecules.

    python -m phasewise_studies.painn.product.distil.train --steps 20000 --out out/mine

Loss: 0.1 |energy error| / sqrt(atoms) + |force error| of each atom, Adam from 3e-3 down a cosine, an average of the weights over the
last thousand steps or so. Errors are judged by their mean, so they are trained by it: after 700 steps of ethanol and uracil, 64 features
wide, the squares with schnetpack's rMD17 weights (0.01 and 0.99) left 97 and 85 meV/A on held-out frames, this loss 62 and 66, at rates of
1e-3 and 4e-3. The last tenth of each trajectory is held out. On a GPU the whole step, list and
two backward passes included, is one CUDA graph; without one it is the same step, launched.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from phasewise.kit.devices import choose_device
from phasewise.kit.graphs import capture
from phasewise.records.errors import report_errors
from phasewise_studies.painn import neighbours, reference
from phasewise_studies.painn.data import load_frames
from phasewise_studies.painn.engine import take_rows
from phasewise_studies.painn.layout import SPECIES, Atoms, Edges, Sizes
from phasewise_studies.painn.product.distil.teacher import ACCURACY, MOLECULES, TEMPERATURE_K
from phasewise_studies.painn.weights import draw_weights, save_model

HELD_OUT = 0.1
ENERGY_WEIGHT, FORCE_WEIGHT = 0.1, 1.0
RATE, LOWEST_RATE = 3e-3, 1e-6
# of the moving average of the weights
DECAY = 0.999
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


def split_frames(name: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Frames to train on, and held out: the last part of each chain, since neighbouring frames are alike."""
    frames = {key: torch.from_numpy(value) for key, value in load_frames(name).items()}
    held = torch.zeros(len(frames["chain"]), dtype=torch.bool)
    for chain in frames["chain"].unique():
        places = torch.nonzero(frames["chain"] == chain)[:, 0]
        held[places[-max(1, round(HELD_OUT * len(places))) :]] = True
    return tuple(  # type: ignore[return-value]
        {key: value if key == "numbers" else value[which] for key, value in frames.items()} for which in (~held, held)
    )


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
    """Weights, their average, and one step on `each` frames of every molecule."""

    def __init__(self, parts: Sequence[Frames], sizes: Sizes, each: int, seed: int) -> None:
        device = parts[0].numbers.device
        self.parts, self.sizes, self.each = parts, sizes, each
        drawn = draw_weights(sizes, seed)
        self.weights = {
            name: tensor.float().to(device).requires_grad_() for name, tensor in drawn.items() if name != "atomref"
        }
        self.average = {name: tensor.detach().clone() for name, tensor in self.weights.items()}
        # a tensor, so that the graph reads the rate of the moment
        self.rate = torch.tensor(RATE, device=device)
        on_gpu = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=self.rate, capturable=on_gpu, foreach=True if on_gpu else None
        )
        self.atoms = self.gather(torch.zeros(len(parts), each, dtype=torch.int64, device=device))[0]
        # the fullest of many frames, with room: a list that overflows would train on nothing
        plan = neighbours.plan_list(self.atoms, sizes.cutoff, room=1.4)
        self.plan = plan

    def gather(self, index: Tensor) -> tuple[Atoms, Tensor, Tensor]:
        """Frames `index` (molecules, each) as one batch, with energies and forces."""
        positions, energies, forces, numbers, counts = [], [], [], [], []
        for part, which in zip(self.parts, index, strict=True):
            positions.append(part.positions.index_select(0, which).flatten(0, 1))
            forces.append(part.forces.index_select(0, which).flatten(0, 1))
            energies.append(part.energies.index_select(0, which))
            numbers.append(part.numbers.repeat(self.each))
            counts += [len(part.numbers)] * self.each
        sizes = torch.tensor(counts)
        device = index.device
        system = torch.repeat_interleave(torch.arange(len(counts)), sizes).int()
        start = torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).int()
        atoms = Atoms(torch.cat(positions), torch.cat(numbers), system.to(device), start.to(device))
        return atoms, torch.cat(energies), torch.cat(forces)

    def refill(self, index: Tensor) -> tuple[Atoms, Tensor, Tensor]:
        """The same without anything made on the host: only positions and labels differ between batches."""
        pairs = list(zip(self.parts, index.unbind(0), strict=True))
        positions = torch.cat([part.positions.index_select(0, which).flatten(0, 1) for part, which in pairs])
        forces = torch.cat([part.forces.index_select(0, which).flatten(0, 1) for part, which in pairs])
        energies = torch.cat([part.energies.index_select(0, which) for part, which in pairs])
        fixed = self.atoms
        return Atoms(positions, fixed.numbers, fixed.system, fixed.start), energies, forces

    def step(self, index: Tensor) -> Tensor:
        """One update; returns (loss, edges without a place)."""
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
            torch._foreach_lerp_(list(self.average.values()), list(self.weights.values()), 1 - DECAY)
        return torch.stack((loss.detach(), edges.overflow.float()))


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


def measure_errors(
    weights: Mapping[str, Tensor], sizes: Sizes, frames: Frames, at_a_time: int = 64
) -> tuple[float, float]:
    """Mean absolute errors of energies (meV) and forces (meV/A)."""
    energy, force, total = 0.0, 0.0, len(frames.energies)
    for begin in range(0, total, at_a_time):
        positions = frames.positions[begin : begin + at_a_time]
        count, each = positions.shape[:2]
        device = positions.device
        atoms = Atoms(
            positions.flatten(0, 1), frames.numbers.repeat(count), torch.arange(count, device=device).repeat_interleave(each).int(),
            (torch.arange(count + 1, device=device) * each).int(),
        )  # fmt: skip
        edges = neighbours.exact(atoms, neighbours.plan_list(atoms, sizes.cutoff))
        found = predict(weights, sizes, atoms, edges)
        energy += float((found[0].detach() - frames.energies[begin : begin + at_a_time]).abs().sum())
        expected = frames.forces[begin : begin + at_a_time].flatten(0, 1)
        force += float((found[1].detach() - expected).abs().mean(1).sum()) / each
    return 1e3 * energy / total, 1e3 * force / total


def train(
    names: Sequence[str], sizes: Sizes, *, steps: int, each: int, seed: int, device: torch.device, path: Path,
    report: Callable[[str], None] = print,
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Train, write the checkpoint, and return the errors on held-out frames by molecule."""
    parts = {name: split_frames(name) for name in names}
    atomref = fit_atomref({name: part for name, (part, _) in parts.items()})
    trainer = Trainer([place_frames(part, atomref, device) for part, _ in parts.values()], sizes, each, seed)
    lengths = torch.tensor([[len(part.energies)] for part in trainer.parts], device=device)
    generator = torch.Generator(device).manual_seed(seed)

    def draw() -> Tensor:
        return (torch.rand(len(parts), each, device=device, generator=generator) * lengths).long()

    call = trainer.step
    if device.type == "cuda":
        captured = capture(trainer.step, draw())
        report(captured.reason or "one CUDA graph a step")
        call = captured.call
    began = time.perf_counter()
    for step in range(steps):
        cosine = 0.5 * (1 + torch.cos(torch.tensor(step / steps * torch.pi)))
        trainer.rate.fill_(float(LOWEST_RATE + (RATE - LOWEST_RATE) * cosine))
        loss = call(draw())
        if (step + 1) % max(1, steps // 20) == 0:
            now, missing = loss.tolist()
            report(
                f"step {step + 1}: loss {now:.5f}, {missing:.0f} edges without a place, {time.perf_counter() - began:.0f} s"
            )
    errors = {}
    for name, (_, held) in parts.items():
        energy, force = measure_errors(trainer.average, sizes, place_frames(held, atomref, device))
        errors[name] = {"energy_mae_meV": round(energy, 2), "force_mae_meV_per_A": round(force, 2)}
        report(f"{name}: {energy:.1f} meV, {force:.1f} meV/A")
    about = {
        "teacher": {"method": "GFN2-xTB", "package": "tblite 0.8.0", "accuracy": ACCURACY, "temperature_K": TEMPERATURE_K},
        "training": {"steps": steps, "frames_of_each_molecule_a_step": each, "seed": seed, "loss": [ENERGY_WEIGHT, FORCE_WEIGHT]},
        "held_out": errors,
    }  # fmt: skip
    elements = {int(z) for part, _ in parts.values() for z in part["numbers"]}
    save_model(path, {**trainer.average, "atomref": atomref}, sizes, about, elements)
    return errors


@report_errors
def main() -> None:
    """Train on all shipped molecules."""
    parser = argparse.ArgumentParser(description="Train the PaiNN student on the shipped frames")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--each", type=int, default=4, help="frames of each molecule in a step")
    parser.add_argument("--features", type=int, default=Sizes().features)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--molecules", nargs="*", default=list(MOLECULES))
    parser.add_argument("--device", default="", help="by default the GPU where there is one")
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint to write")
    given = parser.parse_args()
    train(
        given.molecules, Sizes(features=given.features), steps=given.steps, each=given.each, seed=given.seed,
        device=choose_device(given.device), path=given.out,
    )  # fmt: skip


if __name__ == "__main__":
    main()
