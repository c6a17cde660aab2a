"""Write the compressed networks that hold their gate: python -m phasewise_studies.spectral_node.product.deploy FOLDER [WEIGHTS]

Each becomes FOLDER/NAME/model.safetensors with a manifest.json beside it: what it errs, its gate and the file's hash. WEIGHTS is a
.safetensors file of a whole network; without one it is the network of the case `couple`. Needs safetensors.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from phasewise.export.manifest import write_manifest
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.spectral_node import program
from phasewise_studies.spectral_node.phases import workload
from phasewise_studies.spectral_node.product import compress

FILE = "model.safetensors"


def write_compressed(whole: Mapping[str, Tensor], folder: Path) -> dict[str, float]:
    """Write those networks that hold `compress.GATE` below `folder`; the error of each that was tried.

    The error is that of the file, read again: the largest of A(1) over the standard deviation of A(1).
    """
    from safetensors.torch import load_file, save_file

    waves = len(whole[compress.EMBEDDING])
    stored = {
        "int8": compress.encode(whole),
        "pruned": compress.to_single(compress.prune(whole, 0.25)[0]),
        "student": compress.to_single(compress.distil(whole)[0]),
    }
    errors = {}
    for name, tensors in stored.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        save_file(tensors, place / FILE)
        errors[name] = compress.absorbance_error(whole, compress.decode(load_file(place / FILE)), waves)
        if errors[name] > compress.GATE:
            (place / FILE).unlink()
            place.rmdir()
            continue
        kinds = {key: f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}" for key, value in tensors.items()}
        write_manifest(
            place,
            {"model": FILE, "error_of_A": errors[name], "gate": compress.GATE, "wavelengths": waves, "tensors": kinds},
        )
    return errors


def read_weights(path: Path) -> dict[str, Tensor]:
    """A whole network in float64.

    Raises:
        UserError: there is no such file, or it lacks a tensor.
    """
    from safetensors.torch import load_file

    if not path.is_file():
        raise UserError(f"{path}: there is no such file; give a .safetensors of a whole network, or leave it out")
    found = {name: value.double() for name, value in load_file(path).items()}
    missing = sorted(compress.NAMES - found.keys())
    if missing:
        raise UserError(
            f"{path}: {', '.join(missing)} is missing; a whole network has {', '.join(sorted(compress.NAMES))}"
        )
    return found


@report_errors
def main() -> None:
    """Parse, write, and print a line for each network."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("weights", type=Path, nargs="?")
    options = parser.parse_args()
    whole = read_weights(options.weights) if options.weights else draw_whole()
    for name, error in write_compressed(whole, options.folder).items():
        held = "written" if error <= compress.GATE else "not written, over its gate"
        print(f"{name}: errs by {error:.2%} of the spread of A (gate {compress.GATE:.0%}): {held}")


def draw_whole() -> dict[str, Tensor]:
    """The network of the case `couple`, as the check `compressed-holds` takes it."""
    inputs = program.make_inputs("couple", workload.cases["couple"].full, 0)
    return {name: inputs[name] for name in compress.NAMES}


if __name__ == "__main__":
    main()
