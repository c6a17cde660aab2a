"""The memory that training begins with: drawn, the user's own field, maps and geometry, or a bank of an earlier training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.lior.data import MAPS, STATE, draw_start
from phasewise_studies.lior.product.files import check_tensor, read_tensors
from phasewise_studies.lior.window import COORDINATES, METRIC_LEAST, ROTOR_PLANES, Sizes

# names of a bank in a file, and in the state
BANK = {"coords": "bank_coords", "states": "bank_states", "valid": "bank_valid", "cursor": "cursor"}
GEOMETRY = ("field", "rest", "metric", "theta", "projection", "lift")


def make_start(sizes: Sizes, first: Mapping[str, Tensor], own: Path | None, bank: Path | None) -> dict[str, Tensor]:
    """Maps and state before the first window, float32 and int64 on the CPU.

    The bank is that of `bank`, else that of `own`, else the `first` batch: retrieval needs a row to find.

    :raises UserError: a file doesn't fit the sizes
    """
    start = {
        name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in draw_start(sizes).items()
    }
    rows = {"coords": first["tokens"], "states": first["values"]}
    if own is not None:
        given = read_own(own, sizes)
        rows = {short: given[name] for short, name in BANK.items() if name in given} or rows
        start |= {name: given[name] for name in GEOMETRY if name in given}
        # a field without a field at rest is its own
        if "rest" not in given and "field" in given:
            start["rest"] = given["field"].clone()
        elif "field" not in given:
            start["field"] = start["rest"].clone()
    if bank is not None:
        rows = read_bank(bank, sizes)
    return start | fill_bank(rows, sizes)


def read_own(path: Path, sizes: Sizes) -> dict[str, Tensor]:
    """Any of the tensors of a checkpoint, by their names there; a complex field is taken as it is.

    :raises UserError: a name is unknown, or a shape or a value doesn't fit
    """
    found = read_tensors(path)
    unknown = sorted(set(found) - {*STATE, *MAPS})
    if unknown:
        raise UserError(f"{path}: {unknown[0]!r} is unknown; it may hold {', '.join(dict.fromkeys((*MAPS, *STATE)))}.")
    lone = {"bank_coords", "bank_states"} & set(found)
    if len(lone) == 1 or (not lone and {"bank_valid", "cursor"} & set(found)):
        raise UserError(f"{path}: a bank needs both bank_coords and bank_states.")
    field = (sizes.grid, sizes.grid, sizes.inner, sizes.inner, 2)
    shapes: dict[str, tuple[int | str, ...]] = {
        "field": field, "rest": field, "metric": (COORDINATES,), "theta": (ROTOR_PLANES,),
        "projection": (COORDINATES, sizes.components), "lift": (sizes.components, sizes.state),
    }  # fmt: skip
    given = dict(found)
    for name in set(shapes) & set(found):
        tensor = torch.view_as_real(found[name]) if found[name].is_complex() else found[name]
        given[name] = check_tensor(path, name, tensor, shapes[name])
    if "metric" in given and not bool((given["metric"] >= METRIC_LEAST).all()):
        raise UserError(f"{path}: 'metric' has an entry under {METRIC_LEAST}; a metric is at least that everywhere.")
    if lone:
        given |= {
            BANK[name]: tensor
            for name, tensor in check_bank(
                path, {short: found[n] for short, n in BANK.items() if n in found}, sizes
            ).items()
        }
    return given


def read_bank(path: Path, sizes: Sizes) -> dict[str, Tensor]:
    """`coords` (K, 8) and `states` (K, d), perhaps `valid` (K,) and `cursor`, of a file.

    :raises UserError: they are missing or don't fit
    """
    return check_bank(path, read_tensors(path), sizes)


def check_bank(path: Path, found: Mapping[str, Tensor], sizes: Sizes) -> dict[str, Tensor]:
    """The rows of a bank, checked; `cursor` only if the bank is as long as the trainer's."""
    if not {"coords", "states"} <= set(found) <= set(BANK):
        has = ", ".join(sorted(found)) or "nothing"
        raise UserError(f"{path}: it has {has}; a bank has coords and states, and may have valid and cursor.")
    coords = check_tensor(path, "coords", found["coords"], ("K", COORDINATES))
    rows = len(coords)
    if rows > sizes.bank:
        raise UserError(f"{path}: {rows} rows don't fit a bank of {sizes.bank}; set --bank_rows {rows}.")
    states = check_tensor(path, "states", found["states"], (rows, sizes.state))
    valid = found.get("valid", torch.ones(rows))
    if tuple(valid.shape) != (rows,):
        raise UserError(f"{path}: 'valid' has shape {tuple(valid.shape)}; it has to be ({rows},).")
    if not bool((valid != 0).any()):
        raise UserError(f"{path}: no row is valid; retrieval needs one at least, or leave the bank out.")
    bank = {"coords": coords, "states": states, "valid": (valid != 0).long()}
    if "cursor" in found and rows == sizes.bank:
        cursor = found["cursor"]
        if cursor.numel() != 1 or not 0 <= int(cursor) < rows:
            raise UserError(f"{path}: 'cursor' is {cursor.tolist()}; it has to be one row of 0 to {rows - 1}.")
        bank["cursor"] = cursor.long().reshape(())
    return bank


def fill_bank(rows: Mapping[str, Tensor], sizes: Sizes) -> dict[str, Tensor]:
    """The rows at the front of a bank that is else empty; without a cursor the next window writes behind them."""
    count = min(len(rows["coords"]), sizes.bank)
    coords, states = torch.zeros(sizes.bank, COORDINATES), torch.zeros(sizes.bank, sizes.state)
    valid = torch.zeros(sizes.bank, dtype=torch.long)
    coords[:count], states[:count] = rows["coords"][:count], rows["states"][:count]
    valid[:count] = rows.get("valid", torch.ones(count, dtype=torch.long))[:count]
    cursor = rows.get("cursor", torch.tensor(count % sizes.bank))
    return {"bank_coords": coords, "bank_states": states, "bank_valid": valid, "cursor": cursor}


def order_bank(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A trainer's bank for a file: the valid rows, oldest first, so that in a longer or equal bank the next windows replace them in order."""
    rows = len(state["bank_valid"])
    order = (torch.arange(rows) + state["cursor"].cpu()) % rows
    order = order[state["bank_valid"].cpu()[order] != 0]
    return {"coords": state["bank_coords"].cpu()[order], "states": state["bank_states"].cpu()[order]}
