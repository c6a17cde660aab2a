"""What the phases become on a machine without a GPU: phases that need one drop out below the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from phasewise.model.stack import stack_variants
from phasewise.records.machine import Machine
from phasewise_studies.painn import program
from phasewise_studies.painn.phases import CASES, workload
from phasewise_studies.painn.switches import Switches

NO_GPU = Machine(device="cpu", kind="cpu", name="processor", memory_bytes=1 << 34, cores=2)
PHASES = {
    variant.phase.name: (variant.phase.cases or tuple(CASES), variant.places)
    for variant in stack_variants(workload, tuple(CASES), NO_GPU).variants
    if variant.phase is not None
}
# the rounding that these add is what the gate refuses them for
ROUNDED = ("tf32", "bfloat16")


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_stands_where_those_below_it_need_a_gpu(phase: str) -> None:
    cases, places = PHASES[phase]
    # one molecule is enough to see whether the parts fit together
    shape = CASES["aspirin"].tiny
    inputs = program.make_inputs("aspirin", shape, 0)
    # to compile takes half a minute and changes no part
    switches = replace(Switches(**places[cases[0]].switches), compiled=False)
    built = program.build(switches, inputs, "aspirin", shape, torch.device("cpu"))
    found = built.outputs(built.step(built.place(inputs)))
    expected = program.reference(inputs, "aspirin", shape).step(inputs)
    allowed = 1e-1 if phase in ROUNDED else 2e-5
    for name, value in expected.items():
        assert float((found[name].double() - value).abs().max()) < allowed


@pytest.mark.parametrize(
    "phase", ["triton-neighbours", "triton-message", "triton-forces", "tf32x3", "filter-table", "cuda-graph",
              "multi-stream", "autotune"],
)  # fmt: skip
def test_a_phase_that_a_cpu_can_not_run_says_so(phase: str) -> None:
    cases, places = PHASES[phase]
    case = next(case for case in cases if CASES[case].tiny is not None)
    shape = CASES[case].tiny
    switches = replace(Switches(**places[case].switches), compiled=False)
    built = program.build(switches, program.make_inputs(case, shape, 0), case, shape, torch.device("cpu"))
    assert any(reason.startswith(f"{phase}: ") for reason in built.fallbacks), built.fallbacks
