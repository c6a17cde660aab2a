"""Every form of every case gives what the float64 reference gives, and the demonstrations do not."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch

from phasewise.model.workload import Shape, Unsupported
from phasewise.records.errors import UserError
from phasewise_studies.spectral_node import checks, data, peers, program
from phasewise_studies.spectral_node.checks import quality
from phasewise_studies.spectral_node.closed_form import NODES
from phasewise_studies.spectral_node.phases import workload
from phasewise_studies.spectral_node.product import compress
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.transitions import all_pairs

CPU = torch.device("cpu")
GRID = {"form": "batched", "gamma": "grid"}
FORMS = [
    ("transitions", {}),
    ("transitions", {"form": "batched"}),
    ("transitions", {"form": "batched", "gamma": "tangent"}),
    ("solve", GRID),
    ("solve", GRID | {"newton": "exact"}),
    ("solve", {"form": "fused"}),
    ("solve", {"form": "closed"}),
    ("couple", GRID),
    ("couple", {"form": "fused"}),
    ("couple", {"form": "closed"}),
    ("christoffel", {}),
    ("christoffel", {"form": "batched"}),
    ("christoffel", {"gamma": "tangent"}),
    ("christoffel", {"gamma": "kernel"}),
    ("christoffel", {"gamma": "nodes"}),
    ("train", {}),
    ("train", {"micro": 4}),
    ("train", {"micro": 10}),
    ("train", {"gradient": "adjoint"}),
    ("train", {"gradient": "closed", "fused_adam": True, "graph": True}),
]


def worst(built, case: str, shape: Shape, *, steps: int = 2) -> float:
    """The largest error of outputs and state over the moderate tier after `steps` steps with fresh batches."""
    tier = workload.tiers["moderate"]
    exact = program.reference(program.make_inputs(case, shape, 0), case, shape)
    for seed in range(steps):
        batch = program.make_inputs(case, shape, seed)
        raw = built.step(built.place(batch))
        reference = exact.step(exact.place(batch) if exact.place else batch)
    found = dict(built.outputs(raw) if built.outputs else raw)
    known = dict(reference)
    if exact.state is not None:
        found, known = found | built.state(), known | exact.state()
    errors = [
        (found[name].double() - value).abs() / (tier.atol + tier.rtol * value.abs()) for name, value in known.items()
    ]
    return max(float(error.max()) for error in errors)


@pytest.mark.parametrize(("case", "switches"), FORMS)
def test_a_form_agrees_with_the_reference(case: str, switches: dict) -> None:
    shape = workload.cases[case].tiny
    built = program.build(Switches(**switches), program.make_inputs(case, shape, 0), case, shape, CPU)
    assert worst(built, case, shape) <= 1


@pytest.mark.parametrize("size", ["tiny", "full"])
def test_what_the_export_stage_writes_of_couple_has_learnt_the_table(size: str) -> None:
    shape = getattr(workload.cases["couple"], size)
    # the module does not look at the batch
    inputs = program.make_inputs("couple", Shape(**{**shape, "pairs": 2}), 0)
    module = program.build(Switches(form="closed"), inputs, "couple", shape, CPU).module
    levels, pairs = data.levels(), all_pairs(len(data.LEVELS_PPB))
    table = data.absorbance(levels[:, None], data.wavelengths(shape.wavelengths))
    start, stop = levels[pairs].float().unbind(1)
    first, last = table[pairs].float().unbind(1)
    error = (module(start, stop, first.T) - last).square().mean()
    # who has learnt nothing gives the spectrum that it started from; drawn networks are worse than that
    assert error < 0.25 * (first - last).square().mean()


@pytest.mark.parametrize("difference", ["bfloat16", "float32"])
def test_a_finite_difference_in_low_precision_is_refused(difference: str) -> None:
    shape = workload.cases["christoffel"].tiny
    inputs = program.make_inputs("christoffel", shape, 0)
    built = program.build(Switches(form="batched", difference=difference), inputs, "christoffel", shape, CPU)
    assert worst(built, "christoffel", shape) > 10


@pytest.mark.parametrize("size", ["tiny", "small", "full"])
def test_every_size_is_large_enough_for_what_its_phases_claim(size: str) -> None:
    (accumulate,) = (phase for phase in workload.phases if phase.name == "accumulate")
    train, christoffel = getattr(workload.cases["train"], size), getattr(workload.cases["christoffel"], size)
    assert accumulate.sets["micro"] < train.levels * (train.levels - 1)
    assert christoffel.columns > NODES


@pytest.mark.parametrize(("case", "switches"), [("couple", {"form": "closed"}), ("christoffel", {"gamma": "nodes"})])
def test_what_is_algebra_falls_back_on_nothing_without_a_gpu(case: str, switches: dict) -> None:
    shape = workload.cases[case].tiny
    assert program.build(Switches(**switches), program.make_inputs(case, shape, 0), case, shape, CPU).fallbacks == ()


def test_the_declared_bytes_of_training_are_all_that_goes_in_and_out() -> None:
    shape = workload.cases["train"].tiny
    inputs = program.make_inputs("train", shape, 0)
    weights = sum(value.numel() for name, value in inputs.items() if name.startswith(("metric/", "flow/")))
    ends = shape.levels * (shape.levels - 1) * shape.wavelengths
    assert program.work("train", shape).bytes == 4 * (3 * weights + inputs["table"].numel() + 3 * weights + ends)


def test_a_build_does_not_import_the_compiler() -> None:
    code = """
import sys
import torch
from phasewise_studies.spectral_node import program
from phasewise_studies.spectral_node.phases import workload
from phasewise_studies.spectral_node.product import compress
from phasewise_studies.spectral_node.switches import Switches

shape = workload.cases["transitions"].tiny
torch.set_deterministic_debug_mode("warn")
program.build(Switches(), program.make_inputs("transitions", shape, 0), "transitions", shape, torch.device("cpu"))
assert not torch.are_deterministic_algorithms_enabled()
assert "torch._inductor.config" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_tf32_without_tensor_cores_is_not_passed_off_as_tf32() -> None:
    shape = workload.cases["christoffel"].tiny
    inputs = program.make_inputs("christoffel", shape, 0)
    with pytest.raises(Unsupported, match="TF32"):
        program.build(Switches(form="batched", difference="tf32"), inputs, "christoffel", shape, CPU)


def test_the_document_s_update_is_refused() -> None:
    shape = workload.cases["transitions"].tiny
    inputs = program.make_inputs("transitions", shape, 0)
    switches = Switches(form="batched", gamma="tangent", newton="damped")
    assert worst(program.build(switches, inputs, "transitions", shape, CPU), "transitions", shape) > 10


def test_half_precision_training_counts_its_overflows_and_stays_near() -> None:
    shape = workload.cases["train"].tiny
    inputs = program.make_inputs("train", shape, 0)
    built = program.build(Switches(gradient="closed", autocast="float16"), inputs, "train", shape, CPU)
    assert worst(built, "train", shape) < 400
    assert int(built.state()["scaler/overflows"]) == 0
    assert float(built.state()["scaler/scale"]) == 2.0**16
    # as if the scale had grown too far: the step is skipped and counted, and the scale halved
    high = {name: value.clone() for name, value in built.state().items()} | {"scaler/scale": torch.tensor(2.0**40)}
    built.load(high)
    built.step(built.place(inputs))
    assert int(built.state()["scaler/overflows"]) == 1
    assert float(built.state()["scaler/scale"]) == 2.0**39
    assert torch.equal(built.state()["metric/w2"], high["metric/w2"])


def test_a_saved_state_resumes_bit_for_bit() -> None:
    shape = workload.cases["train"].tiny
    inputs = program.make_inputs("train", shape, 0)
    first, second = (program.build(Switches(gradient="closed"), inputs, "train", shape, CPU) for _ in range(2))
    placed = first.place(inputs)
    first.step(placed)
    second.load({name: value.clone() for name, value in first.state().items()})
    assert torch.equal(first.step(placed)["absorbance"], second.step(placed)["absorbance"])


@pytest.mark.parametrize(
    ("name", "case", "package"),
    [
        ("torchdiffeq_rk4", "solve", "torchdiffeq"),
        ("torchode", "transitions", "torchode"),
        ("diffrax", "solve", "diffrax"),
    ],
)
def test_a_peer_agrees_with_the_reference(name: str, case: str, package: str) -> None:
    pytest.importorskip(package, reason=f"needs {package} (pip install {package})")
    shape = workload.cases[case].tiny
    built = getattr(peers, name)(program.make_inputs(case, shape, 0), case, shape, CPU)
    assert worst(built, case, shape) <= 1


def test_the_document_s_solver_gives_gradients_near_the_reference_s() -> None:
    pytest.importorskip("torchdiffeq", reason="needs torchdiffeq (pip install torchdiffeq)")
    shape = Shape(levels=2, wavelengths=2, first=8, second=8, steps=20, newton=4)
    inputs = program.make_inputs("train", shape, 0)
    built = peers.torchdiffeq_adjoint(inputs, "train", shape, CPU)
    exact = program.reference(inputs, "train", shape)
    built.step(built.place(inputs))
    exact.step(exact.place(inputs))
    for name, value in exact.state().items():
        if name.startswith("grad/"):
            assert float((built.state()[name] - value).norm() / value.norm()) < 2e-3, name


def test_compressed_networks_are_smaller_and_near() -> None:
    inputs = program.make_inputs("couple", workload.cases["couple"].tiny, 0)
    whole = {name: value for name, value in inputs.items() if name.startswith(("metric/", "flow/"))}
    full = 4 * sum(value.numel() for value in whole.values())
    for small, size in (compress.quantize(whole), compress.prune(whole, 0.25), compress.distil(whole)):
        assert size < full
        assert compress.absorbance_error(whole, small, 2) < 0.05


def test_compressed_networks_hold_their_gate_at_every_wavelength() -> None:
    shape = workload.cases["couple"].full
    inputs = program.make_inputs("couple", shape, 0)
    whole = {name: value for name, value in inputs.items() if name.startswith(("metric/", "flow/"))}
    for small, size in (compress.quantize(whole), compress.distil(whole)):
        assert size < 4 * sum(value.numel() for value in whole.values()) / 2
        assert compress.absorbance_error(whole, small, shape.wavelengths) < compress.GATE


def test_scores_of_a_perfect_and_of_a_mean_prediction() -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    perfect, mean = quality.score(table, table), quality.score(table.mean(0).expand(2, 2), table)
    assert (perfect.mse, perfect.mae, perfect.r2) == (0, 0, 1)
    assert mean.r2 == 0


def test_levels_between_known_ones_and_beyond_them_are_judged_apart() -> None:
    truth = torch.zeros(4, 3)
    # worse within, and so much better beyond that a common verdict would be "beats"
    found, line = torch.tensor([[1.0], [2.0], [2.0], [1.0]]), torch.tensor([[9.0], [1.0], [1.0], [9.0]])
    within = torch.tensor([False, True, True, False])
    guesses = {"": found.expand(4, 3), "straight line": line.expand(4, 3)}
    assert quality.tell_verdicts(guesses, truth, within) == (
        "between known concentrations it does not beat the straight line (1) with MSE 4; "
        "beyond them it beats the straight line (81) with MSE 1"
    )


def test_every_check_that_the_workload_names_is_a_function() -> None:
    core = {"bitwise-repeatable", "resume", "second-call"}
    for check in workload.checks:
        assert check.name in core or callable(getattr(checks, check.name.replace("-", "_")))


@pytest.mark.parametrize(
    ("switch", "value", "allowed"),
    [
        ("form", "closd", "sequential, batched, fused, closed"),
        ("gamma", "gridd", "difference, tangent, grid, kernel, nodes"),
        ("difference", "float8", "float64, float32, bfloat16, tf32"),
        ("newton", "foo", "difference, exact, damped"),
        ("gradient", "foo", "unrolled, adjoint, closed, fused"),
        ("autocast", "float17", "'', float16, bfloat16"),
        ("micro", -1, "give 0 or more"),
        ("ranks", 0, "give 1 or more"),
    ],
)
def test_a_switch_without_a_meaning_is_refused_by_name(switch: str, value: object, allowed: str) -> None:
    with pytest.raises(UserError, match=f"^spectral_node: switch {switch}={value!r} is .*{allowed}$"):
        Switches(**{switch: value})


def test_the_story_needs_no_torch() -> None:
    module = importlib.import_module("phasewise_studies.spectral_node.phases")
    assert not hasattr(module, "torch")
