"""The trainer's memory on the device: tensors that keep their address, so that a captured graph can go on with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.lior.data import MAPS, STATE
from phasewise_studies.lior.window import BLEND, LAMBDA_F, index_layers


@dataclass(frozen=True)
class Memory:
    """State and maps in the working precision; `field` and `rest` are complex (X, Y, D, D)."""

    field: Tensor
    metric: Tensor
    theta: Tensor
    coords: Tensor
    states: Tensor
    valid: Tensor
    # row that the next window writes first
    cursor: Tensor
    projection: Tensor
    lift: Tensor
    rest: Tensor
    # coordinates of the rotor's planes, layer by layer
    layers: tuple[tuple[Tensor, Tensor], ...]


def place_memory(inputs: Mapping[str, Tensor], device: torch.device) -> Memory:
    """The canonical tensors on `device`, floats in the default dtype."""
    dtype = torch.get_default_dtype()
    on = {name: inputs[name].to(device, copy=True) for name in (*STATE, *MAPS)}
    on = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in on.items()}
    return Memory(
        field=torch.view_as_complex(on["field"]),
        metric=on["metric"],
        theta=on["theta"],
        coords=on["bank_coords"],
        states=on["bank_states"],
        valid=on["bank_valid"].bool(),
        cursor=on["cursor"],
        projection=on["projection"],
        lift=on["lift"],
        rest=torch.view_as_complex(on["rest"]),
        layers=index_layers(device),
    )


def read_state(memory: Memory) -> dict[str, Tensor]:
    """The state under its canonical names."""
    return {
        "field": torch.view_as_real(memory.field),
        "metric": memory.metric,
        "theta": memory.theta,
        "bank_coords": memory.coords,
        "bank_states": memory.states,
        "bank_valid": memory.valid.long(),
        "cursor": memory.cursor,
    }


def load_state(memory: Memory, tensors: Mapping[str, Tensor]) -> None:
    """Copy a canonical state into place."""
    torch.view_as_real(memory.field).copy_(tensors["field"])
    memory.metric.copy_(tensors["metric"])
    memory.theta.copy_(tensors["theta"])
    memory.coords.copy_(tensors["bank_coords"])
    memory.states.copy_(tensors["bank_states"])
    memory.valid.copy_(tensors["bank_valid"] != 0)
    memory.cursor.copy_(tensors["cursor"])


def write_bank(memory: Memory, coordinates: Tensor, retrieved: Tensor, values: Tensor) -> None:
    """Ring buffer: the tokens of a window replace the oldest rows, without asking the device where they are."""
    batch, bank = coordinates.shape[0], memory.coords.shape[0]
    rows = (memory.cursor + torch.arange(batch, device=memory.cursor.device)) % bank
    memory.coords.index_copy_(0, rows, coordinates)
    memory.states.index_copy_(0, rows, BLEND * values + (1 - BLEND) * retrieved)
    memory.valid.index_fill_(0, rows, True)
    memory.cursor.copy_((memory.cursor + batch) % bank)


def count_filled(memory: Memory) -> Tensor:
    """Rows up to and including the last valid one, int32 on the device: what lies behind need not be looked at."""
    rows = torch.arange(1, len(memory.valid) + 1, device=memory.valid.device, dtype=torch.int32)
    return (memory.valid * rows).amax()


def relax_field(memory: Memory, field: Tensor) -> None:
    """The next window starts from the free phase's end, drawn towards the field at rest."""
    memory.field.copy_(field + LAMBDA_F * (memory.rest - field))
