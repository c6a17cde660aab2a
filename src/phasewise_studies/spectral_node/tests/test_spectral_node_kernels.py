"""The Triton kernels: in the interpreter, compiled to machine code for GPUs that are not here, and on a GPU."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest
import torch

from phasewise import Shape
from phasewise.kit.kernels import has_kernel
from phasewise.records.errors import UserError
from phasewise_studies.spectral_node import program
from phasewise_studies.spectral_node.kernels import launch_solvers
from phasewise_studies.spectral_node.metric import christoffel_tangent
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.testing import interpret_once

# float32 rounding over 12 steps; A with half the steps of the plain form
TOLERANCES = {
    "solve": 2e-6,
    "couple": 2e-5,
    "closed-solve": 2e-6,
    "closed-couple": 5e-6,
    "christoffel": 1e-6,
    "training": 2e-5,
    # numbers up to 120
    "softplus": 1e-5,
}


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Errors."""
    return interpret_once(tmp_path_factory, "phasewise_studies.spectral_node.tests.interpret_spectral_node")


@pytest.mark.parametrize("name", TOLERANCES)
def test_a_kernel_agrees_with_its_plain_form_in_float64(interpreted, name: str) -> None:
    errors = {key: value for key, value in interpreted.items() if key.startswith(name)}
    assert errors
    assert max(errors.values()) < TOLERANCES[name]


def test_an_odd_number_of_steps_is_refused_by_the_coupled_pass() -> None:
    nothing = torch.zeros(1)
    with pytest.raises(UserError, match="steps=19 is odd"):
        launch_solvers.couple(None, nothing, nothing, nothing, steps=19, newton=1)  # type: ignore[arg-type]


FLOW = {"HIDDEN": 16}
ROW = {"ROW": 2048, "PTX": True}
SHOOT = {"STEPS": 20, "NEWTON": 10, **ROW}
KERNELS = {
    "shooting.shoot_forward_kernel": ({**SHOOT, "BLOCK": 512}, 4, 64),
    "shooting.couple_forward_kernel": ({**SHOOT, **FLOW, "BLOCK": 128}, 4, 160),
    "closed_form.closed_solve_kernel": ({"BLOCK": 256}, 4, 64),
    "closed_form.closed_couple_kernel": ({"STEPS": 10, **FLOW, **ROW, "BLOCK": 128}, 4, 160),
    "christoffel.christoffel_forward_kernel": (
        {"FIRST": 64, "SECOND": 128, "POINTS": 64, "DEEP": 32, "WIDE": 64, "PRECISION": "tf32x3", "PTX": True}, 4, 255,
    ),
    "softplus.softplus_forward_kernel": ({"BLOCK": 1024}, 4, 64),
    "absorbance.absorb_kernel": ({"STEPS": 20, "ROWS": 32, **FLOW, "PTX": True}, 4, 200),
}  # fmt: skip
WHOLE, FRACTIONS = ("pairs", "count", "rows", "wavelengths"), ("floor",)


def compile_kernel(name: str, constants: dict, warps: int, capability: int):
    """Machine code of one kernel."""
    from triton import compile as compile_source
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, _, function = name.partition(".")
    kernel = getattr(importlib.import_module(f"phasewise_studies.spectral_node.kernels.{module}"), function)
    # the tables of wavelengths in christoffel are a pointer, their number in absorbance is not
    whole = tuple(n for n in WHOLE if n != "wavelengths" or module == "absorbance")
    signature = {
        n: "constexpr" if n in constants else "i32" if n in whole else "fp32" if n in FRACTIONS else "*fp32"
        for n in kernel.arg_names
    }
    at = {n: (i,) for i, n in enumerate(kernel.arg_names)}
    aligned = {at[n]: [["tt.divisibility", 16]] for n, kind in signature.items() if kind == "*fp32"}
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    options = {"num_warps": warps, "num_stages": 1}
    return compile_source(source, target=GPUTarget("cuda", capability, 32), options=options)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "capability"), [("shooting.couple_forward_kernel", 75), ("christoffel.christoffel_forward_kernel", 80)]
)
def test_a_kernel_compiles_for_older_gpus_too(name: str, capability: int) -> None:
    constants, warps, _ = KERNELS[name]
    assert len(compile_kernel(name, constants, warps, capability).asm["cubin"]) > 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_keeps_its_state_in_registers_and_has_one_row(name: str, tmp_path: Path) -> None:
    import triton

    constants, warps, registers = KERNELS[name]
    compiled = compile_kernel(name, constants, warps, 90)
    # a second copy of the declaration would be a second, empty row
    assert compiled.asm["ptx"].count(".b8 row[") == ("ROW" in constants)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    file = tmp_path / "kernel.cubin"
    file.write_bytes(compiled.asm["cubin"])
    usage = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    assert "STACK:0" in usage
    assert int(usage.partition("REG:")[2].split()[0]) <= registers


FULL = Shape(wavelengths=601, columns=2000, first=64, second=128, steps=20, newton=10, pairs=300)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["solve", "couple"])
@pytest.mark.parametrize("form", ["fused", "closed"])
def test_on_a_gpu_every_problem_is_solved(case: str, form: str) -> None:
    device = torch.device("cuda")
    inputs = program.make_inputs(case, FULL, 3)
    exact = program.reference(inputs, case, FULL).step(inputs)
    built = program.build(Switches(form=form), inputs, case, FULL, device)
    found = built.outputs(built.step(built.place(inputs)))
    for name, value in exact.items():
        error = (found[name].cpu().double() - value).abs() / (1 + value.abs())
        assert error.max() < 1e-5, name


@pytest.mark.gpu
@pytest.mark.parametrize("widths", [(64, 128), (128, 256)])
@pytest.mark.parametrize("gamma", ["kernel", "nodes"])
def test_on_a_gpu_the_grid_is_as_accurate_as_float32(widths: tuple[int, int], gamma: str) -> None:
    shape = Shape(columns=2000, wavelengths=61, first=widths[0], second=widths[1])
    inputs = program.make_inputs("christoffel", shape, 1)
    exact = program.reference(inputs, "christoffel", shape).step(inputs)["gamma"]
    built = program.build(Switches(gamma=gamma), inputs, "christoffel", shape, torch.device("cuda"))
    found = built.step(built.place(inputs)).cpu().double()
    assert (found - exact).abs().max() < 5e-6
    with_float32 = christoffel_tangent({n: v.float() for n, v in inputs.items()}, torch.zeros(1), torch.zeros(1))
    assert with_float32.isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [False, True])
def test_on_a_gpu_a_fused_training_step_is_the_reference_s(graph: bool) -> None:
    shape = Shape(levels=6, wavelengths=601, first=64, second=128, steps=20, newton=10)
    inputs = program.make_inputs("train", shape, 1)
    exact = program.reference(inputs, "train", shape)
    mine = program.build(
        Switches(gradient="fused", fused_adam=True, graph=graph), inputs, "train", shape, torch.device("cuda")
    )
    assert not mine.fallbacks
    for _ in range(3):
        one, other = mine.step(mine.place(inputs)), exact.step(exact.place(inputs))
    assert (one["absorbance"].cpu().double() - other["absorbance"]).abs().max() < 1e-5
    state, known = mine.state(), exact.state()
    for name, value in known.items():
        assert (state[name].cpu().double() - value).abs().max() < 2e-5, name


@pytest.mark.gpu
def test_without_a_gpu_kernel_float64_is_answered_by_the_plain_form() -> None:
    assert not has_kernel("cuda", torch.float64)
