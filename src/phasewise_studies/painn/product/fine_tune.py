"""Train a model further on labelled frames of your own molecules.

    python -m phasewise_studies.painn.product.fine_tune --frames own.xyz --from student --out out/mine

Frames are extended XYZ (or what else ase reads) with energies in eV and forces in eV/Angstrom. The same command goes on where a
stopped one last saved. Reference energies of the elements are shifted to the new labels first, so their zero of energy may be another.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.painn.layout import Sizes, Weights
from phasewise_studies.painn.product.files import amount, digest_files, digest_model, model_path, whole
from phasewise_studies.painn.product.molecules import need_ase
from phasewise_studies.painn.product.own_frames import Keys, Part, Scales, read_frames, split_own
from phasewise_studies.painn.product.trainer import fit_atomref, place_frames, predict_frames
from phasewise_studies.painn.product.training_run import Settings, train
from phasewise_studies.painn.weights import STUDENT, load_elements, load_model

UNITS = (("--length-unit", "Angstrom"), ("--energy-unit", "eV"), ("--force-unit", "eV/Angstrom"))


def predict_own(
    weights: Weights, sizes: Sizes, frames: dict[str, Part], device: torch.device
) -> dict[str, tuple[Tensor, Tensor]]:
    """By molecule what a model says: energies (M,) float64 with their reference, forces (M, N, 3)."""
    single = {name: tensor.float().to(device) for name, tensor in weights.items()}
    found = {}
    for name, part in frames.items():
        energies, forces = predict_frames(single, sizes, place_frames(part, weights["atomref"], device))
        found[name] = energies.cpu().double() + weights["atomref"][part["numbers"]].sum(), forces.cpu()
    return found


def shift_atomref(atomref: Tensor, frames: dict[str, Part], expected: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
    """Reference energies (100,) that meet the new labels' zero of energy; elements that are not there keep theirs."""
    rest = {name: {**part, "energies": part["energies"] - expected[name][0]} for name, part in frames.items()}
    return atomref + fit_atomref(rest)


def read_options() -> argparse.Namespace:
    """What was given on the command line."""
    parser = argparse.ArgumentParser(description="Train a PaiNN checkpoint further on labelled frames of your own")
    parser.add_argument("--frames", type=Path, nargs="+", required=True, help="extended XYZ, or what else ase reads")
    parser.add_argument(
        "--from", dest="base", type=model_path, default=STUDENT, help="a checkpoint, or student (default)"
    )
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint to write")
    parser.add_argument("--steps", type=whole, default=4000)
    parser.add_argument("--each", type=whole, default=4, help="frames of each molecule in a step")
    parser.add_argument("--rate", type=amount, default=5e-4, help="what Adam's rate comes down from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-every", type=whole, default=200, help="steps between saves")
    parser.add_argument("--energy-key", default="energy", help="where frames keep their energy, such as REF_energy")
    parser.add_argument("--forces-key", default="forces", help="where frames keep their forces")
    for option, wanted in UNITS:
        parser.add_argument(option, help=f"{wanted}, and checked, where none is named; one that is named is believed")
    parser.add_argument("--device", default="", help="by default the GPU where there is one")
    return parser.parse_args()


def choose_unit(given: str | None, table: dict[str, float], option: str) -> float:
    """What a named unit is in the first one of the table; raises UserError for one that is not there."""
    if given is not None and given not in table:
        raise UserError(f"{option}: {given!r} is none; {', '.join(table)} are allowed")
    return 1.0 if given is None else table[given]


@report_errors
def main() -> None:
    """Read and check, train, and say how large the errors were and are."""
    given = read_options()
    need_ase()
    # a module of ase's own units
    from phasewise_studies.painn.product import units

    device = choose_device(given.device)
    weights, sizes = load_model(given.base)
    scales = Scales(
        length=choose_unit(given.length_unit, units.LENGTHS, "--length-unit"),
        energy=choose_unit(given.energy_unit, units.ENERGIES, "--energy-unit"),
        forces=choose_unit(given.force_unit, units.FORCES, "--force-unit"),
    )
    elements = load_elements(given.base)
    frames = read_frames(given.frames, elements, Keys(energy=given.energy_key, forces=given.forces_key), scales)
    told = f"{scales.length:g} {scales.energy:g} {scales.forces:g} {given.energy_key} {given.forces_key}"
    settings = Settings(
        frames=f"{digest_files(given.frames)} in {told}", base=digest_model(given.base), steps=given.steps, each=given.each,
        rate=given.rate, seed=given.seed,
    )  # fmt: skip
    molecules = split_own(frames)
    if given.length_unit is None:
        units.check_lengths(frames)
    kept = {name: part for name, (part, _) in molecules.items()}
    expected = predict_own(weights, sizes, kept, device)
    named = frozenset(
        kind for kind, unit in (("energy", given.energy_unit), ("forces", given.force_unit)) if unit is not None
    )
    units.check_labels(kept, expected, named)
    start = {**weights, "atomref": shift_atomref(weights["atomref"], kept, expected)}
    for name, (part, held) in molecules.items():
        print(
            f"{name}: {len(part['energies'])} frames to train on, {0 if held is None else len(held['energies'])} held out"
        )
    train(
        molecules, start, sizes, settings, out=given.out, device=device,
        about={"from": given.base.name, "frames": [path.name for path in given.frames]}, elements=set(elements),
        save_every=given.save_every,
    )  # fmt: skip


if __name__ == "__main__":
    main()
