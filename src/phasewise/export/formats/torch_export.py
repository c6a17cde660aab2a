"""A torch.export program: the graph as JSON and the weights as raw bytes in one .pt2 archive.

The archive format can also hold pickles: of the example inputs, and of weights that are tensor subclasses. The first
are dropped before saving, the second refused, and the script that loads the archive refuses both.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.export import ExportedProgram

from phasewise.export.capture import first_line
from phasewise.export.formats.names import Names
from phasewise.model.workload import Unsupported

IMPORTS: tuple[str, ...] = ()
FILE = "model.pt2"


def missing() -> str:
    """Nothing but torch is needed."""
    return ""


def write(exported: ExportedProgram, names: Names, folder: Path) -> None:
    """Save the program without its example inputs; raises Unsupported where it can't be serialised without pickle."""
    for name, tensor in {**exported.state_dict, **exported.constants}.items():
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise Unsupported(
                f"weight {name!r} is a {type(tensor).__name__}, which a .pt2 archive could only hold as a pickle"
            )
    examples = exported.example_inputs
    exported.example_inputs = None
    try:
        torch.export.save(exported, folder / FILE)
    # SerializeError, for values and operators that the archive has no form for, is a RuntimeError
    except RuntimeError as error:
        raise Unsupported(f"torch.export can't save the program: {first_line(error)}") from error
    finally:
        exported.example_inputs = examples
