"""What `build` returns: a timed step, and how to place inputs, move state and read outputs. Imports no torch at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from phasewise.model.fields import Text
from phasewise.records.base import Quantity, Scalar
from phasewise.records.validate import Chart, Series

if TYPE_CHECKING:
    import torch

__all__ = ["Chart", "CheckContext", "Checked", "Program", "Quantity", "Series"]


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Program:
    """One variant, built for one case on one device; only `step` is required.

    A canonical batch is a dict of CPU tensors, float64 or integer, as `make_inputs` gives it.
    """

    # the timed unit of work: placed batch -> raw result
    step: Callable[[Any], Any]
    # canonical batch -> this variant's layout, dtype and device; default: floats to the device as float32
    place: Callable[[Mapping[str, torch.Tensor]], Any] | None = None
    # named tensors in canonical layout -> into the program, before every block, untimed
    load: Callable[[Mapping[str, torch.Tensor]], None] | None = None
    # the same tensors out again; gradients as "grad/<name>"
    state: Callable[[], Mapping[str, torch.Tensor]] | None = None
    # raw result -> canonical names and layout, untimed; default: a dict as it is, a tensor as {"output": tensor}
    outputs: Callable[[Any], Mapping[str, torch.Tensor]] | None = None
    # what export writes: called with the placed batch
    module: torch.nn.Module | None = None
    # waits until the step's work is done, for peers that torch.cuda.synchronize does not see
    sync: Callable[[], None] | None = None
    close: Callable[[], None] = _nothing
    # kernels that fell back to their reference here, with the reason
    fallbacks: tuple[Text, ...] = ()
    # facts for the analyser, such as {"autocast": "bfloat16"}
    facts: Mapping[Text, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """What a check of a workload may use."""

    # build(**changed_switches) -> a fresh program of this variant, or of a neighbour of it
    build: Callable[..., Program]
    # the float64 reference, fresh
    reference: Callable[[], Program]
    # run(program, batch) -> canonical outputs, synchronised
    run: Callable[[Program, Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]]
    # inputs(seed) -> another canonical batch of this case
    inputs: Callable[[int], Mapping[str, torch.Tensor]]
    switches: Any
    case: str
    shape: Any
    device: torch.device
    # rtol and atol of the tier
    rtol: float
    atol: float


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check returns."""

    passed: bool
    message: Text = ""
    numbers: Mapping[Text, Quantity] = field(default_factory=dict)
    chart: Chart | None = None
