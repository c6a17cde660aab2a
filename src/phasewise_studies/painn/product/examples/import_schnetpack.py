"""Turn a schnetpack model into a checkpoint of ours: `<out>.safetensors` and `<out>.json`.

    python -m phasewise_studies.painn.product.examples.import_schnetpack best_model out/my-painn --trust

`best_model` is a pickled module: loading it runs code of whoever wrote it, so `--trust` only files of your own. A state dict saved by
`torch.save(model.state_dict(), ...)`, or a `.ckpt` of Lightning without hyperparameters of its own classes, needs no trust. Cutoff,
basis and offsets are read from the state. Units have to be eV and Angstrom.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from phasewise.records.errors import report_errors
from phasewise_studies.painn.product.files import refuse_existing
from phasewise_studies.painn.product.schnetpack_state import from_schnetpack, known_elements, read_sizes, read_state
from phasewise_studies.painn.weights import checkpoint_file, save_model


@report_errors
def main() -> None:
    """Read, map, check shapes, write."""
    parser = argparse.ArgumentParser(description="Import PaiNN weights from schnetpack")
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cutoff", type=float, help="A; only for a state that does not tell it")
    parser.add_argument("--basis", choices=("gaussian", "bessel"), help="only for a state that does not tell it")
    parser.add_argument("--trust", action="store_true", help="the file is a pickled module of your own: load it")
    given = parser.parse_args()

    refuse_existing(*(checkpoint_file(given.out, ending) for ending in (".json", ".safetensors")))
    state = read_state(given.model, given.trust)
    sizes = read_sizes(state, given.cutoff, given.basis)
    weights = from_schnetpack(state, sizes)
    save_model(given.out, weights, sizes, {"source": given.model.name}, known_elements(state))
    offsets = "with" if weights["atomref"].any() else "without"
    print(
        f"{checkpoint_file(given.out, '.safetensors')} and .json: {sizes.features} features, {sizes.layers} layers, {sizes.radial} {sizes.basis} functions "
        f"up to {sizes.cutoff:g} A, {offsets} energies of atoms alone"
    )


if __name__ == "__main__":
    main()
