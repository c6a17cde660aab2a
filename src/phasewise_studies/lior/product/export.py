"""The trained step as files that run without Phasewise: torch.export and ONNX, each read back and compared, and a script."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.lior.data import BATCH
from phasewise_studies.lior.product.step import Step
from phasewise_studies.lior.window import COORDINATES, Sizes

# of the largest entry, or of one
CLOSE = 1e-4
# it is copied to where neither Phasewise nor this study is
SCRIPT = '''"""python run_step.py DATA.safetensors OUT.safetensors: one trained step; needs torch and safetensors only."""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

rows = load_file(sys.argv[1])
step = torch.export.load(Path(__file__).with_name("step.pt2")).module()
found = step(*(rows[name][:{batch}].float() for name in ("tokens", "targets", "values")))
save_file({{name: tensor.contiguous() for name, tensor in found.items()}}, sys.argv[2])
print(", ".join(f"{{name}} {{tuple(tensor.shape)}}" for name, tensor in found.items()))
'''


def export_step(state: Mapping[str, Tensor], sizes: Sizes, folder: Path) -> list[str]:
    """Write step.pt2, step.onnx where onnx is installed, and run_step.py; a line for each.

    :raises UserError: a file, read back, gives other numbers than the step
    """
    step = Step(state, sizes, torch.device("cpu")).eval()
    generator = torch.Generator().manual_seed(0)
    widths = {"tokens": COORDINATES, "targets": COORDINATES, "values": sizes.state}
    example = tuple(torch.randn(sizes.batch, widths[name], generator=generator) for name in BATCH)
    with torch.no_grad():
        exact = step(*example)
        program = torch.export.export(step, example)
    folder.mkdir(parents=True)
    torch.export.save(program, folder / "step.pt2")
    again: Callable[..., dict[str, Tensor]] = torch.export.load(folder / "step.pt2").module()
    lines = [f"{folder / 'step.pt2'}: off by {compare('step.pt2', again(*example), exact):.1e}, read back"]
    if importlib.util.find_spec("onnxscript") and importlib.util.find_spec("onnxruntime"):
        lines.append(_export_onnx(program, example, exact, folder / "step.onnx"))
    else:
        lines.append(f"{folder / 'step.onnx'}: not written, onnxscript and onnxruntime are not installed")
    (folder / "run_step.py").write_text(SCRIPT.format(batch=sizes.batch))
    return [*lines, f"{folder / 'run_step.py'}: runs step.pt2 on the first {sizes.batch} rows of a file"]


def _export_onnx(
    program: torch.export.ExportedProgram, example: tuple[Tensor, ...], exact: Mapping[str, Tensor], path: Path
) -> str:
    import onnxruntime

    torch.onnx.export(program, (), path, input_names=list(BATCH), output_names=list(exact), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(list(exact), {name: tensor.numpy() for name, tensor in zip(BATCH, example, strict=True)})
    named = {name: torch.from_numpy(tensor) for name, tensor in zip(exact, found, strict=True)}
    return f"{path}: off by {compare('step.onnx', named, exact):.1e}, in ONNX Runtime"


def compare(file: str, found: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> float:
    """The worst difference of any output, relative where an entry is over one.

    :raises UserError: it is over 1e-4
    """
    worst = max(float(((found[name] - exact[name]).abs() / exact[name].abs().clamp(min=1)).max()) for name in exact)
    if not worst <= CLOSE:
        raise UserError(
            f"{file}: off by {worst:.1e} from the trained step, and at most {CLOSE:.0e} is allowed; do not use it."
        )
    return worst
