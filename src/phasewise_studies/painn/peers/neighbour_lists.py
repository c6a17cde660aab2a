"""Neighbour lists of other packages, alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.painn.data import as_atoms
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.neighbours import exact, plan_list

Batch = Mapping[str, Tensor]


def vesin_list(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """vesin's list, one system after the other: it has no batches; tensors stay where they are."""
    from vesin import NeighborList

    cutoff = Sizes().cutoff

    def place(batch: Batch) -> list[tuple[Tensor, Tensor, bool]]:
        starts = batch["start"].tolist()
        cells = batch.get("cell", torch.zeros(len(starts) - 1, 3, 3, dtype=torch.float64))
        return [
            (batch["positions"][first:last].to(device), cells[b].to(device), "cell" in batch)
            for b, (first, last) in enumerate(itertools.pairwise(starts))
        ]

    search = NeighborList(cutoff=cutoff, full_list=True)

    def step(placed: list[tuple[Tensor, Tensor, bool]]) -> list[Any]:
        return [
            (search.compute(points=points, box=cell, periodic=periodic, quantities="id", copy=True), len(points))
            for points, cell, periodic in placed
        ]

    def outputs(raw: list[Any]) -> dict[str, Tensor]:
        before = list(itertools.accumulate((atoms for _, atoms in raw), initial=0))
        return {
            "i": torch.cat([i.long() + first for ((i, _), _), first in zip(raw, before, strict=False)]),
            "r": torch.cat([d[:, None] for (_, d), _ in raw]),
        }

    return Program(step=step, place=place, outputs=outputs)


def torch_nl_list(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torch-nl's linked cells, all systems in one batch."""
    from torch_nl import compute_neighborlist
    from torch_nl.geometry import compute_cell_shifts, compute_distances

    cutoff = Sizes().cutoff

    def place(batch: Batch) -> dict[str, Tensor]:
        systems = len(batch["start"]) - 1
        # without a cell it wants one that holds the system
        empty = 1000 * torch.eye(3, dtype=torch.float64).repeat(systems, 1, 1)
        cell = batch.get("cell", empty).reshape(-1, 3)
        return {
            "pos": batch["positions"].to(device),
            "cell": cell.to(device),
            "pbc": torch.full((3 * systems,), "cell" in batch, device=device),
            "batch": batch["system"].to(device),
        }

    def step(placed: dict[str, Tensor]) -> dict[str, Tensor]:
        mapping, system, cells_away = compute_neighborlist(cutoff, **placed, self_interaction=False)
        shifts = compute_cell_shifts(placed["cell"], cells_away, system)
        return {"mapping": mapping, "distance": compute_distances(placed["pos"], mapping, shifts)}

    def outputs(raw: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"i": raw["mapping"][0], "r": raw["distance"][:, None]}

    return Program(step=step, place=place, outputs=outputs)


def nvalchemi_list(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """nvalchemi-toolkit-ops' list with its vectors, all systems in one batch, prepared once: its own choice of method and buffers."""
    from nvalchemiops.torch.neighbors import neighbor_list
    from nvalchemiops.torch.neighbors.prepared_neighbor_list import prepare_neighbor_list

    cutoff = Sizes().cutoff
    atoms = as_atoms(dict(inputs))
    # a row of its matrix has as many places as the longest one of these frames, and a quarter more for others
    longest = int(exact(atoms, plan_list(atoms, cutoff)).row_ptr.diff().max())
    width = longest + longest // 4 + 1

    def place(batch: Batch) -> dict[str, Any]:
        given = {"positions": batch["positions"].to(device)}
        if "cell" in batch:
            given["cell"] = batch["cell"].to(device)
        systems = len(batch["start"]) - 1
        periodic = {"pbc": torch.ones(systems, 3, dtype=torch.bool, device=device)} if "cell" in batch else {}
        state = prepare_neighbor_list(
            **given, **periodic, cutoff=cutoff, batch_idx=batch["system"].to(device, torch.int32),
            batch_ptr=batch["start"].to(device, torch.int32),
            max_neighbors=width, return_vectors=True,
        )  # fmt: skip
        return {**given, "state": state}

    def step(placed: dict[str, Any]) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = neighbor_list(**placed)
        return found

    def outputs(raw: tuple[Tensor, ...]) -> dict[str, Tensor]:
        count, vectors = raw[1], raw[-1]
        real = torch.arange(vectors.shape[1], device=count.device) < count[:, None]
        rows = torch.nonzero(real)[:, 0]
        return {"i": rows, "r": vectors[real]}

    return Program(step=step, place=place, outputs=outputs)
