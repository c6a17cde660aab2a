"""What must hold of any right result: symmetries, conservation laws, and lists that refuse to be too short."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from phasewise import Chart, CheckContext, Checked, Quantity, Series
from phasewise_studies.painn import reference
from phasewise_studies.painn.assembly import Result
from phasewise_studies.painn.data import as_atoms, draw_velocities, mass_table
from phasewise_studies.painn.dynamics import Trajectory, fit_drift, run_nve
from phasewise_studies.painn.engine import Engine, make_engine
from phasewise_studies.painn.layout import Atoms
from phasewise_studies.painn.program import to_device
from phasewise_studies.painn.streams import split_systems
from phasewise_studies.painn.weights import choose_weights

# eV and eV/A: float32 through three layers, with room for sums of a thousand terms
SMALL = 1e-4
# finite differences in float64 of the float64 energy: step in A, and what the step itself leaves
STEP, TRUNCATION = 1e-4, 1e-6
# atoms whose three forces are held against the slope of the energy
PROBED = 3
KELVIN = 300.0
# replicas and femtoseconds of the drift on a GPU: 100 ps; on a CPU only that it runs and stays
REPLICAS, LONG_FS, SHORT_FS = 64, 100_000.0, 100.0
# of the order: time steps in fs that resolve the 11 fs of a C-H bond (2 fs don't), and replicas, as one may come near a collision
ORDER_STEPS, ORDER_REPLICAS = (1.0, 0.5), 5
# nearer to 4 than to 2 or 8, the ratios of first and third order
SECOND_ORDER = (2 * 2**0.5, 4 * 2**0.5)


def momentum(context: CheckContext) -> Checked:
    """Forces of a system add up to 0."""
    atoms = _atoms(context, 11)
    forces = _evaluate(context, atoms).forces
    assert forces is not None, "the cases of this check have forces"
    total = torch.zeros(len(atoms.start) - 1, 3, dtype=torch.float64, device=forces.device)
    total = total.index_add(0, atoms.system, forces)
    largest = float(total.abs().max())
    return _judge(largest <= SMALL, "largest sum of forces", largest, "eV/A")


def symmetries(context: CheckContext) -> Checked:
    """Turned, moved and renumbered systems have the same energy, and forces that turn and move with them."""
    atoms = _atoms(context, 12)
    turn = torch.linalg.qr(torch.tensor([[1.0, 2, 0.5], [-0.3, 1, 2], [2, -1, 1]], dtype=torch.float64))[0]
    turn = (turn * torch.sign(torch.linalg.det(turn))).to(context.device)
    order = torch.arange(len(atoms.numbers) - 1, -1, -1, device=context.device)
    base = _evaluate(context, atoms)
    turned = _evaluate(context, replace(atoms, positions=atoms.positions @ turn.T + 100.0))
    worst = max(_apart(turned.forces, base.forces @ turn.T), _apart(turned.energy, base.energy))
    if len(atoms.start) == 2:
        shuffled = _evaluate(context, replace(atoms, positions=atoms.positions[order], numbers=atoms.numbers[order]))
        worst = max(worst, _apart(shuffled.forces, base.forces[order]), _apart(shuffled.energy, base.energy))
    return _judge(worst <= SMALL, "largest change", worst, "eV or eV/A")


def smooth_at_cutoff(context: CheckContext) -> Checked:
    """No jump of energy or force where an atom crosses the cutoff: a jump is a force that no kernel can mend."""
    _, sizes = choose_weights(context.shape.features)
    found = []
    for d in (sizes.cutoff - 1e-5, sizes.cutoff + 1e-5):
        positions = torch.tensor([[0.0, 0, 0], [1.1, 0, 0], [d, 0, 0]], dtype=torch.float64)
        numbers = torch.tensor([8, 1, 6])
        found.append(_evaluate(context, _molecule(positions, numbers, context.device)))
    jump = max(_apart(found[0].energy, found[1].energy), _apart(found[0].forces, found[1].forces))
    return _judge(jump <= SMALL, "jump over 2e-5 A", jump, "eV or eV/A")


def batch_equals_single(context: CheckContext) -> Checked:
    """A system in a batch has the energy and forces that it has alone."""
    batch = context.inputs(13)
    whole = context.run(context.build(compiled=False), batch)
    parts = split_systems(batch, len(batch["start"]) - 1)
    worst, begin = 0.0, 0
    for index, part in enumerate(parts[:4]):
        alone = _evaluate(context, as_atoms(to_device(part, context.device)))
        forces = whole["forces"][begin : begin + len(part["numbers"])]
        begin += len(part["numbers"])
        worst = max(worst, _apart(alone.forces, forces), _apart(alone.energy, whole["energy"][index : index + 1]))
    return _judge(worst <= SMALL, "largest difference", worst, "eV or eV/A")


def padded_equals_unpadded(context: CheckContext) -> Checked:
    """Empty places of the list add exactly nothing."""
    atoms = _atoms(context, 14)
    tight, wide = (_engine(context, atoms, room=room).evaluate(atoms) for room in (1.0, 2.0))
    worst = max(_apart(tight.energy, wide.energy), _apart(tight.forces, wide.forces))
    return _judge(worst <= 1e-6, "largest difference", worst, "eV or eV/A")


def overflow_refused(context: CheckContext) -> Checked:
    """With more edges than places the result is NaN, never a wrong number."""
    atoms = _atoms(context, 15)
    engine = _engine(context, atoms, room=0.5)
    if engine.capacity == 0:
        return Checked(passed=True, message="the list is as long as it has to be")
    result = engine.evaluate(atoms)
    refused = bool(result.energy.isnan().all()) and bool(result.forces.isnan().all())
    return Checked(
        passed=refused, message="NaN, as it must be" if refused else "numbers came out of a list that was too short"
    )


def kernels_repeatable(context: CheckContext) -> Checked:
    """What the variant's own kernels give is bit-equal in two fresh engines; plain scatters beside them add in any order on a GPU."""
    atoms = _atoms(context, 19)
    one, two = (_kernel_results(context, atoms) for _ in range(2))
    unlike = [name for name, tensor in one.items() if not torch.equal(tensor, two[name])]
    return Checked(
        passed=not unlike,
        message=f"{', '.join(unlike)} differ in two engines"
        if unlike
        else f"{', '.join(one)}: bit-equal in two engines",
    )


def _kernel_results(context: CheckContext, atoms: Atoms) -> dict[str, Tensor]:
    """The list; pulls and energies where the messages are ours; forces where every sum on their way is."""
    engine, on = _engine(context, atoms), context.switches
    edges = engine.find(atoms)
    found = {"row_ptr": edges.row_ptr, "i": edges.i, "j": edges.j, "r": edges.r}
    if on.message == "triton":
        energy, pulls = engine.model(atoms.numbers, edges)
        assert pulls is not None, "the engines of checks have forces"
        # empty places are left as they were
        found |= {"energies of atoms": energy, "pulls": pulls[..., : int(edges.row_ptr[-1]), :]}
        if on.assembly == "triton":
            result = engine.evaluate(atoms)
            assert result.forces is not None, "the engines of checks have forces"
            found |= {"energy": result.energy, "forces": result.forces}
    return found


def finite_differences(context: CheckContext) -> Checked:
    """Forces are the slope of the float64 energy."""
    atoms = _atoms(context, 16)
    forces = _evaluate(context, atoms).forces
    weights, sizes = choose_weights(context.shape.features)
    weights = {name: tensor.to(context.device) for name, tensor in weights.items()}

    def energy(positions: Tensor) -> float:
        moved = replace(atoms, positions=positions)
        found, _ = reference.energy_and_forces(moved, *reference.find_neighbours(moved, sizes.cutoff), weights, sizes)
        return float(found.sum())

    worst = 0.0
    for atom in range(0, len(atoms.numbers), max(1, len(atoms.numbers) // PROBED)):
        for axis in range(3):
            ends = []
            for sign in (-1, 1):
                positions = atoms.positions.clone()
                positions[atom, axis] += sign * STEP
                ends.append(energy(positions))
            worst = max(worst, abs((ends[0] - ends[1]) / (2 * STEP) - float(forces[atom, axis])))
    return _judge(worst <= SMALL + TRUNCATION, "largest difference", worst, "eV/A")


def nve_drift(context: CheckContext) -> Checked:
    """Total energy over time at constant energy: slope with its standard error, and what it is of the kinetic spread."""
    on_gpu = context.device.type == "cuda"
    time_step = 0.5
    steps = int((LONG_FS if on_gpu else SHORT_FS) / time_step)
    found, atoms_each = _run(
        context, steps, time_step, stride=100 if on_gpu else 10, replicas=REPLICAS if on_gpu else 1
    )
    drift = fit_drift(found, atoms_each)
    total = (found.total - found.total[0]).mean(1) * 1e3 / atoms_each
    lost = int((~found.total[-1].isfinite()).sum())
    # one replica, as on a CPU, has no standard error
    error = {"drift_error": Quantity(value=drift.error, unit="meV/atom/ns")} if math.isfinite(drift.error) else {}
    return Checked(
        passed=drift.over_std < 1.0,
        message=(
            f"{f'{lost} of {found.total.shape[1]} replicas ended in NaN: ' if lost else ''}"
            f"{drift.slope:+.3g} {f'+- {drift.error:.2g} ' if error else ''}meV/atom/ns over {found.times[-1] / 1e3:.3g} ps, "
            f"{drift.over_std:.3g} of the spread of the kinetic energy"
        ),
        numbers={
            "drift": Quantity(value=drift.slope, unit="meV/atom/ns"),
            **error,
            "drift_over_std": Quantity(value=drift.over_std),
            "energy_spread": Quantity(value=1e3 * drift.spread, unit="meV"),
        },
        chart=Chart(
            title="Total energy at constant energy", x_title="time (ps)", y_title="mean change (meV/atom)",
            series=(Series(label=context.case, x=tuple((found.times / 1e3).tolist()), y=tuple(total.tolist())),),
        ),
    )  # fmt: skip


def time_reversible(context: CheckContext) -> Checked:
    """Forth, velocities turned round, and back to where it began."""
    steps = 50
    atoms = _atoms(context, 17)
    masses, velocities = _motion(atoms)
    engine = _engine(context, atoms, room=2.0)
    there = run_nve(engine, atoms, velocities, masses, steps=steps, time_step=0.5)
    back = run_nve(
        engine, replace(atoms, positions=there.positions), -there.velocities, masses, steps=steps, time_step=0.5
    )
    error = _apart(back.positions, atoms.positions)
    moved = _apart(there.positions, atoms.positions)
    return _judge(error <= 1e-3 * moved, "distance from the start after going back", error, "A")


def energy_order(context: CheckContext) -> Checked:
    """The spread of the total energy falls as the square of the time step."""
    spreads = []
    for time_step in ORDER_STEPS:
        steps, stride = int(SHORT_FS / time_step), int(2 / time_step)
        found, _ = _run(context, steps, time_step, stride=stride, replicas=ORDER_REPLICAS)
        spreads.append(found.total.std(0))
    order = float((spreads[0] / spreads[1]).median())
    wide, narrow = (1e3 * float(spread.median()) for spread in spreads)
    return Checked(
        passed=SECOND_ORDER[0] <= order <= SECOND_ORDER[1],
        message=f"half the step, spread {wide:.3g} -> {narrow:.3g} meV: {order:.2f} times less, 4 is the square",
        numbers={"spread_ratio": Quantity(value=order)},
    )


def _run(context: CheckContext, steps: int, time_step: float, *, stride: int, replicas: int) -> tuple[Trajectory, int]:
    one = _atoms(context, 18)
    count = len(one.numbers)
    atoms = Atoms(
        one.positions.repeat(replicas, 1), one.numbers.repeat(replicas),
        torch.arange(replicas, device=context.device).repeat_interleave(count).int(),
        (torch.arange(replicas + 1, device=context.device) * count).int(),
    )  # fmt: skip
    masses, velocities = _motion(atoms)
    engine = _engine(context, atoms, room=2.0)
    return run_nve(engine, atoms, velocities, masses, steps=steps, time_step=time_step, stride=stride), count


def _motion(atoms: Atoms) -> tuple[Tensor, Tensor]:
    masses = mass_table(atoms.positions.device).index_select(0, atoms.numbers)
    velocities = draw_velocities(atoms.numbers.cpu().long(), KELVIN, torch.Generator().manual_seed(5))
    return masses, velocities.to(atoms.positions.device)


def _engine(context: CheckContext, atoms: Atoms, *, room: float = 1.25) -> Engine:
    """The variant's own parts, launched one by one: its graph and compiled parts are held to the reference by the gate."""
    weights, sizes = choose_weights(context.shape.features)
    switches = replace(context.switches, compiled=False, graph=False, streams=1, tuned=False)
    return make_engine(switches, weights, sizes, atoms, room=room)


def _evaluate(context: CheckContext, atoms: Atoms) -> Result:
    return _engine(context, atoms).evaluate(atoms)


def _atoms(context: CheckContext, seed: int) -> Atoms:
    return as_atoms(to_device(context.inputs(seed), context.device))


def _molecule(positions: Tensor, numbers: Tensor, device: torch.device) -> Atoms:
    zeros = torch.zeros(len(numbers), dtype=torch.int32, device=device)
    start = torch.tensor([0, len(numbers)], dtype=torch.int32, device=device)
    return Atoms(positions.to(device), numbers.int().to(device), zeros, start)


def _apart(one: Tensor | None, two: Tensor | None) -> float:
    assert one is not None and two is not None, "forces were asked for"
    return float((one.cpu() - two.cpu()).abs().max().nan_to_num(nan=float("inf")))


def _judge(passed: bool, what: str, value: float, unit: str) -> Checked:
    return Checked(
        passed=passed, message=f"{what}: {value:.2g} {unit}",
        numbers={what.replace(" ", "_"): Quantity(value=value, unit=unit)},
    )  # fmt: skip
