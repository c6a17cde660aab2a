"""Write trained networks for use elsewhere: each form a folder with infer.py, a manifest and example.npz, held against the whole.

torch-export and onnx hold the networks in float32; int8, pruned and distilled are torch.export programs of smaller ones, each
written only if it keeps to `compress.GATE`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from phasewise.export import scripts
from phasewise.export.formats import onnx, torch_export
from phasewise.export.formats.names import Names
from phasewise.export.manifest import write_manifest
from phasewise.model.workload import Unsupported
from phasewise.records.errors import UserError
from phasewise_studies.spectral_node.data import normalise
from phasewise_studies.spectral_node.product import compress
from phasewise_studies.spectral_node.product.run_folder import Checkpoint
from phasewise_studies.spectral_node.product.spectrum import Spectrum

FORMS = ("torch-export", "onnx", "int8", "pruned", "distilled")
# float32 against float64, in deviations of the absorbance
EXACT = 1e-4
# concentrations at which a form is held against the whole
POINTS = 33
# of the metric's second layer that pruning takes away
PRUNED = 0.25
INPUT, OUTPUT = "concentration", "absorbance"


class Answers(torch.nn.Module):
    """`Spectrum` with its output in a tuple, as infer.py reads outputs."""

    def __init__(self, module: Spectrum) -> None:
        super().__init__()
        self.module = module

    def forward(self, concentration: Tensor) -> tuple[Tensor]:
        return (self.module(concentration),)


def export_run(checkpoint: Checkpoint, into: Path, forms: Sequence[str]) -> list[str]:
    """Write `forms` below `into`; a sentence for each.

    Raises:
        UserError: a form's folder holds something already, or a package is missing.
    """
    for form in forms:
        if (into / form).exists():
            raise UserError(f"{into / form}: it is there already; delete it, or give another --into")
        missing = onnx.missing() if form == "onnx" else ""
        if missing:
            raise UserError(f"--form onnx {missing}; or give the other forms by --form")
    whole, known = checkpoint.networks(), normalise(checkpoint.spectra)
    points = torch.linspace(known.low, known.high, POINTS, dtype=torch.float64)
    with torch.no_grad():
        exact = Spectrum(whole, known, dtype=torch.float64)(points)
    told = []
    for form in forms:
        stored = _store(form, whole)
        module = Spectrum(stored, known, dtype=torch.float32)
        gate = EXACT if form in FORMS[:2] else compress.GATE
        into.mkdir(parents=True, exist_ok=True)
        # a folder appears whole, or not at all
        with TemporaryDirectory(dir=into) as scratch:
            folder = Path(scratch) / form
            folder.mkdir()
            target = onnx if form == "onnx" else torch_export
            found = _write(module, target, folder, points.float())
            error = float((found.double() - exact).abs().max()) / known.deviation
            size = sum(tensor.numel() * tensor.element_size() for tensor in stored.values())
            if not error <= gate:
                told.append(
                    f"{form}: not written, it errs by {error:.2%} of the deviation of the absorbance (gate {gate:.2%})"
                )
                continue
            write_manifest(
                folder,
                {
                    "form": form, "target": "onnx" if form == "onnx" else "torch-export", "model": target.FILE, "imports": [],
                    "operators": [], "device": "cpu", "matmul_precision": "highest",
                    "inputs": [{"name": INPUT, "dtype": "float32", "shape": "*"}],
                    "outputs": [{"name": OUTPUT, "dtype": "float32", "shape": f"*, {found.shape[1]}"}],
                    "quantity": checkpoint.spectra.quantity, "from": known.low, "to": known.high,
                    "channels": checkpoint.spectra.channels.tolist(), "epochs": len(checkpoint.losses),
                    "largest_error": error, "gate": gate, "bytes_of_networks": size, "versions": {"torch": torch.__version__},
                },
            )  # fmt: skip
            folder.rename(into / form)
        told.append(
            f"{form}: written, errs by {error:.2g} of the deviation of the absorbance, networks of {size} bytes"
        )
    return told


def _store(form: str, whole: dict[str, Tensor]) -> dict[str, Tensor]:
    """The networks as a form keeps them."""
    if form == "int8":
        return compress.encode(whole)
    if form == "pruned":
        return compress.to_single(compress.prune(whole, PRUNED)[0])
    if form == "distilled":
        return compress.to_single(compress.distil(whole)[0])
    return compress.to_single(whole)


def _write(module: Spectrum, target: object, folder: Path, points: Tensor) -> Tensor:
    """Write model, script and example into `folder`; what the script itself makes of `points`, read again from the folder."""
    count = torch.export.Dim("spectra", min=1)
    try:
        with torch.no_grad():
            exported = torch.export.export(Answers(module), (points,), dynamic_shapes=({0: count},), strict=False)
        target.write(exported, Names((INPUT,), (OUTPUT,), ("float32", "float32")), folder)
    except Unsupported as error:
        raise UserError(f"{folder.name}: {error}; give the other forms by --form") from error
    shutil.copyfile(Path(scripts.__file__).parent / "infer.py", folder / "infer.py")
    np.savez(folder / "example.npz", **{INPUT: points.numpy()})
    if target is onnx:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(folder / onnx.FILE), providers=["CPUExecutionProvider"])
        return torch.from_numpy(session.run(None, {INPUT: points.numpy()})[0])
    return torch.export.load(folder / torch_export.FILE).module()(points)[0]
