"""Capture a module with torch.export, and say what in the captured graph other runtimes may lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.export import Dim, ExportedProgram

from phasewise.export.call import Flat
from phasewise.model.workload import Unsupported

# namespaces of operators that PyTorch itself defines
KNOWN = frozenset({"aten", "prim", "prims"})


def capture(module: Flat, examples: Sequence[Sequence[torch.Tensor]]) -> ExportedProgram:
    """The exported program of `module` at the first example; sizes that differ among `examples` stay dynamic.

    Raises:
        Unsupported: the module can't be captured, with the first line of the reason.
    """
    dynamic = varying_sizes(examples)
    shapes = (tuple(dynamic),) if any(dynamic) else None
    try:
        return torch.export.export(module, tuple(examples[0]), dynamic_shapes=shapes, strict=False)
    except torch.OutOfMemoryError:
        raise
    # what tracing can't follow ends in a RuntimeError (data-dependent flow, Dynamo) or, for shapes, in a ValueError
    except (RuntimeError, ValueError) as error:
        raise Unsupported(f"torch.export can't capture the module: {first_line(error)}") from error


def varying_sizes(examples: Sequence[Sequence[torch.Tensor]]) -> list[dict[int, object]]:
    """For each tensor of the first example the axes whose size differs in another example, marked `Dim.AUTO`."""
    return [
        {
            axis: Dim.AUTO
            for axis, size in enumerate(tensor.shape)
            if any(other[index].shape[axis] != size for other in examples[1:])
        }
        for index, tensor in enumerate(examples[0])
    ]


def foreign_operators(exported: ExportedProgram) -> tuple[str, ...]:
    """Names of operators that PyTorch does not bring, such as `mine::scan`."""
    targets = (node.target for module in _graphs(exported) for node in module.graph.nodes if node.op == "call_function")
    overloads = (target for target in targets if isinstance(target, torch._ops.OpOverload))
    return tuple(sorted({target.name().partition(".")[0] for target in overloads if target.namespace not in KNOWN}))


def complex_values(exported: ExportedProgram) -> tuple[str, ...]:
    """Names of the graph's nodes, inputs included, whose value is complex."""
    nodes = (node for module in _graphs(exported) for node in module.graph.nodes)
    return tuple(node.name for node in nodes if _is_complex(node.meta.get("val")))


def first_line(error: BaseException, limit: int = 240) -> str:
    """The first line of an error's message, or its type where it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:limit] if lines else type(error).__name__


def _graphs(exported: ExportedProgram) -> Iterator[torch.fx.GraphModule]:
    yield from (module for module in exported.graph_module.modules() if isinstance(module, torch.fx.GraphModule))


def _is_complex(value: object) -> bool:
    values = value if isinstance(value, tuple | list) else (value,)
    return any(isinstance(item, torch.Tensor) and item.is_complex() for item in values)
