"""A model to call with any systems, one after the other: what the interfaces to other programs stand on.

The first call with systems of a kind plans for them and, on a GPU, records the step as a CUDA graph; calls with the same atoms and
cell replay it. Other atoms, another cell, or more neighbours than there was room for: it plans again, by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from phasewise.kit.devices import choose_device
from phasewise.kit.graphs import capture
from phasewise.records.errors import UserError
from phasewise_studies.painn.assembly import Result
from phasewise_studies.painn.data import as_atoms
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.layout import SPECIES, Atoms, Sizes, Weights
from phasewise_studies.painn.switches import EVERYTHING, Switches
from phasewise_studies.painn.weights import STUDENT, load_elements, load_model

Call = Callable[[dict[str, Tensor]], Result]


def default_switches(device: torch.device, cells: int) -> Switches:
    """The kernels on a GPU, the plain analytic model elsewhere; `cells` is the number of periodic boxes in a batch."""
    plain = Switches(batched=True, gather="select", places=True, forces="analytic", pruned=True)
    if device.type != "cuda":
        return plain
    full = replace(Switches(**EVERYTHING), compiled=False, graph=True)
    if torch.cuda.get_device_capability(device) < (8, 0):
        full = replace(full, precision="float32")
    # the kernels' cell list takes one box; without its opposite edges the forces are scattered
    return full if cells <= 1 else replace(full, neighbours="torch", assembly="torch")


class Evaluator:
    """A model on a device. `switches` overrides the choice of kernels; `elements` are the atomic numbers that it may meet.

    Raises:
        UserError: the device is not here.
    """

    def __init__(
        self, weights: Weights, sizes: Sizes, device: torch.device | str = "cpu", switches: Switches | None = None,
        elements: Iterable[int] = range(1, SPECIES),
    ) -> None:  # fmt: skip
        self.weights, self.sizes, self.device = weights, sizes, choose_device(device)
        self.switches, self.elements = switches, frozenset(elements)
        # kernels that did not run as asked, with the reason; of the systems planned last
        self.fallbacks: tuple[str, ...] = ()
        self.plans = 0
        self._planned: dict[str, Tensor] = {}
        self._call: Call | None = None

    @classmethod
    def load(cls, path: Path = STUDENT, device: torch.device | str = "cpu") -> Evaluator:
        """A checkpoint written by `weights.save_model`; by default the student."""
        return cls(*load_model(path), device, elements=load_elements(path))

    def __call__(self, batch: dict[str, Tensor]) -> Result:
        """Energies (B,), forces (A, 3) and strain gradients (B, 3, 3), float64; clone what has to outlive the next call.

        `batch`: positions (A, 3), numbers, system (A,), start (B + 1,), and cell (B, 3, 3) if periodic in all directions.

        Raises:
            UserError: an element that the model was not trained on.
        """
        placed = {
            name: tensor.to(self.device, torch.float64 if name in ("positions", "cell") else torch.int32)
            for name, tensor in batch.items()
        }
        if self._call is None or not self._fits(placed):
            self._plan(placed)
        assert self._call is not None, "planned just now"
        result = self._call(placed)
        if bool(result.energy.isnan().any()) and bool(placed["positions"].isfinite().all()):
            # more neighbours than places: the plan was for fewer
            self._plan(placed)
            result = self._call(placed)
        return result

    def _fits(self, placed: dict[str, Tensor]) -> bool:
        fixed = {name: tensor for name, tensor in placed.items() if name != "positions"}
        return fixed.keys() == self._planned.keys() and all(
            tensor.shape == self._planned[name].shape and torch.equal(tensor, self._planned[name])
            for name, tensor in fixed.items()
        )

    def check_elements(self, numbers: Tensor) -> None:
        """Raise UserError for elements that the model was not trained on."""
        # rows of the embedding that no training has moved give finite nonsense
        unknown = sorted(set(numbers.unique().tolist()) - self.elements)
        if unknown:
            known = "1 to 99" if len(self.elements) == SPECIES - 1 else ", ".join(map(str, sorted(self.elements)))
            raise UserError(
                f"atoms: atomic numbers {', '.join(map(str, unknown))} are unknown to the model; {known} are allowed, "
                "take a checkpoint that was trained on the others"
            )

    def _plan(self, placed: dict[str, Tensor]) -> None:
        self.check_elements(placed["numbers"])
        atoms: Atoms = as_atoms(placed)
        cells = 0 if atoms.cell is None else atoms.cell.shape[0]
        switches = self.switches or default_switches(self.device, cells)
        engine = make_engine(switches, self.weights, self.sizes, atoms, strain=True)

        def step(now: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
            result = engine.evaluate(as_atoms(now))
            assert result.forces is not None and result.strain is not None, "both were asked for"
            return result.energy, result.forces, result.strain

        call, reasons = step, engine.fallbacks
        if switches.graph:
            captured = capture(step, placed)
            call = captured.call
            reasons += (f"cuda-graph: {captured.reason}",) if captured.reason else ()
        self._call = lambda now: Result(*call(now))
        self._planned = {name: tensor.clone() for name, tensor in placed.items() if name != "positions"}
        self.fallbacks = reasons
        self.plans += 1
