"""Every variant of every case against the float64 reference; on a GPU the kernels, here what stands in for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from phasewise import CheckContext, Shape
from phasewise.tensors import all_same_bits
from phasewise_studies.painn import checks, program
from phasewise_studies.painn.data import draw_velocities, make_batch, mass_table
from phasewise_studies.painn.dynamics import fit_drift, run_nve
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.layout import SPECIES
from phasewise_studies.painn.phases import CASES, workload
from phasewise_studies.painn.results import describe_list
from phasewise_studies.painn.switches import EVERYTHING, Switches
from phasewise_studies.painn.tests.painn_molecules import SMALL, draw_molecule, join, small_weights

CPU = torch.device("cpu")
PLAIN = Switches(batched=True, gather="select", places=True, forces="analytic")
QUICK = ("aspirin", "batch-4")
VARIANTS = {
    "baseline": Switches(),
    "batched": Switches(batched=True),
    "index-select": Switches(batched=True, gather="select", places=True),
    "analytic": PLAIN,
    "pruned": replace(PLAIN, pruned=True),
    "kernels": replace(PLAIN, neighbours="triton", message="triton"),
    "forces": replace(PLAIN, neighbours="triton", message="triton", pruned=True, assembly="triton"),
    "everything": replace(Switches(**EVERYTHING), compiled=False),
    "table": replace(Switches(**EVERYTHING), compiled=False, table=True),
    "streams": replace(PLAIN, streams=2),
}


def worst(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    assert found.keys() == expected.keys()
    return max(
        float(((found[name].cpu().double() - value.double()).abs() - 1e-6 * value.abs()).max())
        for name, value in expected.items()
    )


def run(switches: Switches, case: str, shape: Shape, device: torch.device = CPU, seed: int = 0) -> float:
    built = program.build(switches, program.make_inputs(case, shape, seed), case, shape, device)
    error = 0.0
    # the second batch shows what was kept from the first
    for other in (seed + 1, seed):
        inputs = program.make_inputs(case, shape, other)
        found = program.audit(inputs, built.outputs(built.step(built.place(inputs))), case, shape)
        expected = program.reference(inputs, case, shape).step(inputs)
        error = max(error, worst(found, expected))
    return error


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "case",
    [
        # boxes and large batches take seconds each
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, case in CASES.items()
        if case.tiny is not None
    ],
)
def test_a_variant_gives_the_energies_and_forces_of_the_reference(variant: str, case: str) -> None:
    if variant == "streams" and not case.startswith("batch"):
        pytest.skip("streams are for batches")
    assert run(VARIANTS[variant], case, CASES[case].tiny) < 2e-5


def test_molecules_of_different_sizes_are_all_found_by_the_loop() -> None:
    shape = Shape(system="drugs", count=4, features=16, task="forces")
    assert run(Switches(), "batch-1024", shape) < 2e-5


def test_a_list_in_another_order_is_described_by_the_same_bits_and_unwritten_places_show() -> None:
    generator = torch.Generator().manual_seed(0)
    i, r = torch.randint(0, 50, (4000,), generator=generator), torch.randn(4000, 3, generator=generator)
    expected = describe_list(i, r, 50)
    for _ in range(4):
        # as atomics do, which add in any order
        order = torch.randperm(4000, generator=generator)
        assert all_same_bits(describe_list(i[order], r[order], 50), expected)
    r[7] = float("nan")
    nan = describe_list(i, r, 50)["distance"].isnan()
    assert nan.sum() == 1 and nan[i[7]]


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_a_coarser_product_fails_the_moderate_tier(precision: str) -> None:
    error = run(replace(PLAIN, precision=precision), "batch-4", CASES["batch-4"].tiny)
    assert error > workload.tiers["moderate"].atol


def test_every_seed_gives_another_frame_of_the_same_systems() -> None:
    for case in CASES.values():
        shape = case.tiny or case.full
        if shape.get("repeat", "").startswith("33"):
            continue
        one, two = make_batch(shape, 0), make_batch(shape, 1)
        assert torch.equal(one["numbers"], two["numbers"])
        assert not torch.equal(one["positions"], two["positions"])
        assert torch.equal(one["positions"], make_batch(shape, 0)["positions"])


def test_the_ice_has_1296_atoms_and_every_oxygen_two_protons() -> None:
    batch = make_batch(CASES["ice-1296"].full, 0)
    assert len(batch["numbers"]) == 1296
    cell = torch.diagonal(batch["cell"][0])
    oxygen, hydrogen = (batch["positions"][batch["numbers"] == number] for number in (8, 1))
    r = hydrogen[None] - oxygen[:, None]
    d = (r - torch.round(r / cell) * cell).norm(dim=-1)
    assert ((d < 1.35).sum(1) == 2).all()


def test_every_part_has_three_bounds_and_every_risk_per_cent_and_days() -> None:
    for targets in workload.parts.values():
        assert all(None not in (target.minimum, target.target, target.stretch) for target in targets)
    for risk in {id(risk): risk for phase in workload.phases for risk in phase.risks}.values():
        assert not isinstance(risk.probability, str) and risk.contingency.endswith("days")


def context(case: str, switches: Switches, device: torch.device = CPU, size: str = "tiny") -> CheckContext:
    shape = getattr(CASES[case], size)

    def build(**changed):
        return program.build(replace(switches, **changed), program.make_inputs(case, shape, 0), case, shape, device)

    def call(built, batch):
        return {name: value.cpu() for name, value in built.outputs(built.step(built.place(batch))).items()}

    return CheckContext(
        build=build, reference=lambda: None, run=call, inputs=lambda seed: program.make_inputs(case, shape, seed),
        switches=switches, case=case, shape=shape, device=device, rtol=1e-6, atol=1e-4,
    )  # fmt: skip


OWN_CHECKS = [check for check in workload.checks if check.name != "bitwise-repeatable"]


LONG_CHECKS = ("energy-order", "nve-drift", "time-reversible")


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.name, marks=[pytest.mark.slow] if check.name in LONG_CHECKS else [])
        for check in OWN_CHECKS
    ],
)
def test_a_right_model_passes_every_check(check) -> None:
    found = getattr(checks, check.name.replace("-", "_"))(context(check.cases[0], PLAIN))
    assert found.passed, found.message


@pytest.mark.parametrize("check", [checks.finite_differences, checks.energy_order], ids=lambda check: check.__name__)
def test_a_force_that_is_no_slope_of_the_energy_is_caught(check, monkeypatch) -> None:
    original = checks.make_engine

    def broken(*arguments, **options):
        engine = original(*arguments, **options)

        def evaluate(atoms):
            result = engine.evaluate(atoms)
            return replace(result, forces=result.forces * 1.01 + 1e-3)

        return replace(engine, evaluate=evaluate)

    monkeypatch.setattr(checks, "make_engine", broken)
    assert not check(context("aspirin", PLAIN)).passed


@pytest.mark.parametrize("where", ["find", "model", "evaluate"])
def test_a_kernel_that_adds_in_another_order_each_time_is_caught(where: str, monkeypatch) -> None:
    full = replace(Switches(**EVERYTHING), compiled=False)
    found = checks.kernels_repeatable(context("aspirin", full))
    assert found.passed and "forces" in found.message
    original, calls = checks.make_engine, []

    def broken(*arguments, **options):
        engine = original(*arguments, **options)
        calls.append(engine)
        last_bit = len(calls) * 2.0**-22

        def find(atoms):
            edges = engine.find(atoms)
            return replace(edges, r=edges.r * (1 + last_bit))

        def model(numbers, edges):
            energy, pulls = engine.model(numbers, edges)
            return energy, pulls * (1 + last_bit)

        def evaluate(atoms):
            result = engine.evaluate(atoms)
            return replace(result, forces=result.forces * (1 + last_bit))

        return replace(engine, **{where: {"find": find, "model": model, "evaluate": evaluate}[where]})

    monkeypatch.setattr(checks, "make_engine", broken)
    assert not checks.kernels_repeatable(context("aspirin", full)).passed


def test_a_trajectory_keeps_its_energy_and_a_heated_one_shows_its_slope() -> None:
    atoms = join([draw_molecule(6, 1), draw_molecule(6, 1)])
    engine = make_engine(PLAIN, small_weights(), SMALL, atoms, room=2.0)
    masses = torch.full((12,), 12.0, dtype=torch.float64)
    found = run_nve(engine, atoms, torch.zeros_like(atoms.positions), masses, steps=40, time_step=0.5)
    assert found.reason == "no graph on a CPU"
    assert (found.total - found.total[0]).abs().max() < 1e-3
    heated = replace(found, potential=found.potential + 1e-3 * found.times[:, None])
    # 1e-3 eV/fs over 6 atoms
    assert abs(fit_drift(heated, 6).slope - fit_drift(found, 6).slope - 1e9 / 6 * 1e-3) < 1e3


GPU_CASES = ("aspirin", "energy", "batch-4", "ice-1296", "list-512x64", "list-8192")


@pytest.mark.gpu
@pytest.mark.parametrize("case", GPU_CASES)
def test_on_a_gpu_the_whole_stack_in_a_graph_is_within_the_moderate_tier(case: str) -> None:
    full = replace(Switches(**EVERYTHING), graph=True)
    assert run(full, case, CASES[case].full, torch.device("cuda")) < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", ["batch-1024", "box-10k"])
def test_on_a_gpu_every_variant_is_within_the_moderate_tier(variant: str, case: str) -> None:
    if variant == "streams" and case == "box-10k":
        pytest.skip("one system has no parts")
    assert run(VARIANTS[variant], case, CASES[case].small, torch.device("cuda")) < 1e-4


@pytest.mark.gpu
def test_on_a_gpu_100k_atoms_run_and_nothing_fell_back() -> None:
    shape = CASES["box-100k"].full
    inputs = program.make_inputs("box-100k", shape, 0)
    built = program.build(replace(Switches(**EVERYTHING), graph=True), inputs, "box-100k", shape, torch.device("cuda"))
    found = built.step(built.place(inputs))
    assert built.fallbacks == ()
    assert found["forces"].isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "check", [check for check in OWN_CHECKS if check.name != "nve-drift"], ids=lambda check: check.name
)
def test_on_a_gpu_the_stack_passes_every_check(check) -> None:
    device = torch.device("cuda")
    found = getattr(checks, check.name.replace("-", "_"))(
        context(check.cases[0], Switches(**EVERYTHING), device, "small")
    )
    assert found.passed, found.message


def test_every_element_that_a_model_may_know_has_a_mass() -> None:
    masses = mass_table(CPU)
    assert len(masses) == SPECIES
    assert masses[:9].tolist()[1:] == [1.008, 4.002602, 6.94, 9.0121831, 10.81, 12.011, 14.007, 15.999]
    # heavier with each element but for argon and potassium, and their like
    assert (masses[1:].diff() <= 0).nonzero().flatten().add(1).tolist() == [18, 27, 52, 90, 92, 94, 96]
    velocities = draw_velocities(torch.tensor([9, 16, 26]), 300.0, torch.Generator().manual_seed(0))
    assert velocities.isfinite().all()


def test_masses_are_those_of_ase() -> None:
    data = pytest.importorskip("ase.data", reason="needs the package ase")
    assert mass_table(CPU)[1:].tolist() == data.atomic_masses_iupac2016[1:SPECIES].tolist()
