"""The forms of an export: one file each, with the same names.

- `missing()`: "" if the form can be written on this machine, else why not and what would cure that.
- `write(exported, names, folder)`: write an `ExportedProgram` of positional tensors into the empty `folder`; `names`
  says what its inputs and outputs are called. Raises Unsupported with one sentence where the form can't hold the program.
- `FILE`: the model's file. `IMPORTS`: modules that its runtime needs besides.

`phasewise/export/scripts/infer.py` loads and runs it; the reload uses the copy beside the export.

A form more is one file and one line here.
"""

from __future__ import annotations

from types import ModuleType

from phasewise.export.formats import aotinductor, onnx, tensorrt, torch_export

FORMATS: dict[str, ModuleType] = {
    "torch-export": torch_export,
    "aotinductor": aotinductor,
    "onnx": onnx,
    "tensorrt": tensorrt,
}
