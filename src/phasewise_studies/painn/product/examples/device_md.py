"""Many replicas of a molecule at constant energy, wholly on the device: no list, force or position visits the host.

python -m phasewise_studies.painn.product.examples.device_md --molecule aspirin --replicas 1024 --picoseconds 100
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import torch

from phasewise.records.errors import report_errors
from phasewise_studies.painn.data import as_atoms, draw_velocities, make_molecules, mass_table
from phasewise_studies.painn.dynamics import fit_drift, run_nve
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.product.evaluator import default_switches
from phasewise_studies.painn.weights import choose_weights


@report_errors
def main() -> None:
    """Run, and fit the drift of the total energy."""
    parser = argparse.ArgumentParser(description="NVE dynamics of many replicas on the device")
    parser.add_argument("--molecule", default="ethanol")
    parser.add_argument("--replicas", type=int, default=16)
    parser.add_argument("--picoseconds", type=float, default=0.1)
    parser.add_argument("--step", type=float, default=0.5, help="femtoseconds")
    parser.add_argument("--kelvin", type=float, default=300.0)
    parser.add_argument(
        "--features", type=int, default=128, help="128 is the student, other widths have seeded weights"
    )
    given = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(0)
    batch = make_molecules((given.molecule,) * given.replicas, generator)
    velocities = draw_velocities(batch["numbers"], given.kelvin, generator).to(device)
    atoms = as_atoms({name: tensor.to(device) for name, tensor in batch.items()})
    masses = mass_table(device).index_select(0, atoms.numbers)
    weights, sizes = choose_weights(given.features)
    # the loop records its own graph
    switches = replace(default_switches(device, 0), graph=False)
    engine = make_engine(switches, weights, sizes, atoms, room=1.5)
    stride = 100 if device.type == "cuda" else 10
    steps = max(3, round(1e3 * given.picoseconds / given.step / stride)) * stride
    began = time.perf_counter()
    found = run_nve(engine, atoms, velocities, masses, steps=steps, time_step=given.step, stride=stride)
    seconds = time.perf_counter() - began
    drift = fit_drift(found, len(atoms.numbers) // given.replicas)
    print(f"{given.replicas} x {given.molecule}, {found.times[-1] / 1e3:.3g} ps on {device} in {seconds:.1f} s")
    print(f"drift {drift.slope:+.3g} +- {drift.error:.2g} meV/atom/ns, {drift.over_std:.3g} of the kinetic spread")
    print(found.reason or "one CUDA graph a stride")


if __name__ == "__main__":
    main()
