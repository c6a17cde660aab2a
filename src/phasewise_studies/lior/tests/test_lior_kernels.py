"""The kernels in Triton's interpreter, and compiled to machine code for GPUs that are not here."""

from __future__ import annotations

from typing import Any

import pytest

from phasewise_studies.lior.tests.lior_runs import EXACT, FUSED, HALF_ERROR
from phasewise_studies.testing import interpret_once

INTEGERS = ("count", "arrived", "gave_up")
FLOATS = ("beta", "eps", "hop", "source", "kappa", "batch_share")
SCALARS = (
    "batch", "bank", "width", "splits", "blocks", "components", "phase_stride", "elements", "first_step", "phases", "step",
    "steps",
)  # fmt: skip


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The error of each case."""
    return interpret_once(tmp_path_factory, "phasewise_studies.lior.tests.interpret_lior")


def test_every_fused_window_agrees_with_the_reference(interpreted: dict[str, float]) -> None:
    exact = {name: error for name, error in interpreted.items() if name.split("/")[-1] not in HALF_ERROR}
    assert len(exact) == 2 * len(FUSED) + 1 + 1 + 2
    assert not {name: error for name, error in exact.items() if not error < EXACT}


def test_half_precision_is_off_by_what_its_digits_say_and_no_more(interpreted: dict[str, float]) -> None:
    for name, bound in HALF_ERROR.items():
        assert EXACT < interpreted[f"feedback/{name}"] < bound


KERNELS: dict[str, tuple[str, dict[str, Any], int]] = {
    "split-float32": ("retrieve_split_kernel", {"N": 8, "TOKENS": 32, "ROWS": 128, "WIDTH": 64, "HALF": 0}, 8),
    "split-float16": ("retrieve_split_kernel", {"N": 8, "TOKENS": 32, "ROWS": 128, "WIDTH": 64, "HALF": 1}, 8),
    "combine": ("retrieve_combine_kernel", {"ROWS": 128, "SPLITS": 16, "WIDTH": 128}, 4),
    "field": ("field_step_kernel", {"GRID": 28, "POINTS": 1024, "BLOCKS": 64, "FEEDBACK": True}, 4),
    "weigh": (
        "weigh_kernel", {"N": 8, "ROWS": 2048, "COMPONENTS": 256, "STEPS": 1, "OPEN": False, "FORMAT": 3}, 8,
    ),
    "weigh-open": (
        "weigh_kernel", {"N": 8, "ROWS": 2048, "COMPONENTS": 256, "STEPS": 8, "OPEN": True, "FORMAT": 0}, 8,
    ),
    "spread": ("spread_kernel", {"TOKENS": 32, "ROWS": 32, "COMPONENTS": 256, "FORMAT": 3}, 4),
    "field-window": ("field_window_kernel", {"GRID": 28, "POINTS": 1024}, 4),
    "persistent": (
        "persistent_kernel",
        {"PROGRAMS": 128, "GRID": 28, "POINTS": 1024, "BLOCKS": 64, "N": 8, "ROWS": 2048, "COMPONENTS": 256, "TOKENS": 32,
         "SPREAD": 32, "FORMAT": 3, "LIMIT": 65536},
        8,
    ),
}  # fmt: skip


def compile_kernel(name: str, constants: dict[str, Any], warps: int, capability: int):
    """Machine code of one kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from phasewise_studies.lior.kernels import lockstep, persistent, retrieval_triton, time_parallel, weights

    modules = (lockstep, persistent, retrieval_triton, time_parallel, weights)
    kernel = next(getattr(module, name) for module in modules if hasattr(module, name))
    constants = dict(constants)
    if "OVERLAP" in kernel.arg_names:
        constants["OVERLAP"] = capability >= 90
    if "PRECISION" in kernel.arg_names:
        constants["PRECISION"] = "tf32x3" if capability >= 80 else "ieee"
    half = constants.get("FORMAT") in (1, 3)

    def kind(argument: str) -> str:
        if argument in constants:
            return "constexpr"
        if argument in FLOATS:
            return "fp32"
        if argument in SCALARS:
            return "i32"
        if argument == "valid":
            return "*i1"
        if argument == "weights" and half:
            return "*fp16"
        return "*i32" if argument in INTEGERS else "*fp32"

    signature = {argument: kind(argument) for argument in kernel.arg_names}
    at = {argument: (index,) for index, argument in enumerate(kernel.arg_names)}
    aligned = {at[n]: [["tt.divisibility", 16]] for n in signature if signature[n].startswith("*") or n == "components"}
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_compiles_for_hopper_without_a_gpu(name: str) -> None:
    assert len(compile_kernel(*KERNELS[name], 90).asm["cubin"]) > 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("capability", [75, 80])
@pytest.mark.parametrize("name", ["split-float16", "weigh", "spread", "field", "field-window"])
def test_the_kernels_of_a_step_compile_for_older_gpus(name: str, capability: int) -> None:
    assert len(compile_kernel(*KERNELS[name], capability).asm["cubin"]) > 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_overlapped_kernel_waits_before_it_reads_and_lets_the_next_one_start_after() -> None:
    ptx = compile_kernel(*KERNELS["spread"], 90).asm["ptx"]
    wait, start = ptx.index("griddepcontrol.wait"), ptx.index("griddepcontrol.launch_dependents")
    assert wait < start
    # lifted states, which no step changes, are asked for before the wait; weights only after it
    assert ptx.index("ld.global") < wait
    assert ptx.index("ld.global.cg") - wait > 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_programs_of_the_persistent_kernel_meet_by_counting_with_acquire_and_release() -> None:
    ptx = compile_kernel(*KERNELS["persistent"], 90).asm["ptx"]
    assert ptx.count("atom.global.gpu.acq_rel") >= 6
